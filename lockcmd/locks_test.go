package lockcmd

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/commands/commandtest"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
)

// The list of this shell's locks fits the terminal. A shortened znode name keeps its mode and
// its number.
func TestOwnLocksFit(t *testing.T) {
	locks := lockRows{
		{Path: "/locks/夜間備份", Mode: "write", State: "held", Times: 1, Node: "/locks/夜間備份/" + uuid + "-__WRIT__0000000042", Token: "0x100000003"},
		{Path: "/b", Mode: "lock", State: "suspended", Times: 2, Node: "/b/" + uuid + "-lock-0000000007", Token: "0x4", Until: time.Now()},
	}
	for columns, want := range map[int][]string{
		0:   {"token", locks[0].Node, locks[1].Node},
		200: {"token", locks[0].Node, locks[1].Node},
		80:  {"token", "WRIT", "00042", "lock", "00007"},
		60:  {"mode", "WRIT", "00042", "lock", "00007"},
		40:  {"state", "WRIT", "00042", "lock", "00007"},
	} {
		screen := &commandtest.Screen{Columns: columns}
		if err := screen.Print(locks); err != nil {
			t.Fatal(err)
		}
		text := screen.Printed()
		for l := range strings.Lines(text) {
			if width := render.Width(strings.TrimSuffix(l, "\n")); columns > 0 && width >= columns {
				t.Errorf("%d columns: a line of %d: %q", columns, width, l)
			}
		}
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("%d columns: %q is missing:\n%s", columns, w, text)
			}
		}
	}
	screen := &commandtest.Screen{Columns: 40}
	if err := screen.Print(lockRows{}); err != nil || screen.Printed() != "no locks\n" {
		t.Errorf("%q, %v", screen.Printed(), err)
	}
}

func TestShowQueue(t *testing.T) {
	onBoth(t, func(t *testing.T, addr string) {
		b := newFixture(t, addr)
		st := newTestEnv(b.Session, render.Text)
		wantStatus(t, showQueue(zktest.Within(t), &st.Env, b.root, false), 0)
		wantStatus(t, showQueue(zktest.Within(t), &st.Env, b.root, true), 0)
		if st.Printed() != "free\n" {
			t.Errorf("%q", st.Printed())
		}
		b.create(b.Session, "/"+uuid+"-lock-0000000001", `{"host":"web1","pid":7,"user":"ann"}`, zkconn.OpenACL(), true)
		b.addContenders(hex32 + "__lock__0000000002")
		b.persistent("/config", "")
		zktest.Eventually(t, "the servers tell of clients", func() bool { return b.queue().NoClients == "" }) // busy servers may answer late
		st = newTestEnv(b.Session, render.Text)
		wantStatus(t, showQueue(zktest.Within(t), &st.Env, b.root, true), commands.StatusNotLocked)
		wantStatus(t, showQueue(zktest.Within(t), &st.Env, b.root, false), commands.StatusNotLocked)
		lines := strings.Split(st.Printed(), "\n")
		if len(lines) != 4 || strings.Join(strings.Fields(lines[0]), " ") != "PLACE MODE STATE SESSION CLIENT AGE WHO NODE" {
			t.Fatalf("%q", lines)
		}
		f := strings.Fields(lines[1])
		if f[0] != "1" || f[1] != "lock" || f[2] != "holds" || f[3] != render.Hex(b.Info().ID) || !strings.HasPrefix(f[4], "127.0.0.1:") || f[6] != "ann@web1" || f[9] != uuid+"-lock-0000000001" {
			t.Errorf("%q", f)
		}
		notes := st.Notes()
		if !strings.Contains(notes, "warning: kazoo locks do not wait for Curator mutexes") || !strings.HasSuffix(notes, "ignored: config") {
			t.Errorf("%q", notes)
		}

		st = newTestEnv(b.Session, render.JSON)
		wantStatus(t, showQueue(zktest.Within(t), &st.Env, b.root, false), commands.StatusNotLocked)
		var q struct {
			Path, State string
			Contenders  []map[string]any
			Ignored     []string
			Warnings    []string
		}
		if err := json.Unmarshal([]byte(st.Printed()), &q); err != nil {
			t.Fatal(err)
		}
		if q.State != "held" || len(q.Contenders) != 2 || len(q.Warnings) != 1 || len(q.Ignored) != 1 {
			t.Errorf("%+v", q)
		}
		for _, key := range []string{"place", "kind", "mode", "state", "session", "client", "since", "age", "who", "data", "node"} {
			if q.Contenders[0][key] == nil {
				t.Errorf("JSON lacks %s: %v", key, q.Contenders[0])
			}
		}

		st = newTestEnv(b.Session, render.Table)
		wantStatus(t, showQueue(zktest.Within(t), &st.Env, b.root, false), commands.StatusNotLocked)
		if !strings.Contains(st.Printed(), "ann@web1 pid 7") {
			t.Errorf("%q", st.Printed())
		}
	})
}
