package lockcmd

import (
	"slices"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zktest"
)

// servers --compare reads a queue from all three servers of an ensemble although the connect
// string names one, with the credentials of the session, and names a server that it cannot read.
func TestCompareServers(t *testing.T) {
	servers := zktest.Ensemble(t, 3)
	b := newFixture(t, servers[0].Addr())
	zktest.Must(t, b.AddAuth(zktest.Within(t), "digest", []byte("u:p")))
	b.create(b.Session, "/"+uuid+"-lock-0000000001", "private", zk.AuthACL(zk.PermAll), true)
	b.addContenders(uuid2 + "-lock-0000000002")
	want := "3 of 3 members agree on " + b.root + " (3 znodes)\n"
	if got := runCommand(t, b.Session, render.Text, 0, "servers", "--compare", b.root).Printed(); got != want {
		t.Error(got)
	}
	follower := servers[1]
	if follower.Leads() {
		follower = servers[2]
	}
	follower.Stop()
	got := runCommand(t, b.Session, render.Text, 1, "servers", "--compare", b.root).Printed()
	if !strings.HasPrefix(got, follower.Addr()+" could not be read: ") || !strings.HasSuffix(got, "\n2 of 3 members agree on "+b.root+" (3 znodes)\n") {
		t.Error(got)
	}
}

// Two servers that are not an ensemble differ, which -q reports only by the exit status.
func TestCompareDifferentServers(t *testing.T) {
	one, two := zktest.Sandbox(t, sandbox.Options{}), zktest.Sandbox(t, sandbox.Options{})
	b := newFixture(t, one.Addr())
	both := open(t, one.Addr()+","+two.Addr(), usualTimeout)
	got := runCommand(t, both, render.Text, 1, "servers", "--compare", b.root)
	rows := []string{b.root + "  exists  yes    " + one.Addr(), b.root + "  exists  no     " + two.Addr()}
	if one.Addr() > two.Addr() {
		slices.Reverse(rows)
	}
	_, text, _ := strings.Cut(got.Printed(), "\n")
	if want := strings.Join(rows, "\n") + "\n2 of 2 members were read, and they disagree on " + b.root + " (1 znode)\n"; text != want {
		t.Errorf("%s\nwant %s", text, want)
	}
	if got := runCommand(t, both, render.Text, 1, "servers", "-q", "--compare", b.root).Printed(); got != "" {
		t.Error(got)
	}
	if got := runCommand(t, both, render.JSON, 0, "servers", "--compare", "/none").Printed(); !strings.HasPrefix(got, `{"path":"/none","agree":true,"znodes":0,"members":[{"server":`) {
		t.Error(got)
	}
}
