package lockcmd

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/commands/commandtest"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zkconn"
)

// stage is an Env with the Screen that keeps what it is given.
type stage struct {
	commands.Env
	*commandtest.Screen
}

func newStage(s *zkconn.Session, format render.Format) *stage {
	screen := &commandtest.Screen{Format: format}
	return &stage{commands.Env{Session: s, Screen: screen}, screen}
}

func wantStatus(t *testing.T, err error, want int) {
	t.Helper()
	var status *commands.StatusError
	if want == 0 && err == nil {
		return
	}
	if !errors.As(err, &status) || status.Status != want || status.Err != nil {
		t.Errorf("got %v, want status %d", err, want)
	}
}

func TestShowQueue(t *testing.T) {
	onBoth(t, func(t *testing.T, addr string) {
		b := newBed(t, addr)
		st := newStage(b.Session, render.Text)
		wantStatus(t, showQueue(within(t), &st.Env, b.root, false), 0)
		wantStatus(t, probe(within(t), &st.Env, b.root), 0)
		if st.Printed() != "free\n" {
			t.Errorf("%q", st.Printed())
		}
		b.create(b.Session, "/"+uuid+"-lock-0000000001", `{"host":"web1","pid":7,"user":"ann"}`, zkconn.OpenACL(), true)
		b.add(hex32 + "__lock__0000000002")
		b.persistent("/config", "")
		st = newStage(b.Session, render.Text)
		wantStatus(t, probe(within(t), &st.Env, b.root), commands.StatusNotLocked)
		wantStatus(t, showQueue(within(t), &st.Env, b.root, false), commands.StatusNotLocked)
		lines := strings.Split(st.Printed(), "\n")
		if len(lines) != 4 || strings.Join(strings.Fields(lines[0]), " ") != "PLACE MODE STATE SESSION CLIENT AGE WHO NODE" {
			t.Fatalf("%q", lines)
		}
		f := strings.Fields(lines[1])
		if f[0] != "1" || f[1] != "lock" || f[2] != "holds" || f[3] != sessionText(b.Info().ID) || !strings.HasPrefix(f[4], "127.0.0.1:") || f[6] != "ann@web1" || f[9] != uuid+"-lock-0000000001" {
			t.Errorf("%q", f)
		}
		notes := st.Notes()
		if !strings.Contains(notes, "warning: kazoo locks do not wait for Curator mutexes") || !strings.HasSuffix(notes, "ignored: config") {
			t.Errorf("%q", notes)
		}

		st = newStage(b.Session, render.JSON)
		wantStatus(t, showQueue(within(t), &st.Env, b.root, false), commands.StatusNotLocked)
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
		for _, key := range []string{"place", "kind", "mode", "state", "session", "client", "since", "age", "who", "data", "nodes"} {
			if q.Contenders[0][key] == nil {
				t.Errorf("JSON lacks %s: %v", key, q.Contenders[0])
			}
		}

		st = newStage(b.Session, render.Table)
		wantStatus(t, showQueue(within(t), &st.Env, b.root, false), commands.StatusNotLocked)
		if !strings.Contains(st.Printed(), "ann@web1 pid 7") {
			t.Errorf("%q", st.Printed())
		}
	})
}

// A list fits its terminal, and says who as long as it can.
func TestFit(t *testing.T) {
	var nodes []*node
	for i, name := range []string{uuid + "-lock-0000000001", uuid + "-lock-0000000002", hex32 + "__lock__0000000003"} {
		n := named(t, name)
		n.stat.EphemeralOwner, n.stat.Czxid = 0x100001255200005+int64(i), int64(i)
		n.data = []byte(`{"host":"web1.example.org","pid":4711,"user":"ann","note":"nightly backup of all"}`)
		nodes = append(nodes, n)
	}
	q := newQueue("/lock", contents{nodes: nodes})
	c := &clients{addrs: map[int64]string{}, all: true}
	for i, n := range nodes {
		c.addrs[n.stat.EphemeralOwner] = fmt.Sprintf("192.168.100.%d:51234", 100+i)
	}
	q.addClients(c)
	for columns, want := range map[int]string{
		60: "ann@web1.example.org", 80: "nightly", 100: "nightly backup of all", 200: "nightly backup of all",
	} {
		q.columns = columns
		for i, l := range q.lines() {
			if render.Width(l) >= columns {
				t.Errorf("%d columns: a line of %d: %s", columns, render.Width(l), l)
			}
			if i == 2 && (!strings.Contains(l, want) || !strings.HasSuffix(l, "00002") || !strings.Contains(l, "waits")) {
				t.Errorf("%d columns: %q, want %q in it", columns, l, want)
			}
		}
	}
	q.columns = 0
	if l := q.lines()[1]; !strings.HasSuffix(l, "  "+uuid+"-lock-0000000001") {
		t.Errorf("in a pipe: %q", l)
	}
}

// What a znode has cannot drive the terminal.
func TestListIsSafe(t *testing.T) {
	n := named(t, uuid+"-lock-0000000001")
	n.name = "\x1b[31m" + n.name
	n.data = []byte(`{"host":"h","pid":1,"note":"a\u001b[2J\nb"}`)
	q := newQueue("/lock", contents{nodes: []*node{n}})
	if text := strings.Join(q.lines(), ""); strings.ContainsAny(text, "\x1b\n") {
		t.Errorf("%q", text)
	}
}

func TestAge(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 0: "0s", 59 * time.Second: "59s", 192 * time.Second: "3m12s", 5*time.Hour + 4*time.Minute + 3*time.Second: "5h4m",
		291*time.Hour + time.Minute: "12d3h",
	} {
		if got := age(d); got != want {
			t.Errorf("%s: %s, want %s", d, got, want)
		}
	}
}
