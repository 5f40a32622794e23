package zklock

import (
	"context"
	"slices"
	"testing"

	"github.com/go-zookeeper/zk"
)

// minimalConn is a Conn whose sessions have no optional methods.
type minimalConn struct{ Conn }

func (c minimalConn) Session(ctx context.Context) (Session, error) {
	s, err := c.Conn.Session(ctx)
	return struct{ Session }{s}, err
}

// A session without the optional methods counts as one of an ensemble: rounds extend its
// lease, even on a standalone server.
func TestPlainSession(t *testing.T) {
	play(t, func(s *fakeServer, _ *Lock) {
		s.standalone = true
		lease := s.mustLock(New(minimalConn{s}, "/lock", Options{}))
		s.pings(10 * sessionTimeout)
		if st := lease.State(); st.State != Held || isClosed(lease.Lost()) || st.Left < sessionTimeout/4 {
			s.Errorf("after a while: %+v", st)
		}
		if sent := s.requests(); !slices.Contains(sent, "sync") || !slices.Contains(sent, "check") || s.guards > 0 {
			s.Errorf("sent %v, guarded by %d", sent, s.guards)
		}
		s.release(lease)
	})
}

// parentless is a server on which the parent of the lock does not exist.
type parentless struct {
	*fakeServer
	made []*zk.CreateRequest
}

func (p *parentless) Session(context.Context) (Session, error) { return p, nil }

func (p *parentless) CreateAndList(ctx context.Context, req *zk.CreateRequest, dir string) (
	string, int64, []string, error) {
	if len(p.made) == 0 {
		return "", 0, nil, zk.ErrNoNode
	}
	return p.fakeServer.CreateAndList(ctx, req, dir)
}

func (p *parentless) Multi(ctx context.Context, ops ...any) error {
	if r, ok := ops[0].(*zk.CreateRequest); ok {
		p.made = append(p.made, r)
		return nil
	}
	return p.fakeServer.Multi(ctx, ops...)
}

// A session that cannot create containers creates persistent parents, with the ACL of the
// lock's znodes.
func TestPlainSessionCreatesParents(t *testing.T) {
	for _, acl := range [][]zk.ACL{nil, zk.AuthACL(zk.PermAll)} {
		play(t, func(s *fakeServer, _ *Lock) {
			p, want := &parentless{fakeServer: s}, acl
			if acl == nil {
				want = zk.WorldACL(zk.PermAll)
			}
			lease := s.mustLock(New(minimalConn{p}, "/lock", Options{ACL: acl}))
			if len(p.made) != 1 || p.made[0].Path != "/lock" || p.made[0].Flags != 0 || !slices.Equal(p.made[0].Acl, want) {
				s.Errorf("made %+v, want a persistent /lock with %v", p.made, want)
			}
			s.release(lease)
		})
	}
}
