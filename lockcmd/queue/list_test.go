package queue

import (
	"fmt"
	"strings"
	"testing"

	"github.com/zksh/zksh/internal/render"
)

// A list fits its terminal, and says who as long as it can.
func TestFit(t *testing.T) {
	var nodes []*node
	for i, name := range []string{uuid + "-lock-0000000001", uuid + "-lock-0000000002", hex32 + "__lock__0000000003"} {
		n := named(t, name)
		n.Stat.EphemeralOwner, n.Stat.Czxid = 0x100001255200005+int64(i), int64(i)
		n.Data = []byte(`{"host":"web1.example.org","pid":4711,"user":"ann","note":"nightly backup of all"}`)
		nodes = append(nodes, n)
	}
	q := newQueue("/lock", contents{nodes: nodes})
	c := &clients{addrs: map[int64]string{}, all: true}
	for i, n := range nodes {
		c.addrs[n.Stat.EphemeralOwner] = fmt.Sprintf("192.168.100.%d:51234", 100+i)
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
	n.Data = []byte(`{"host":"h","pid":1,"note":"a\u001b[2J\nb"}`)
	q := newQueue("/lock", contents{nodes: []*node{n}})
	if text := strings.Join(q.lines(), ""); strings.ContainsAny(text, "\x1b\n") {
		t.Errorf("%q", text)
	}
}
