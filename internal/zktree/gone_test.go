package zktree

import (
	"context"
	"errors"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
)

// If the root vanishes while it is read, the walk fails. An empty tree instead would make a mirror
// delete its destination.
func TestRootThatGoes(t *testing.T) {
	w := newWalk(t.Context(), "/r", Options{Data: true, ACL: true, Shut: true})
	w.start = func(r *request) {
		r.reply = fakeReply{&fakeTree{}}
		r.wait = func(context.Context) error {
			i := r.take()
			if r.kind == askAccess {
				w.putAccess(r, i, zkconn.Access{Stat: &zk.Stat{}}, nil)
			} else {
				w.putData(r, i, zkconn.Node{}, zkconn.NoNode)
			}
			return nil
		}
	}
	zktest.Must(t, w.readRoot())
	for z, err := range w.znodes {
		if z != nil || !errors.Is(err, zkconn.NoNode) {
			t.Errorf("%v, %v", z, err)
		}
		return
	}
	t.Error("an empty tree")
}
