package zkconn

import (
	"errors"
	"testing"
)

// Each answer is for its own request, in whatever order they come; and those to a part of
// several requests are none when the connection breaks.
func TestSeveral(t *testing.T) {
	codes := []Code{NoNode, NoAuth, BadVersion}
	serve := func(n int, p *peer) {
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
		got, err := p.EachExists(paths).Wait(limited(t))
		if err != nil || len(got) != 3 {
			t.Fatalf("%v, %v", got, err)
		}
		for i, o := range got {
			if e, ok := errors.AsType[*Error](o.Err); !ok || e.Code != codes[i] || e.Path != paths[i] {
				t.Errorf("%s: %v", paths[i], o.Err)
			}
		}
		if got, err := p.EachExists(paths).Wait(limited(t)); !errors.As(err, new(*LostError)) {
			t.Errorf("%v, %v", got, err)
		}
		if got, err := p.EachExists([]string{"/a", "no path"}).Wait(limited(t)); err == nil {
			t.Errorf("a path without a slash: %v", got)
		}
	})
}
