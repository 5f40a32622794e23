package lockcmd

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
)

// facts returns the output of the command session as a map from field to value.
func facts(t *testing.T, s *zkconn.Session, words ...string) map[string]string {
	t.Helper()
	st := runCommand(t, s, render.JSON, 0, append([]string{"session"}, words...)...)
	var all map[string]json.RawMessage
	zktest.Must(t, json.Unmarshal([]byte(st.Printed()), &all))
	texts := map[string]string{}
	for name, value := range all {
		texts[name] = strings.Trim(string(value), `"`)
	}
	return texts
}

// Each way to specify a session leads to the same session. The paths in the output are
// relative to the chroot of the shell that runs the command.
func TestSessionArguments(t *testing.T) {
	onBoth(t, func(t *testing.T, addr string) {
		b := newFixture(t, addr)
		b.persistent("/l", "")
		first := "/l/" + uuid + "-lock-0000000001"
		b.create(b.Session, first, "", zkconn.OpenACL(), true)
		proxy := zktest.NewProxy(t, addr)
		other := open(t, proxy.Addr()+b.root, usualTimeout)
		second := "/l/" + guid + "-lock-0000000002"
		zktest.Must(t, zkconn.Exec(zktest.Within(t), other, zkconn.Create(second, nil, zkconn.OpenACL(), zkconn.CreateMode{Ephemeral: true})))
		id := render.Hex(other.Info().ID)
		f := facts(t, b.Session, b.root+second)
		for name, want := range map[string]string{"session": "^" + id + "$", "state": "^connected$", "client": `^127\.0\.0\.1:\d+$`, "server": "^" + addr + "$",
			"since": `^\d{4}-`, "timeout": "^" + usualTimeout.String() + "$", "ephemerals": `^\["` + b.root + second + `"\]$`} {
			if !regexp.MustCompile(want).MatchString(f[name]) {
				t.Errorf("%s is %s, want %s", name, f[name], want)
			}
		}
		if got := facts(t, b.Session, id); got["session"] != id {
			t.Errorf("%v", got)
		}
		own := facts(t, other)
		if own["session"] != id || own["ephemerals"] != `["`+second+`"]` {
			t.Errorf("%v", own)
		}
		text := runCommand(t, b.Session, render.Text, 0, "session", b.root+first).Printed()
		if !strings.Contains(text, "\nephemerals  "+b.root+first+"\n") {
			t.Error(text)
		}
		if table := runCommand(t, b.Session, render.Table, 0, "session", id).Printed(); !strings.HasPrefix(table, "FIELD ") || !strings.Contains(table, "\ntimeout ") {
			t.Error(table)
		}
		proxy.Refuse(true)
		proxy.Cut()
		zktest.Eventually(t, "it has no connection", func() bool { f = facts(t, b.Session, id); return f["state"] == "no connection" })
		left, err := time.ParseDuration(f["goneIn"])
		if err != nil || left <= 0 || left > time.Minute {
			t.Errorf("gone in %v, %v", left, err)
		}
	})
}

// session and servers say what the servers do not provide, and do not guess it.
func TestSessionWithUnavailableCommands(t *testing.T) {
	addr := zktest.Start(t, zktest.Words("srvr"), zktest.Heap(64)).Addr()
	b := newFixture(t, addr)
	b.addContenders(uuid + "-lock-0000000001")
	st := runCommand(t, b.Session, render.Text, 0, "session", b.root+"/"+uuid+"-lock-0000000001")
	if !strings.Contains(st.Printed(), "\nstate       unknown\n") {
		t.Error(st.Printed())
	}
	for _, word := range []string{"cons", "dump"} {
		if !strings.Contains(st.Notes(), "the four-letter command "+word+" is not allowed; add it to 4lw.commands.whitelist on the servers") {
			t.Error(st.Notes())
		}
	}
	if runCommand(t, b.Session, render.Text, 0, "servers"); !strings.Contains(runCommand(t, b.Session, render.Text, 0, "servers").Notes(), "watches: the four-letter command mntr is not allowed") {
		t.Error("mntr is not named")
	}
}
