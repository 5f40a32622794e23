package queue

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/render"
)

// told is each change of a list in two words.
func told(list []Change) string {
	var words []string
	for _, c := range list {
		node := c.Nodes[0]
		words = append(words, c.Event+" "+node[len(node)-1:])
	}
	return strings.Join(words, ", ")
}

func TestChanges(t *testing.T) {
	f := newFake()
	f.add("/l", "/l/lock-0000000001", "/l/lock-0000000002")
	follower := Follow(f, "/l")
	expect := func(want string) {
		t.Helper()
		list, err := follower.Update(t.Context())
		if got := told(list); got != want || err != nil {
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
	f.add("/l", "/l/lock-0000000004") // another one of that name
	expect("came 4, got 4")
	if c := follower.last.Contenders[0]; c.stat.Czxid != f.zxid {
		t.Errorf("the old one is shown: %+v", c.stat)
	}
}

// An event is one line, whatever others wrote, and its JSON is JSON.
func TestEventIsOneLine(t *testing.T) {
	n := named(t, "lock-0000000001")
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
