package lockcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/spf13/pflag"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/lockcmd/child"
	"github.com/zksh/zksh/lockcmd/queue"
	"github.com/zksh/zksh/lockcmd/zklock"
)

const group = "Locks"

// A kind describes one of the commands that acquire a lock: lock, wlock or rlock.
type kind struct {
	command string
	label   string // mode of the lock, as shown in answers and lists
	mode    zklock.Mode
	family  zklock.Family // default value of the flag --as
	leases  int           // number of leases of a semaphore; 0 for a lock
	summary string
	help    string
}

var lockKinds = []kind{
	{"lock", "lock", zklock.Exclusive, zklock.Mutex, 0, "acquire an exclusive lock, or run a command under it",
		"This is the same lock as Curator's InterProcessMutex and go-zookeeper's Lock."},
	{"wlock", "write", zklock.Exclusive, zklock.RW, 0, "acquire the write lock of a read-write lock",
		"This is the same lock as the write lock of Curator's InterProcessReadWriteLock. Its holder excludes all readers and all other writers."},
	{"rlock", "read", zklock.Shared, zklock.RW, 0, "acquire the read lock of a read-write lock",
		"This is the same lock as the read lock of Curator's InterProcessReadWriteLock. Several readers can hold it at the same time."},
}

const lockHelp = "zksh creates the path if necessary, and adds a znode below it for each contender. Contenders acquire the lock in the " +
	"order of arrival; Ctrl-C cancels the wait. The shell holds the lock until you run unlock, the shell exits or the " +
	"session ends; zksh reports the loss of a lock immediately. A script that fails to acquire a lock, also in the background, " +
	"or loses one, stops there; with zksh -k, it continues.\n\n" +
	"If you add a command, zksh holds the lock until the command and all processes that it has started have ended, " +
	"daemons included. With --leave, zksh releases the lock when the command itself has ended. The exit status is that " +
	"of the command, or 76 if no server has confirmed the release. If the lock is lost or about to be lost, zksh " +
	"terminates all of these processes before another client can acquire the lock (see help guarantee for the " +
	"exceptions). Without -m, the note is the name of the command.\n\n" +
	"zksh always waits for locks of Curator, go-zookeeper and kazoo. --as selects which of them, in turn, wait for zksh: " +
	"mutex (Curator's InterProcessMutex and go-zookeeper's Lock), rw (Curator's InterProcessReadWriteLock) or kazoo " +
	"(kazoo's Lock, WriteLock and ReadLock).\n\n" +
	"The command gets the environment variables ZK_LOCK_PATH, ZK_LOCK_NODE, ZK_LOCK_TOKEN, ZK_LOCK_SESSION and " +
	"ZK_LOCK_MODE, which describe the lock. ZK_LOCK_HELD lists all locks that the command's parent processes hold. zksh " +
	"rejects an attempt to acquire a lock on one of these paths, because it would wait for itself.\n\n" +
	"While this shell or a parent process holds a lock, all writes of zksh depend on the lock: once the lock is lost, " +
	"ZooKeeper rejects them (zksh --no-fence turns this off). The command gets these locks in ZK_LOCK_FENCE, one per line: " +
	"the servers, the lock's znode, and data that identifies the ensemble even if you use another server name. Every zksh " +
	"that the command starts reads this variable. It can write freely to other ensembles. If it is unsure whether the " +
	"target is another ensemble, it writes nothing and exits with status 74."

// lockFlags are the flags of a command that acquires a lock.
type lockFlags struct {
	try, background, leave, revocable bool
	wait, grace                       commands.Duration
	status                            int
	note, family, aclText             string
	acl                               []zk.ACL // parsed from aclText

	owned bool   // whether --owner was given
	owner string // name of the owner

	counted bool // whether -c was given
	leases  int  // number of leases of the semaphore

	limit      commands.Duration // maximum time to wait for the lock
	timeoutErr error             // error to report when the limit has passed
}

