package lockcmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/lockcmd/queue"
	"github.com/zksh/zksh/lockcmd/zklock"
)

const ownerHelp = "With --owner, the lock belongs to the owner, which can be any name, and not to this shell. The owner keeps it when zksh exits, " +
	"the connection is lost or the machine reboots: the lock is held until somebody runs unlock --owner with the same name and path, " +
	"on any machine. While the owner waits, its place in the queue belongs to zksh; if zksh is killed, " +
	"the place is gone after the session timeout. An owner never gets two places: if it already holds the lock, the same command " +
	"prints the same answer again. See help reboots."

// ownerLock is a lock that this shell has acquired for an owner. Any process can release it for
// the owner, so the shell does not know whether the owner still holds it.
type ownerLock struct {
	key         key
	path, owner string // as the user typed them
	label       string // mode
	node        string // client path of the lock's znode
	token       int64
}

// checkOwner checks the flags that belong to --owner.
func (f *lockFlags) checkOwner(argv []string) error {
	switch {
	case !f.owned:
		return nil
	case len(argv) > 0:
		return commands.Misuse("--owner cannot be combined with a command, because the command would not end with the lock; " +
			"instead, run the command after zksh: zksh lock --owner NAME PATH && COMMAND")
	case f.background || f.revocable || f.grace.Given:
		return commands.Misuse("-b, -t and --revocable cannot be combined with --owner, because zksh does not hold the lock")
	}
	return validateOwner(f.owner)
}

// validateOwner returns an error if name cannot be the name of an owner.
func validateOwner(name string) error {
	if name == "" || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
		return commands.Misuse("--owner: invalid name %q: must be text without control characters, and not empty", name)
	}
	return nil
}

// lockForOwner acquires a lock for an owner.
func (t *Table) lockForOwner(ctx context.Context, env *commands.Env, k kind, f *lockFlags, dir string) error {
	if err := prepareRequest(ctx, env, k, f, dir); err != nil {
		return err
	}
	if o := t.find(env, dir); k.leases == 0 && o != nil && o.currentStatus().State != zklock.Lost {
		return &commands.FinalError{Err: fmt.Errorf("this shell itself holds or waits for the lock %s, so %s would wait for this shell; run: unlock %s", dir, f.owner, dir)}
	}
	note, err := queue.OwnerNote(f.owner, f.note, k.leases)
	if err != nil {
		return err
	}
	var status latestStatus
	at := env.Session.Ensemble()
	opt := zklock.Options{Family: zklock.Family(f.family), Data: note, ACL: f.acl, Notify: status.set}
	lock := zklock.NewOwned(conn{at}, dir, f.owner, opt)
	if k.leases > 0 {
		lock = zklock.NewOwnedLease(conn{at}, dir, f.owner, k.leases, opt)
	}
	a := newAttempt(ctx, k, func() {})
	defer a.cancel(nil)
	waiting, cancel := f.limited(a.ctx)
	defer cancel()
	end := showWait(env, dir, status.get)
	var own zklock.Ownership
	if err = checkRecipe(waiting, env, dir, k.leases, ""); err == nil {
		own, err = acquireIn(waiting, lock, k.mode, f.try)
	}
	end()
	if err != nil {
		awaitWithdrawal(env, dir, lock.Drain)
		return ownerError(dir, f.owner, err, acquireError(waiting, env, dir, status.get().Ahead, a, f, err))
	}
	if k.leases > 0 && !own.Before {
		if err := checkRecipe(ctx, env, dir, k.leases, path.Base(own.Node)); err != nil {
			return &commands.FinalError{Err: giveBack(ctx, lock, f.owner, dir, err)}
		}
	}
	got := ownerLock{key{at, env.Session.ServerPath(dir)}, dir, f.owner, modeLabel(k, own), own.Node, own.Token}
	t.recordOwner(got)
	answer := ownerLocked{lockLine: got.answer(own)}
	if env.Format == render.JSON { // only JSON contains the fence, which costs requests
		answer.fence = t.fenceOfOwner(ctx, env, own)
	}
	if err := env.Screen.Print(answer); err != nil {
		return err
	}
	if env.Mode == commands.ByHand {
		env.Screen.Note(fmt.Sprintf("%s holds the lock until you run: unlock --owner %s %s", f.owner, commands.Quote(f.owner), dir))
	}
	return nil
}

