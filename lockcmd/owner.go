package lockcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/lockcmd/queue"
	"github.com/zksh/zksh/lockcmd/zklock"
)

const ownerHelp = "With --owner, the lock belongs to the owner, which can be any name, and not to this shell. The owner keeps it when zksh exits, " +
	"the connection is lost or the machine reboots: there is no lease, so the lock is held until somebody runs unlock --owner with the " +
	"same name and path, on any machine. While the owner waits, its place in the queue belongs to zksh; if zksh dies, the place is " +
	"gone. An owner never gets two places: if it already holds the lock, the command prints the same answer again. See help reboots."

// ownerLock is a lock that this shell has acquired for an owner. Any process can release it for
// the owner, so the shell does not know whether the owner still holds it.
type ownerLock struct {
	key         key
	path, owner string // as the user typed them
	label       string // mode
	node        string // client path of the lock's first znode
	token       int64
}

// checkOwner checks the flags that belong to --owner.
func (f *lockFlags) checkOwner(argv []string) error {
	switch {
	case !f.owned && (f.expire.Given || f.export):
		return commands.Misuse("--expire and --export require --owner")
	case !f.owned:
		return nil
	case len(argv) > 0:
		return commands.Misuse("--owner cannot be combined with a command, because the command would not end with the lock; " +
			"instead, run the command after zksh: zksh lock --owner NAME PATH && COMMAND")
	case f.background || f.revocable || f.grace.Given:
		return commands.Misuse("-b, -t and --revocable cannot be combined with --owner, because zksh does not hold the lock")
	case f.expire.Given && f.expire.Value < time.Second:
		return commands.Misuse("--expire: invalid duration %s: must be at least 1s", f.expire.Value)
	}
	return validateOwner(f.owner)
}

// validateOwner returns an error if name cannot be the name of an owner.
func validateOwner(name string) error {
	if name == "" || strings.ContainsFunc(name, unicode.IsControl) {
		return commands.Misuse("--owner: invalid name %q: must be text without control characters, and not empty", name)
	}
	return nil
}

// lockForOwner acquires a lock for an owner.
func (t *Table) lockForOwner(ctx context.Context, env *commands.Env, k kind, f *lockFlags, dir string) error {
	if err := prepareRequest(ctx, env, k, f, dir); err != nil {
		return err
	}
	if o := t.find(env, dir); o != nil && o.currentStatus().State != zklock.Lost {
		return &commands.FinalError{Err: fmt.Errorf("this shell itself holds or waits for the lock %s, so %s would wait for this shell; run: unlock %s", dir, f.owner, dir)}
	}
	note, err := queue.OwnerNote(f.owner, f.note, k.leases)
	if err != nil {
		return err
	}
	var status latestStatus
	at := env.Session.Ensemble()
	opt := zklock.Options{Family: zklock.Family(f.family), Data: note, ACL: f.acl, Expire: f.expire.Value, Notify: status.set}
	lock := zklock.NewOwned(conn{at}, dir, f.owner, opt)
	if k.leases > 0 {
		if err := checkOtherLeases(ctx, env, dir, k.leases, ""); err != nil {
			return &commands.FinalError{Err: err}
		}
		lock = zklock.NewOwnedLease(conn{at}, dir, f.owner, k.leases, opt)
	}
	a := newAttempt(ctx, k, func() {})
	defer a.cancel(nil)
	waiting := a.ctx
	if f.limit.Given {
		var cancel context.CancelFunc
		waiting, cancel = context.WithTimeoutCause(waiting, f.limit.Value, f.timeoutErr)
		defer cancel()
	}
	end := showWait(env, dir, status.get)
	own, err := ownerAcquirer(lock, k.mode, f.try)(waiting)
	end()
	if err != nil {
		removing, cancel := context.WithTimeout(context.Background(), withdrawTimeout)
		defer cancel()
		if lock.Drain(removing) != nil {
			env.Screen.Note("lock " + dir + ": zksh is removing its place in the queue in the background")
		}
		return ownerError(dir, f.owner, err, acquireError(waiting, env, dir, status.get().Ahead, a, f, err))
	}
	if k.leases > 0 && !own.Before {
		if err := checkOtherLeases(ctx, env, dir, k.leases, path.Base(own.Nodes[0])); err != nil {
			releasing, cancel := forRelease(ctx)
			defer cancel()
			_, unlockErr := lock.Unlock(releasing)
			return &commands.FinalError{Err: errors.Join(err, unlockErr)}
		}
	}
	got := ownerLock{key{at, env.Session.ServerPath(dir)}, dir, f.owner, modeLabel(k, own.Mode), own.Nodes[0], own.Token}
	t.recordOwner(got)
	fence := t.fenceOfOwner(ctx, env, own)
	if f.export {
		return env.Screen.Print(fenceExport{fence})
	}
	if err := env.Screen.Print(got.answer(own)); err != nil {
		return err
	}
	if env.Mode == commands.ByHand {
		env.Screen.Note(fmt.Sprintf("%s holds the lock until you run: unlock --owner %s %s", f.owner, commands.Quote(f.owner), dir))
	}
	return nil
}