func (f *lockFlags) declare(fs *pflag.FlagSet, k kind) {
	f.grace.Value = 5 * time.Second
	f.family = string(k.family)
	fs.BoolVarP(&f.try, "no-wait", "n", false, "do not wait")
	fs.VarP(&f.wait, "wait", "w", "wait at most this `duration`, such as 5s or 2m; a number without a unit means seconds")
	fs.BoolVarP(&f.background, "background", "b", false, "wait in the background, and return to the prompt immediately")
	fs.IntVarP(&f.status, "status", "E", commands.StatusNotLocked, "exit with this `status` if another client holds the lock")
	fs.StringVarP(&f.note, "note", "m", "", "leave a `note` that other clients can see")
	fs.StringVar(&f.aclText, "acl", "", "create the lock's znode and missing parents with this `ACL`, in the same format as for create")
	fs.VarP(&f.grace, "grace", "t", "when the command must terminate, wait this `duration` between SIGTERM and SIGKILL, but at most an eighth of the session timeout")
	fs.BoolVar(&f.leave, "leave", false, "release the lock when the command itself has ended, and leave its daemons running")
	fs.StringVar(&f.family, "as", f.family, "be compatible with this `family` of clients: mutex, rw or kazoo")
	var families []string
	for _, known := range zklock.Families() {
		families = append(families, string(known))
	}
	commands.FlagWords(fs, "as", families...)
	fs.StringVar(&f.owner, "owner", "", "acquire the lock for an `owner`, who keeps it after zksh exits, until unlock --owner")
	if k.hasLeases() {
		fs.IntVarP(&f.leases, "count", "c", 0, "acquire one of this `number` of leases of a semaphore instead of a lock")
	}
	fs.BoolVar(&f.revocable, "revocable", false, "release the lock when another client asks for it with revoke")
}

func (f *lockFlags) check(argv []string) error {
	if err := cmp.Or(f.checkOwner(argv), f.checkLeases()); err != nil {
		return err
	}
	switch {
	case f.try && f.wait.Given:
		return commands.Misuse("-n and -w cannot be combined, because -n does not wait")
	case f.try && f.background:
		return commands.Misuse("-n and -b cannot be combined, because -n does not wait")
	case f.background && len(argv) > 0:
		return commands.Misuse("-b cannot be combined with a command; instead, start zksh itself in the background")
	case f.leave && len(argv) == 0:
		return commands.Misuse("--leave requires a command")
	case f.status < 0 || f.status > 255:
		return commands.Misuse("-E: invalid exit status %d: must be between 0 and 255", f.status)
	}
	if f.aclText != "" {
		var err error
		if f.acl, err = commands.ParseACL(f.aclText); err != nil {
			return commands.Misuse("--acl: %v", err)
		}
	}
	f.try = f.try || f.wait.Given && f.wait.Value == 0 // -w 0 means -n, as in flock(1)
	for _, known := range zklock.Families() {
		if f.family == string(known) {
			return nil
		}
	}
	return commands.Misuse("--as: unknown family %q; use mutex, rw or kazoo", f.family)
}

func (t *Table) lockCommand(k kind) *commands.Command {
	count, help := "", k.help+" "+lockHelp+"\n\n"+ownerHelp
	examples := []string{
		k.command + " -w 10s -m 'nightly backup' /locks/backup",
		k.command + " /locks/backup -- tar cf /backup/app.tar /srv/app",
		k.command + " -n /locks/backup -- true",
		k.command + " --owner web-1 /locks/reboot",
	}
	if k.hasLeases() {
		count, help = " [-c number]", help+"\n\n"+semaphoreHelp
		examples = append(examples, k.command+" -c 3 /semaphores/import -- echo importing")
	}
	return &commands.Command{
		Name: k.command, Group: group, Effect: commands.Writes,
		Args: "[-n] [-w duration]" + count + " [-b] [-E status] [-m note] [--acl acl] [-t duration] [--leave] " +
			"[--as family] [--owner owner] [--revocable] path [-- command arg…]",
		Summary: k.summary, Help: help,
		Limits:   []string{"kazoo's Lock ignores readers."},
		Examples: examples,
		Params:   []commands.Param{{Name: "path"}, {Name: "command", Kind: commands.Data, Optional: true, Rest: true}},
		Flags: func(fs *pflag.FlagSet) commands.Run {
			var f lockFlags
			f.declare(fs, k)
			return func(ctx context.Context, env *commands.Env, args []string) error {
				f.owned, f.counted = fs.Changed("owner"), fs.Changed("count")
				if err := f.check(args[1:]); err != nil {
					return err
				}
				if f.owned {
					return t.lockForOwner(ctx, env, f.kindFor(k), &f, args[0])
				}
				if env.Mode == commands.OneShot && len(args) == 1 {
					return commands.Misuse("zksh would exit immediately and release the lock; add the command to run under it: zksh %s PATH -- COMMAND", k.command)
				}
				return t.lockAndRun(ctx, env, f.kindFor(k), &f, args[0], args[1:])
			}
		},
	}
}

