package zktree

import (
	"context"
	"errors"
	"testing"

	"github.com/zksh/zksh/internal/zkconn"
)

// vanishing is a Source with one znode that exists at the first request only.
type vanishing struct{ asked int }

func (v *vanishing) Batch(Want) int { return 1 }

func (v *vanishing) Ask([]string, Want) Answer { v.asked++; return v }

func (v *vanishing) Ready() bool { return true }

func (v *vanishing) Slowed() bool { return false }

func (v *vanishing) Wait(context.Context, []Entry) ([]Entry, error) {
	if v.asked > 1 {
		return []Entry{{Err: zkconn.NoNode}}, nil
	}
	return []Entry{{}}, nil
}

// If the root vanishes while it is read, Nodes fails. An empty tree instead would make a mirror
// delete its destination.
func TestNodesOfARootThatGoes(t *testing.T) {
	for z, err := range Nodes(t.Context(), &vanishing{}, "/r", nil) {
		if z != nil || !errors.Is(err, zkconn.NoNode) {
			t.Errorf("%v, %v", z, err)
		}
		return
	}
	t.Error("an empty tree")
}
