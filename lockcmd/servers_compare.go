package lockcmd

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/cluster"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/lockcmd/queue"
)

const (
	memberLimit  = 5 * time.Second // longest time to connect to one member, and to read a queue from it
	comparePause = time.Second     // between two readings, if there is a difference
)

// compareServers runs the command servers --compare: it compares the queue at path between the
// members of the ensemble. If they do not agree, it returns a StatusError without a message.
func compareServers(ctx context.Context, env *commands.Env, path string, quiet bool) error {
	if err := zkconn.ValidatePath(path, false); err != nil {
		return err
	}
	c, err := compareMembers(ctx, env.Session, path)
	if err != nil {
		return err
	}
	if !quiet {
		if err := env.Screen.Print(c); err != nil {
			return err
		}
	}
	if !c.Agree {
		return &commands.StatusError{Status: commands.StatusFailed}
	}
	return nil
}

// compareMembers compares the queue at path between the members of the ensemble of s. Because a
// queue changes while it is read, it reports only differences that it sees twice, comparePause
// apart.
func compareMembers(ctx context.Context, s *zkconn.Session, path string) (*queue.Comparison, error) {
	members := openMembers(ctx, s)
	defer closeMembers(members)
	first := queue.CompareMembers(path, readMembers(ctx, members, path))
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if len(first.Differences) == 0 {
		return first, nil
	}
	if err := queue.Pause(ctx, comparePause); err != nil {
		return nil, err
	}
	second := queue.CompareMembers(path, readMembers(ctx, members, path))
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	second.Confirm(first)
	return second, nil
}

// A memberSession is a session on one member of the ensemble.
type memberSession struct {
	addr    string
	session *zkconn.Session // nil if it could not be opened
	err     error
}

// openMembers opens a session on each member of the ensemble of s, with the same credentials.
func openMembers(ctx context.Context, s *zkconn.Session) []*memberSession {
	addrs := cluster.Members(ctx, ensemble{s})
	slices.Sort(addrs) // the order of the connect string is random
	var members []*memberSession
	for _, addr := range addrs {
		members = append(members, &memberSession{addr: addr})
	}
	var opening sync.WaitGroup
	for _, m := range members {
		opening.Go(func() { m.open(ctx, s) })
	}
	opening.Wait()
	return members
}

// open opens the session of m, and waits until it is connected.
func (m *memberSession) open(ctx context.Context, s *zkconn.Session) {
	if m.session, m.err = s.Member(m.addr); m.err != nil {
		return
	}
	ctx, cancel := limitMember(ctx)
	defer cancel()
	m.err = m.session.Ready(ctx)
}

// limitMember limits the time that zksh waits for one member.
func limitMember(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, memberLimit, fmt.Errorf("no reply within %s", memberLimit))
}

// readMembers reads the queue at path from each member, one after another, because each queue may
// need much memory while it is read.
func readMembers(ctx context.Context, members []*memberSession, path string) (list []*queue.Member) {
	for _, m := range members {
		list = append(list, m.read(ctx, path))
	}
	return list
}

func (m *memberSession) read(ctx context.Context, path string) *queue.Member {
	if m.err != nil {
		return &queue.Member{Server: m.addr, Problem: m.err.Error()}
	}
	ctx, cancel := limitMember(ctx)
	defer cancel()
	read, err := queue.ReadMember(ctx, ensemble{m.session}, m.addr, path)
	if err != nil {
		return &queue.Member{Server: m.addr, Problem: err.Error()}
	}
	return read
}

// closeMembers closes the sessions. A session that cannot be closed ends after its timeout.
func closeMembers(members []*memberSession) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var closing sync.WaitGroup
	for _, m := range members {
		if m.session != nil {
			closing.Go(func() { _ = m.session.Close(ctx) })
		}
	}
	closing.Wait()
}