// lockAndRun acquires a lock and, if argv is not empty, runs the command argv under it. It
// begins to listen for signals before it requests the lock. A signal before the lock is granted
// cancels the attempt; a later signal is passed on to the command.
func (t *Table) lockAndRun(ctx context.Context, env *commands.Env, k kind, f *lockFlags, path string, argv []string) error {
	if err := prepareRequest(ctx, env, k, f, path); err != nil {
		return err
	}
	timeout := env.Session.Info().Timeout
	waiting, stop := ctx, func() {}
	spec := child.Spec{Argv: argv, Leave: f.leave, In: env.Streams.In, Out: env.Streams.Out, Err: env.Streams.Err}
	switch {
	case f.background:
		waiting = t.background
	case len(argv) > 0:
		spec.Signals = child.Listen()
		// stop is also called when ctx ends, so that the next signal terminates zksh.
		stop = spec.Signals.Close
		defer stop()
	}
	a := newAttempt(waiting, k, stop)
	if len(argv) > 0 {
		a.command = newCommand(argv[0], f.grace.Value, timeout)
		if cut := a.command.grace; f.grace.Given && cut < f.grace.Value {
			t.notifier.notify(env.Screen.Note, fmt.Sprintf("because the session timeout is %[2]s, -t is limited to %[1]s", seconds(cut), timeout))
		}
	}
	o, err := t.prepare(env, a, f, path)
	if err != nil {
		a.cancel(nil)
		return &commands.FinalError{Err: err}
	}
	if f.background {
		return waitInBackground(ctx, o, a, f)
	}
	end := showWait(env, o.path, o.currentStatus)
	l, err := o.acquire(a, f)
	end()
	if err != nil {
		awaitWithdrawal(env, o.path, o.drain)
		_ = commands.CleanUp(ctx, t.notifier.finish) // print pending notices before the error
		return err
	}
	if a.command == nil {
		return env.Screen.Print(l.answer(o.path))
	}
	defer env.Screen.ShowKeys()()
	err = o.guard(ctx, a.command, spec)
	interrupted, failure := spec.Signals.PassKeyOn(ctx)
	if interrupted {
		t.interrupted.Store(true)
	}
	if failure != nil {
		err = errors.Join(err, failure)
	}
	return err
}

// awaitWithdrawal waits a moment until a failed attempt has left the queue at path. If that takes
// longer, it tells the user.
func awaitWithdrawal(env *commands.Env, path string, drain func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), withdrawTimeout)
	defer cancel()
	if drain(ctx) != nil {
		env.Screen.Note("lock " + path + ": zksh is removing its place in the queue in the background")
	}
}

// limited returns a context like ctx that ends when f.limit has passed, if there is a limit.
func (f *lockFlags) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	if !f.limit.Given {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, f.limit.Value, f.timeoutErr)
}

// prepareRequest waits for a session, and sets f.limit, the time limit of the request. It returns
// an error if the request would have to wait for a lock that a parent process holds.
func prepareRequest(ctx context.Context, env *commands.Env, k kind, f *lockFlags, path string) error {
	if err := zkconn.ValidatePath(path, false); err != nil {
		return err
	}
	if err := ready(ctx, env.Session); err != nil {
		return &commands.FinalError{Err: err}
	}
	if err := checkSelfDeadlock(ctx, env, k, path); err != nil {
		return &commands.FinalError{Err: err}
	}
	f.limit, f.timeoutErr = f.wait, errTimeUp
	if f.try { // no wait for other clients, so only an outage can delay the answer
		f.limit, f.timeoutErr = commands.Duration{Value: env.Session.Info().Patience, Given: true}, fmt.Errorf("%w: the servers did not answer the request for the lock in time", zkconn.ConnectionLoss)
	}
	return nil
}

// ready waits until the servers have accepted a session. If the session expires meanwhile, ready
// waits for the next one.
func ready(ctx context.Context, s *zkconn.Session) error {
	for {
		if err := s.Ready(ctx); !errors.Is(err, zkconn.SessionExpired) {
			return err
		}
	}
}

// prepare finds or creates the table entry for path and starts the attempt there. It returns an
// error if the attempt would wait for a lock that this shell itself holds or waits for.
func (t *Table) prepare(env *commands.Env, a *attempt, f *lockFlags, path string) (*shellLock, error) {
	at := key{env.Session.Ensemble(), env.Session.ServerPath(path)}
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.locks[at]
	switch {
	case t.ending:
		return nil, errLeaving
	case o != nil && o.status.State != zklock.Lost: // if the lock is lost, a new entry replaces it
		if err := o.checkReentry(a.kind, f); err != nil {
			return nil, err
		}
	default:
		data, err := queue.Note(a.note(f.note), t.heldNodesLocked(), a.kind.leases)
		if err != nil {
			return nil, err
		}
		o = &shellLock{table: t, key: at, env: env, closed: at.stay.Closed, lifecycle: lifecycle{path: path, kind: a.kind, family: zklock.Family(f.family)}}
		o.setRecipe(zklock.Options{Family: o.family, Data: data, ACL: f.acl, Notify: o.onStatus})
		t.locks[at] = o
	}
	o.revocable = o.revocable || f.revocable
	o.attemptStarted(a)
	return o, nil
}
