package commands

import (
	"context"
	"testing"

	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktree"
)

// After a command on a subtree has failed, find goes on with the next znode, unless the reason concerns more
// than one of them.
func TestStopsFind(t *testing.T) {
	partial := zktree.PartialError{Root: "/a"}
	partial.Changed.Add(&zktree.ChangedError{Path: "/a"})
	stopped, lost := partial, partial
	stopped.Cause, lost.Cause = context.Canceled, &zkconn.NoServerError{}
	if stopsFind(&partial) || !stopsFind(&stopped) || !stopsFind(&lost) {
		t.Errorf("%t, %t, %t", stopsFind(&partial), stopsFind(&stopped), stopsFind(&lost))
	}
}
