package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zksh/zksh/internal/cluster"
	"github.com/zksh/zksh/internal/render"
)

// summary returns each change as the event and the last character of the znode's name.
func summary(list []Change) string {
	var words []string
	for _, c := range list {
		node := c.Node
		words = append(words, c.Event+" "+node[len(node)-1:])
	}
	return strings.Join(words, ", ")
}

func TestChanges(t *testing.T) {
	f := newFakeEnsemble()
	f.add("/l", "/l/lock-0000000001", "/l/lock-0000000002")
	follower := Follow(f, "/l")
	expect := func(want string) {
		t.Helper()
		list, err := follower.Update(t.Context())
		if got := summary(list); got != want || err != nil {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
	expect("holds 1, waits 2")
	expect("")
	f.add("/l/lock-0000000003")
	expect("came 3")
	delete(f.znodes, "/l/lock-0000000001")
	expect("left 1, got 2")
	delete(f.znodes, "/l/lock-0000000002")
	f.add("/l/lock-0000000004")
	expect("left 2, got 3, came 4")
	clear(f.znodes)
	expect("left 3, left 4")
	f.add("/l", "/l/lock-0000000004") // another znode with this name
	expect("came 4, got 4")
	if c := follower.last.Contenders[0]; c.stat.Czxid != f.zxid {
		t.Errorf("the old one is shown: %+v", c.stat)
	}
}

// An event is printed as one line, whatever the znodes contain, and as valid JSON.
func TestEventIsOneLine(t *testing.T) {
	n := newTestNode(t, "lock-0000000001")
	n.path = "/l/a\x1b[2J\n" + n.name()
	n.Data = []byte(`{"host":"h","pid":1,"note":"a\n2026-11-21T12:00:00.000Z  got  lock\u001b[2J"}`)
	q := newQueue("/l", contents{nodes: []*node{n}})
	q.Contenders[0].Client = "\x1b[2J\n"
	for _, format := range []render.Format{render.Text, render.JSON} {
		var b strings.Builder
		p := render.Printer{W: &b, Format: format}
		for _, c := range changes(nil, q, time.Now()) {
			if err := p.Print(c); err != nil {
				t.Fatal(err)
			}
		}
		line, rest, _ := strings.Cut(b.String(), "\n")
		if rest != "" || strings.Contains(line, "\x1b") {
			t.Errorf("%s: %q", format, b.String())
		}
		var event struct{ Who string }
		if format == render.JSON && (json.Unmarshal([]byte(line), &event) != nil || event.Who != q.Contenders[0].Who) {
			t.Errorf("%q", line)
		}
	}
}

// After a change, the follower reads only the data of new contenders and of holders. Without a
// change, it reads nothing.
func TestFollowerReadsWhatIsNew(t *testing.T) {
	f := newFakeEnsemble()
	f.add("/l")
	for i := range 9 {
		f.add(fmt.Sprintf("/l/lock-%010d", i))
	}
	follower := Follow(f, "/l")
	update := func(want ...string) {
		t.Helper()
		f.reads = nil
		if _, err := follower.Update(t.Context()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, f.reads); diff != "" {
			t.Error(diff)
		}
	}
	if _, err := follower.Update(t.Context()); err != nil || len(f.reads) != 10 {
		t.Errorf("at first it read %q, %v", f.reads, err)
	}
	f.add("/l/lock-0000000009")
	update("/l/lock-0000000009", "/l/lock-0000000000")
	delete(f.znodes, "/l/lock-0000000000")
	f.make(1, "unlock", "/l/lock-0000000001")
	update("/l/lock-0000000001")
	if got := strings.Join(follower.Picture(80, 24, true), ";"); !strings.Contains(got, releaseRequested) {
		t.Errorf("the request is not shown: %s", got)
	}
	f.reads = nil
	follower.AskServers(t.Context())
	follower.Picture(80, 24, true)
	if f.reads != nil {
		t.Errorf("without a change it read %q", f.reads)
	}
}

// The follower queries the servers again for new and for disconnected clients, but not more
// than once a second.
func TestFollowerAsksServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeEnsemble()
		f.add("/l", "/l/lock-0000000001")
		asked, conns := 0, " /h:1[1](queued=0,sid=0x1)\n"
		f.cons = func(context.Context, string) (string, error) { asked++; return conns, nil }
		follower := Follow(f, "/l")
		client := func(i, times int, want string) {
			t.Helper()
			if got := follower.last.Contenders[i].Client; got != want || asked != times {
				t.Errorf("after %d questions: %q; want %q after %d", asked, got, want, times)
			}
		}
		update := func() {
			t.Helper()
			if _, err := follower.Update(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		update()
		client(0, 1, "h:1")
		follower.AskServers(t.Context())
		client(0, 1, "h:1")
		f.make(2, "", "/l/lock-0000000002")
		update()
		client(1, 1, "") // the servers have not been queried yet
		time.Sleep(2 * askEvery)
		follower.AskServers(t.Context())
		client(1, 2, cluster.NoConnection)
		follower.AskServers(t.Context())
		time.Sleep(2 * askEvery)
		conns += " /h:2[1](queued=0,sid=0x2)\n"
		follower.AskServers(t.Context())
		client(1, 3, "h:2")
		time.Sleep(2 * askEvery)
		follower.AskServers(t.Context())
		client(1, 3, "h:2")
	})
}

func TestPicture(t *testing.T) {
	f := newFakeEnsemble()
	follower := Follow(f, "/l")
	if p := follower.Picture(80, 24, true); p != nil {
		t.Errorf("before the first reading: %q", p)
	}
	look := func(rows int, connected bool) []string {
		t.Helper()
		if _, err := follower.Update(t.Context()); err != nil {
			t.Fatal(err)
		}
		return follower.Picture(40, rows, connected)
	}
	if diff := cmp.Diff([]string{"/l: free"}, look(24, true)); diff != "" {
		t.Error(diff)
	}
	f.add("/l", "/l/lock-0000000001", "/l/lock-0000000002", "/l/lock-0000000003", "/l/config")
	p := look(24, false)
	if len(p) != 8 || p[0] != "/l: 1 hold, 2 wait" || p[1] != "connection lost; last known state:" || p[2] != "ignored: config" {
		t.Errorf("%q", p)
	}
	if p := look(5, true); len(p) != 4 || p[3] != "… and 4 more" {
		t.Errorf("%q", p)
	}
}
