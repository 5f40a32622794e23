package queue

import (
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/google/go-cmp/cmp"
)

// A queue is called free only if it certainly is.
func TestUnknownRecipes(t *testing.T) {
	const aiozk, solr = "/l/lock-" + hex32 + "-0000000002", "/l/123-node-n_0000000001"
	stable := func(f *fakeEnsemble, paths ...string) {
		for _, p := range paths {
			f.make(0, "message", p)
		}
	}
	for name, c := range map[string]struct {
		make    func(f *fakeEnsemble)
		state   string
		rows    string
		remarks string
	}{
		"free": {func(f *fakeEnsemble) { stable(f, "/l") }, "free", "", ""},
		"single": {func(f *fakeEnsemble) { f.make(3, `{"brokerid":1}`, "/l") }, "held", "holds 0x3 /l {\"brokerid\":1}",
			"/l is itself ephemeral: the session that owns it holds the lock until it ends or deletes the znode; clients that wait for it create no znodes"},
		"TTL": {func(f *fakeEnsemble) { f.znodes["/l"] = Node{Stat: &zk.Stat{Czxid: 1, EphemeralOwner: -1 << 56}} }, "free", "", ""},
		"strangers": {func(f *fakeEnsemble) { stable(f, "/l", "/l/config"); f.make(4, "ann", aiozk); f.make(5, "", solr) },
			"unknown", "unknown 0x5 123-node-n_0000000001 , unknown 0x4 lock-" + hex32 + "-0000000002 ann", "ignored: config"},
		"unreadable stranger": {func(f *fakeEnsemble) { stable(f, "/l"); f.znodes[solr] = Node{Hidden: true, Stat: &zk.Stat{}} },
			"unknown", "unknown  123-node-n_0000000001 unreadable", ""},
		"persistent":     {func(f *fakeEnsemble) { stable(f, "/l", solr) }, "free", "", "ignored: 123-node-n_0000000001"},
		"without number": {func(f *fakeEnsemble) { stable(f, "/l"); f.add("/l/member-7") }, "free", "", "ignored: member-7"},
		"beside a lock": {func(f *fakeEnsemble) { stable(f, "/l"); f.add(solr, "/l/"+uuid+"-lock-0000000007") },
			"held", "holds 0x1 " + uuid + "-lock-0000000007 ",
			"ignored: 123-node-n_0000000001; ephemeral znodes of an unknown recipe among them: 1"},
	} {
		f := newFakeEnsemble()
		c.make(f)
		q := f.read(t)
		var rows []string
		for _, who := range q.Contenders {
			rows = append(rows, strings.Join([]string{who.State, who.Session, who.Node, who.Who}, " "))
		}
		if got := strings.Join(rows, ", "); q.State != c.state || got != c.rows || q.Free() != (c.state == "free") {
			t.Errorf("%s: %s: %s", name, q.State, got)
		}
		if got := strings.Join(q.Remarks(), "; "); got != c.remarks {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestTextOfUnknownRecipe(t *testing.T) {
	f := newFakeEnsemble()
	f.make(0, "", "/l")
	f.add("/l/ex0000000004", "/l/ex0000000003")
	want := []string{
		"unknown: 2 ephemeral znodes of a recipe that zksh does not know; the lowest number usually holds the lock",
		"PLACE  MODE  STATE    SESSION  CLIENT  AGE  WHO  NODE",
		"1      -     unknown  0x1      -       -    -    ex0000000003",
		"2      -     unknown  0x1      -       -    -    ex0000000004",
	}
	if diff := cmp.Diff(want, f.read(t).lines(0)); diff != "" {
		t.Error(diff)
	}
}

// A queue of messages is not read, because it can be large.
func TestMessagesAreNotRead(t *testing.T) {
	f := newFakeEnsemble()
	f.make(0, "", "/l", "/l/qn-0000000001", "/l/qn-0000000002")
	f.read(t)
	if len(f.reads) > 0 {
		t.Errorf("read: %v", f.reads)
	}
}
