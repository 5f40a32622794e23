package lockcmd

import (
	"context"

	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// conn gives the recipe the sessions of one ensemble. What the shell connects to
// later has nothing to do with a lock that is asked for now.
type conn struct{ at zkconn.Stay }

// Session is part of zklock.Conn.
func (c conn) Session(ctx context.Context) (zklock.Session, error) {
	p, err := c.at.Pin(ctx)
	if err != nil {
		return nil, err
	}
	return p, nil
}