// ownerAcquirer returns the method of lock that acquires it in a mode. With try set, that method
// does not wait.
func ownerAcquirer(lock *zklock.Owned, mode zklock.Mode, try bool) func(context.Context) (zklock.Ownership, error) {
	switch {
	case try && mode == zklock.Shared:
		return lock.TryRLock
	case try:
		return lock.TryLock
	case mode == zklock.Shared:
		return lock.RLock
	}
	return lock.Lock
}

// modeLabel returns the label that users see for the mode in which an owner holds a lock. The
// owner may have acquired the lock with a command other than k.
func modeLabel(k kind, mode zklock.Mode) string {
	if mode == k.mode || k.leases > 0 {
		return k.label
	}
	return lockKinds[slices.IndexFunc(lockKinds, func(other kind) bool { return other.mode == mode })].label
}

// ownerError returns the error to report for an owner's request that failed with err. If err is
// not specific to owners, ownerError returns fallback.
func ownerError(path, owner string, err, fallback error) error {
	release := "unlock --owner " + commands.Quote(owner) + " " + path
	switch {
	case errors.Is(err, zklock.ErrUnconfirmed):
		err = &commands.StatusError{Status: commands.StatusUnconfirmed, Err: fmt.Errorf("%s: it is not known whether %s holds the lock: %w; to find out, run: locks %s", path, owner, err, path)}
	case errors.Is(err, zklock.ErrUpgrade):
		err = fmt.Errorf("%s: %s holds the read lock, which cannot become a write lock; first run: %s", path, owner, release)
	case errors.Is(err, zklock.ErrExpire):
		err = fmt.Errorf("%s: %s already holds the lock with another --expire, or without it; to change that, first run: %s", path, owner, release)
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
	line := lockLine{"locked", l.path, "mode", l.label, "node", l.node, "token", render.Hex(l.token), "owner", l.owner,
		"since", render.Time(own.Since), "until", "unlock"}
	if own.Expire > 0 {
		line = append(line, "expire", queue.FormatExpire(own.Expire))
	}
	return line
}

// fenceOfOwner returns the value of ZK_LOCK_FENCE for the lock of an owner.
func (t *Table) fenceOfOwner(ctx context.Context, env *commands.Env, own zklock.Ownership) string {
	ctx, cancel := context.WithTimeout(ctx, marksTimeout)
	defer cancel()
	home := env.Session.Ensemble()
	var locks []fencedLock
	for _, node := range own.Nodes {
		locks = append(locks, fencedLock{hosts: home.Servers().Hosts, node: env.Session.ServerPath(node), cluster: home.Cluster(), home: home, session: env.Session.Info().ID})
	}
	locks, err := withMarks(ctx, locks)
	if err != nil {
		env.Screen.Note(fmt.Sprintf("lock %s: cannot read the znodes that identify the ensemble: %v; with ZK_LOCK_FENCE, zksh can write only if it uses the same server names", own.Nodes[0], err))
	}
	var lines []string
	for _, l := range locks {
		lines = append(lines, l.String())
	}
	return strings.Join(lines, "\n")
}

// fenceExport is the answer of lock --owner --export.
type fenceExport struct {
	Fence string `json:"fence"` // value of ZK_LOCK_FENCE
}

// Text implements render.Value. It writes a command for a POSIX shell.
func (e fenceExport) Text(w io.Writer) error {
	_, err := fmt.Fprintf(w, "export %s='%s'\n", fenceName, strings.ReplaceAll(e.Fence, "'", `'\''`))
	return err
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

// recordOwner records a lock that this shell has acquired for an owner, for the command locks.
func (t *Table) recordOwner(l ownerLock) {
	t.forgetOwner(l.key, l.owner)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ownerLocks = append(t.ownerLocks, l)
}

// forgetOwner removes the record of a lock that the owner no longer holds.
func (t *Table) forgetOwner(k key, owner string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ownerLocks = slices.DeleteFunc(t.ownerLocks, func(o ownerLock) bool { return o.key == k && o.owner == owner })
}

// unlockForOwner releases the lock that an owner holds on path, and its lease of the semaphore
// there.
func (t *Table) unlockForOwner(ctx context.Context, env *commands.Env, owner, path string) error {
	if err := errors.Join(validateOwner(owner), zkconn.ValidatePath(path, false)); err != nil {
		return err
	}
	if err := ready(ctx, env.Session); err != nil {
		return err
	}
	at := env.Session.Ensemble()
	ctx, cancel := context.WithTimeout(ctx, env.Session.Info().Timeout)
	defer cancel()
	released, err := zklock.NewOwned(conn{at}, path, owner, zklock.Options{}).Unlock(ctx)
	if err == nil {
		var lease bool
		lease, err = zklock.NewOwnedLease(conn{at}, path, owner, 1, zklock.Options{}).Unlock(ctx) // the number of leases makes no difference here
		released = released || lease
	}
	switch {
	case errors.Is(err, zklock.ErrUnconfirmed):
		return &commands.StatusError{Status: commands.StatusUnconfirmed, Err: fmt.Errorf("%s: %w; to release the lock of %s, run the same command again", path, err, owner)}
	case errors.Is(err, zklock.ErrLost):
		t.forgetOwner(key{at, env.Session.ServerPath(path)}, owner)
		return lockLost(fmt.Errorf("%s: another client removed the znode of %s just now, so the lock may have been free before", path, owner))
	case err != nil:
		return fmt.Errorf("cannot release the lock %s of %s: %w", path, owner, err)
	}
	t.forgetOwner(key{at, env.Session.ServerPath(path)}, owner)
	return env.Screen.Print(ownerUnlocked{path, owner, released})
}

// ownerUnlocked is the answer of unlock --owner.
type ownerUnlocked struct {
	Path     string `json:"unlocked"`
	Owner    string `json:"owner"`
	Released bool   `json:"released"` // false if the owner held nothing
}

// Text implements render.Value.
func (u ownerUnlocked) Text(w io.Writer) error {
	if !u.Released {
		_, err := fmt.Fprintf(w, "%s does not hold the lock %s\n", u.Owner, u.Path)
		return err
	}
	return lockLine{"unlocked", u.Path, "owner", u.Owner}.Text(w)
}

// ownerRows returns the rows for the locks that this shell has acquired for owners.
func (t *Table) ownerRows() (rows lockRows) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, l := range t.ownerLocks {
		if !l.key.stay.Closed() {
			rows = append(rows, lockRow{Path: l.path, Mode: l.label, State: "owned", Node: l.node, Token: render.Hex(l.token), Owner: l.owner})
		}
	}
	return rows
}