// giveBack releases a lease that an owner has just acquired if err, the result of checkRecipe, says
// that it must not keep it. If that is unknown, the owner keeps the lease, because another process
// of the owner may rely on it. giveBack returns the error to report.
func giveBack(ctx context.Context, lock *zklock.Owned, owner, dir string, err error) error {
	if errors.As(err, new(recipeError)) {
		releasing, cancel := forRelease(ctx)
		defer cancel()
		_, failed := lock.Unlock(releasing)
		if failed == nil {
			return err
		}
		err = fmt.Errorf("%w; the release failed: %w", err, failed)
	}
	return notConfirmed(fmt.Errorf("%w; %s holds a lease of %s; to release it, run: unlock --owner %s %s",
		err, owner, dir, commands.Quote(owner), dir))
}

// modeLabel returns the mode in which an owner holds a lock, as it is shown to users. A request for
// the read lock can have returned the write lock that the owner already held.
func modeLabel(k kind, own zklock.Ownership) string {
	switch {
	case own.Mode == k.mode:
		return k.label
	case own.Family == zklock.RW:
		return "write"
	}
	return "lock"
}

// ownerError returns the error to report for an owner's request that failed with err. If err is
// not specific to owners, ownerError returns fallback.
func ownerError(path, owner string, err, fallback error) error {
	release := "unlock --owner " + commands.Quote(owner) + " " + path
	switch {
	case errors.Is(err, zklock.ErrUnknown):
		err = notConfirmed(fmt.Errorf("%s: %s: %w; to find out, run: locks %s", path, owner, err, path))
	case errors.Is(err, zklock.ErrUpgrade):
		err = fmt.Errorf("%s: %s holds the read lock, which cannot become a write lock; first run: %s", path, owner, release)
	case errors.Is(err, zklock.ErrFamily):
		err = fmt.Errorf("%s: %s already holds the lock, which it acquired with another command or another --as; to change that, first run: %s", path, owner, release)
	case errors.Is(err, zklock.ErrOverflow):
		err = fmt.Errorf("%s: %w", path, err)
	default:
		return fallback
	}
	return &commands.FinalError{Err: err}
}

// answer returns the answer of a command that acquired the lock for an owner. If the owner already
// held the lock, the answer is the same as before.
func (l ownerLock) answer(own zklock.Ownership) lockLine {
	line := lockLine{"locked", l.path, "mode", l.label, "node", l.node, "token", render.Hex(l.token), "owner", l.owner}
	if !own.Since.IsZero() { // otherwise, zksh may not read the znode
		line = append(line, "since", render.Time(own.Since))
	}
	return append(line, "until", "unlock")
}

// fenceOfOwner returns the value of ZK_LOCK_FENCE for a process that depends on the lock of an owner
// and on the locks that this process depends on.
func (t *Table) fenceOfOwner(ctx context.Context, env *commands.Env, own zklock.Ownership) string {
	ctx, cancel := context.WithTimeout(ctx, marksTimeout)
	defer cancel()
	home := env.Session.Ensemble()
	locks := parseFence(os.Getenv(fenceName))
	locks = append(locks, fencedLock{hosts: home.Servers().Hosts, node: env.Session.ServerPath(own.Node),
		cluster: home.Cluster(), home: home, session: env.Session.Info().ID})
	value, err := fenceValue(ctx, locks)
	if err != nil {
		env.Screen.Note(fmt.Sprintf("lock %s: cannot read the znodes that identify the ensemble: %v; with ZK_LOCK_FENCE, "+
			"zksh can write only if it uses the same server names", own.Node, err))
	}
	return value
}

// ownerLocked is the answer of a command that acquired a lock for an owner. Only its JSON contains
// fence, the value of ZK_LOCK_FENCE, because this value can have several lines.
type ownerLocked struct {
	lockLine
	fence string
}

// MarshalJSON encodes the facts and the fence as a JSON object.
func (l ownerLocked) MarshalJSON() ([]byte, error) {
	return append(l.lockLine, "fence", l.fence).MarshalJSON()
}

// latestStatus keeps the last status that a recipe has reported.
type latestStatus struct {
	mu sync.Mutex
	st zklock.Status
}

func (l *latestStatus) set(st zklock.Status) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.st = st
}

func (l *latestStatus) get() zklock.Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.st
}
