package lockcmd

import (
	"context"
	"strings"
	"testing"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zktest"
)

// locks -f -R shows all queues below a path, also on a real server, and continues without a
// connection.
func TestFollowAll(t *testing.T) {
	onBoth(t, func(t *testing.T, addr string) {
		b := newFixture(t, addr)
		b.persistent("/a", "")
		b.persistent("/b", "")
		b.addContenders("a/"+uuid+"-lock-0000000001", "b/"+uuid+"-lock-0000000001", "b/"+uuid+"-lock-0000000002")
		p := zktest.NewProxy(t, addr)
		f := startFollowing(t, open(t, p.Addr(), usualTimeout), render.Text, 100, 20, func(ctx context.Context, env *commands.Env) error {
			return followAll(ctx, env, b.root)
		})
		shows := func(parts ...string) {
			t.Helper()
			zktest.Eventually(t, strings.Join(parts, ", "), func() bool {
				drawn := f.lastDrawn()
				for _, part := range parts {
					_, after, found := strings.Cut(drawn, part)
					if !found {
						return false
					}
					drawn = after
				}
				return true
			})
		}
		shows("all queues below "+b.root+": 2 hold, 1 wait", "/b: 1 hold, 1 wait, the longest for", "/a: 1 hold, 0 wait")
		b.remove("b/" + uuid + "-lock-0000000001")
		shows("/b: 1 hold, 0 wait", "- ", "gone", "* ", "holds")
		p.Refuse(true)
		p.Cut()
		shows("connection lost; last known state:", "/b: 1 hold, 0 wait")
		p.Refuse(false)
		b.remove("b/" + uuid + "-lock-0000000002")
		shows(": 1 hold, 0 wait", "/a: 1 hold, 0 wait")
		f.stop()
		out := startFollowing(t, b.Session, render.Text, 0, 0, func(ctx context.Context, env *commands.Env) error { return followAll(ctx, env, b.root) })
		zktest.Eventually(t, "the state is printed", func() bool { return strings.Contains(out.printed(), "  holds  "+b.root+"/a  lock  ") })
		out.stop()
	})
}
