package lockcmd

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/lockcmd/queue"
	"github.com/zksh/zksh/lockcmd/zklock"
)

const semaphoreHelp = "With -c N, the path is a semaphore with N leases instead of a lock, so N clients can hold one at the same time. It is the " +
	"same semaphore as Curator's InterProcessSemaphoreV2. All clients must use the same N: zksh records it in its lease, and " +
	"rejects another N while clients of zksh hold leases, but Curator does not record it. A semaphore and a lock on the same " +
	"path do not exclude each other."

// hasLeases reports whether the command has the flag -c.
func (k kind) hasLeases() bool { return k.command == lockKinds[0].command }

// kindFor returns the kind of lock that the flags of a command of kind k request.
func (f *lockFlags) kindFor(k kind) kind {
	if f.counted {
		k.label, k.mode, k.leases = "semaphore", zklock.Counted, f.leases
	}
	return k
}

// usage returns the command that acquires a lock of this kind, with the flag -c if it has one.
func (k kind) usage() string {
	if k.leases > 0 {
		return fmt.Sprintf("%s -c %d", k.command, k.leases)
	}
	return k.command
}

// noun returns what the command acquires, for messages.
func (k kind) noun() string {
	if k.leases > 0 {
		return "a lease of the semaphore"
	}
	return "the lock"
}

// checkLeases checks the flags that belong to -c.
func (f *lockFlags) checkLeases() error {
	switch {
	case !f.counted:
		return nil
	case f.leases < 1:
		return commands.Misuse("-c: invalid number of leases %d: must be at least 1", f.leases)
	case f.family == string(zklock.Kazoo):
		return commands.Misuse("-c cannot be combined with --as kazoo, because the znodes of kazoo's Semaphore have another layout: " +
			"kazoo would not count the leases of zksh, and zksh would not count those of kazoo")
	case f.family != string(zklock.Mutex):
		return commands.Misuse("-c cannot be combined with --as %s, because a semaphore has only the znodes of Curator's InterProcessSemaphoreV2", f.family)
	}
	return nil
}

// semaphoreAcquirer returns a function that acquires a lease of s. With try set, that function
// does not wait. It returns an error if clients of zksh hold leases of the semaphore under
// another number of leases.
func (o *shellLock) semaphoreAcquirer(s *zklock.Semaphore) func(context.Context, zklock.Mode, bool) (lease, error) {
	return func(ctx context.Context, _ zklock.Mode, try bool) (lease, error) {
		if err := checkRecipe(ctx, o.env, o.path, o.kind.leases, ""); err != nil {
			return nil, err
		}
		acquire := s.Acquire
		if try {
			acquire = s.TryAcquire
		}
		l, err := acquire(ctx)
		if err != nil {
			return nil, err
		}
		if err := checkRecipe(ctx, o.env, o.path, o.kind.leases, path.Base(l.Node())); err != nil {
			releasing, cancel := forRelease(ctx)
			defer cancel()
			return nil, errors.Join(err, l.Unlock(releasing))
		}
		return l, nil
	}
}

// checkRecipe returns an error if the queue at dir belongs to another recipe than the request: to a
// lock instead of a semaphore, to a semaphore instead of a lock, or to a semaphore of which clients
// of zksh hold leases under another number of leases. leases is the number of leases of the
// request, or 0 for a lock. own is the name of the znode of the request, or empty. Contenders that
// are newer than own do not count, because their owners have to check, too. The error is a
// recipeError unless the queue cannot be read.
func checkRecipe(ctx context.Context, env *commands.Env, dir string, leases int, own string) error {
	q, err := readQueue(ctx, env, dir)
	if err != nil {
		return err
	}
	mine := q.Contender(own)
	older := func(c *queue.Contender) bool { return mine == nil || c.Place < mine.Place }
	var others []string
	for _, c := range q.Contenders {
		switch {
		case c == mine || !c.Holds() || !older(c) || q.OfSemaphore(c) == (leases > 0):
		case leases > 0:
			return mismatch("%s is a lock, not a semaphore: %s holds it; use another path, because a lock and a semaphore do not exclude each other", dir, c)
		default:
			return mismatch("%s is a semaphore, not a lock: %s holds a lease; use -c, or another path, because a lock and a semaphore do not exclude each other", dir, c)
		}
	}
	for _, c := range q.OtherLeases(leases) {
		if leases > 0 && older(c) {
			others = append(others, fmt.Sprintf("%s uses -c %d", c, c.Leases))
		}
	}
	if len(others) == 0 {
		return nil
	}
	return mismatch("%s: -c %d does not match the leases that clients hold: %s; use the same number, or wait until they have released their leases",
		dir, leases, strings.Join(others, ", "))
}

// A recipeError says that the queue at a path belongs to another recipe than the request.
type recipeError struct{ error }

func mismatch(format string, args ...any) error { return recipeError{fmt.Errorf(format, args...)} }

// readQueue reads the queue at dir. It continues after a lost connection.
func readQueue(ctx context.Context, env *commands.Env, dir string) (*queue.Queue, error) {
	for {
		q, err := queue.ReadKnown(ctx, ensemble{env.Session}, dir)
		if !errors.Is(err, zkconn.ConnectionLoss) || ctx.Err() != nil {
			return q, err
		}
		if err := queue.Pause(ctx, readPause); err != nil { // the server may be answering ConnectionLoss without an end
			return nil, err
		}
		if err := ready(ctx, env.Session); err != nil {
			return nil, err
		}
	}
}

// readPause is the pause before a queue is read again after a lost connection.
const readPause = 100 * time.Millisecond
