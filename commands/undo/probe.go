package undo

import (
	"context"
	"errors"
	"slices"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/zkconn"
)

// wouldFail returns the error with which the server would reject the operation, so that zksh does
// not ask the user about an operation that would fail. It returns nil if the operation may succeed,
// or if it cannot find out.
//
// To find out without changing anything, wouldFail sends the operation in a transaction that always
// fails, because it also creates the root znode, which exists.
func (op *saving) wouldFail(ctx context.Context) error {
	var change zkconn.Change
	switch op.Of {
	case commands.LostData:
		change = zkconn.NewData(op.Path, op.Data, op.Version)
	case commands.LostNode:
		change = zkconn.Removal(op.Path, op.Version)
	default:
		return nil
	}
	_, err := op.env.Session.Multi(ctx, []zkconn.Change{change, zkconn.Creation("/", nil, zkconn.OpenACL(), zkconn.CreateMode{})})
	refusal, refused := errors.AsType[*zkconn.Error](err)
	if op.Path == "/" || !refused || refusal.Path != op.Path || !slices.Contains(rejections, refusal.Code) {
		return nil
	}
	return refusal
}

// rejections lists the error codes with which a server can reject a set or a delete.
var rejections = []zkconn.Code{zkconn.NoAuth, zkconn.NoNode, zkconn.NotEmpty, zkconn.BadVersion}
