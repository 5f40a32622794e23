package zkconn

import (
	"errors"
	"testing"

	"github.com/go-zookeeper/zk"
)

// Each answer is for its own request, in whatever order they come; and those to a part of
// several requests are none when the connection breaks.
func TestSeveral(t *testing.T) {
	codes := []Code{NoNode, NoAuth, BadVersion}
	serve := func(n int, p *remote) {
		var xids []int32
		p.host(func(xid, _ int32) bool {
			xids = append(xids, xid)
			switch {
			case n > 0:
				return len(xids) < 3 || p.reply(xids[1], NoNode) && false
			case len(xids) < 3:
				return true
			}
			for i := range 3 {
				if !p.reply(xids[2-i], codes[2-i]) {
					return false
				}
			}
			xids = nil
			n++
			return true
		})
	}
	bubble(t, serve, func(t *testing.T, s *Session) {
		p, err := s.Pipe(limited(t), "/")
		if err != nil {
			t.Fatal(err)
		}
		paths := []string{"/a", "/b", "/c"}
		var got []error
		note := func(_ *zk.Stat, refusal error) { got = append(got, refusal) }
		if err := p.EachExists(paths).Each(limited(t), note); err != nil || len(got) != 3 {
			t.Fatalf("%v, %v", got, err)
		}
		for i, refusal := range got {
			if e, ok := errors.AsType[*Error](refusal); !ok || e.Code != codes[i] || e.Path != paths[i] {
				t.Errorf("%s: %v", paths[i], refusal)
			}
		}
		got = nil
		if err := p.EachExists(paths).Each(limited(t), note); !errors.As(err, new(*LostError)) || got != nil {
			t.Errorf("%v, %v", got, err)
		}
		if err := p.EachExists([]string{"/a", "no path"}).Each(limited(t), note); err == nil || got != nil {
			t.Errorf("a path without a slash: %v", got)
		}
	})
}

// The xids of several requests may go on at the first one behind the last; an answer that
// came already is no answer to any of them.
func TestAwaits(t *testing.T) {
	c := &call{first: xidBase - 2, left: 3, parts: make([]piece, 3)}
	xids := []int32{xidBase + xidBase - 2, xidBase + xidBase - 1, xidBase}
	for want, xid := range xids {
		if at, is := c.awaits(xid); at != want || !is {
			t.Errorf("%#x: %d, %t", xid, at, is)
		}
	}
	for _, xid := range []int32{xidBase + xidBase - 3, xidBase + 1} {
		if at, is := c.awaits(xid); is {
			t.Errorf("%#x: %d", xid, at)
		}
	}
	c.put(1, reply{code: NoNode})
	if _, is := c.awaits(xids[1]); is || c.left != 2 || c.parts[1].code != NoNode {
		t.Errorf("the second answer again: %+v", c)
	}
	if at, is := (&call{first: 7}).awaits(xidBase + 7); at != 0 || !is {
		t.Errorf("one request: %d, %t", at, is)
	}
	if _, is := (&call{first: 7}).awaits(xidBase + 8); is {
		t.Error("the next one's answer is taken")
	}
}
