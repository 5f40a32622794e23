package undo

import (
	"context"
	"errors"
	"slices"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/zkconn"
)

// wouldFail returns the error with which the server is known to reject the operation, so that
// nobody is asked about it. The server is sent the operation in a transaction that cannot
// succeed, as the root exists. It is nil if the operation may succeed, or cannot be tried so.
func (g *keeping) wouldFail(ctx context.Context) error {
	var change zkconn.Change
	switch g.Of {
	case commands.LostData:
		change = zkconn.NewData(g.Path, g.Data, g.Version)
	case commands.LostNode:
		change = zkconn.Removal(g.Path, g.Version)
	default:
		return nil
	}
	_, err := g.env.Session.Multi(ctx, []zkconn.Change{change, zkconn.Creation("/", nil, zkconn.OpenACL(), zkconn.CreateMode{})})
	refusal, refused := errors.AsType[*zkconn.Error](err)
	if g.Path == "/" || !refused || refusal.Path != g.Path || !slices.Contains(whyRejected, refusal.Code) {
		return nil
	}
	return refusal
}

// whyRejected are the codes with which a server rejects set and delete.
var whyRejected = []zkconn.Code{zkconn.NoAuth, zkconn.NoNode, zkconn.NotEmpty, zkconn.BadVersion}
