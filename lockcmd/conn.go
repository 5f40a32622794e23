package lockcmd

import (
	"context"

	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// conn gives the recipe the shell's session.
type conn struct{ s *zkconn.Session }

// Session is part of zklock.Conn.
func (c conn) Session(ctx context.Context) (zklock.Session, error) {
	p, err := c.s.Pin(ctx)
	if err != nil {
		return nil, err
	}
	return p, nil
}
