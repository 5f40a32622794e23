package ensemble

import (
	"context"
	"time"

	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// A session makes a session of package zkconn, which knows nothing of locks, a zklock.Session.
type session struct{ *zkconn.Pinned }

// This declaration makes the compiler check that a session implements the optional interfaces of
// package zklock, which zklock itself checks only at run time.
var _ interface {
	zklock.Session
	zklock.Guarder
	zklock.StandaloneChecker
	zklock.ContainerCreator
} = session{}

// State implements zklock.Session.
func (s session) State(asOf time.Time) zklock.SessionState {
	return zklock.SessionState(s.Pinned.State(asOf))
}

// Adapt returns p as a session for the locks of package zklock. It is for zksh itself; other programs
// use a Client.
func Adapt(p *zkconn.Pinned) zklock.Session { return session{p} }

// Pin waits until there is a session on the ensemble, and returns it. It returns an error if ctx ends
// first. It is for zksh itself; other programs use a Client.
func Pin(ctx context.Context, e zkconn.Ensemble) (zklock.Session, error) {
	p, err := e.Pin(ctx)
	if err != nil {
		return nil, err
	}
	return Adapt(p), nil
}
