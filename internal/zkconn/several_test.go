package zkconn

import (
	"errors"
	"testing"

	"github.com/go-zookeeper/zk"
)

// Each answer goes to its own request, in whatever order the answers come. If the connection
// breaks before all answers of a group have come, none is delivered.
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
		p, err := s.Pipe(testContext(t), "/")
		if err != nil {
			t.Fatal(err)
		}
		paths := []string{"/a", "/b", "/c"}
		var got []error
		note := func(_ *zk.Stat, refusal error) { got = append(got, refusal) }
		if err := AddEach(p, paths, Exists).Each(testContext(t), note); err != nil || len(got) != 3 {
			t.Fatalf("%v, %v", got, err)
		}
		for i, refusal := range got {
			if e, ok := errors.AsType[*Error](refusal); !ok || e.Code != codes[i] || e.Path != paths[i] {
				t.Errorf("%s: %v", paths[i], refusal)
			}
		}
		got = nil
		if err := AddEach(p, paths, Exists).Each(testContext(t), note); !errors.As(err, new(*LostError)) || got != nil {
			t.Errorf("%v, %v", got, err)
		}
		if err := AddEach(p, []string{"/a", "no path"}, Exists).Each(testContext(t), note); err == nil || got != nil {
			t.Errorf("a path without a slash: %v", got)
		}
	})
}
