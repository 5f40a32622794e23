package lockcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/spf13/pflag"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/lockcmd/queue"
)

func (t *Table) unlockCommand() *commands.Command {
	return &commands.Command{
		Name: "unlock", Group: group, Effect: commands.Offline | commands.Writes, Args: "[-a] [--force node] [--owner owner] [path]",
		Summary: "release a lock",
		Help: "If this shell holds only one lock, you can omit the path. If this shell is still waiting for the lock in the " +
			"background, unlock stops the wait.\n\n" +
			"unlock waits until a server has confirmed the release, but not longer than the session timeout. To stop " +
			"waiting for the confirmation, press Ctrl-C.\n\n" +
			"With --force, unlock takes a lock away from another client by deleting that client's znode from the queue. " +
			"The other client may not notice that it has lost the lock.\n\n" +
			"With --owner, unlock releases a lock that was acquired with lock --owner, by this shell or another one. If the owner " +
			"does not hold the lock, unlock says so and exits with 0. Processes that wait for the owner continue to wait.",
		Limits: []string{
			"A lock that this shell acquired twice must be released twice.",
			"If this shell acquired a lock for both writing and reading, the first unlock releases only the write lock.",
		},
		Examples: []string{"unlock /locks/backup", "unlock -a", "unlock --owner web-1 /locks/reboot"},
		Params:   []commands.Param{{Name: "path", Kind: commands.HeldLock, Optional: true}},
		Flags: func(fs *pflag.FlagSet) commands.Run {
			all := fs.BoolP("all", "a", false, "release all locks of this shell, the most recent first")
			owner := fs.String("owner", "", "release the lock that this `owner` holds")
			node := fs.String("force", "", "remove this `node`, which belongs to another client, from the queue at path")
			return func(ctx context.Context, env *commands.Env, args []string) error {
				switch {
				case fs.Changed("owner") && (*all || fs.Changed("force") || len(args) == 0):
					return commands.Misuse("--owner requires the path of the lock, and cannot be combined with -a or --force")
				case fs.Changed("owner"):
					return t.unlockForOwner(ctx, env, *owner, args[0])
				case *all && (len(args) > 0 || *node != ""):
					return commands.Misuse("-a releases all locks, so it cannot be combined with a path or --force")
				case fs.Changed("force") && len(args) == 0:
					return commands.Misuse("--force requires the node to remove and the path of the lock; to list the nodes, run: locks PATH")
				case *all:
					return t.unlockAll(ctx, env)
				case *node != "":
					return t.force(ctx, env, args[0], *node)
				}
				o, err := t.selectLock(env, args)
				if err != nil {
					return err
				}
				_, err = o.unlock(ctx, env)
				return err
			}
		},
	}
}

// selectLock returns the lock at the path in args or, without a path, the only lock of the
// shell.
func (t *Table) selectLock(env *commands.Env, args []string) (*shellLock, error) {
	if len(args) > 0 {
		if err := zkconn.ValidatePath(args[0], false); err != nil {
			return nil, err
		}
		if o := t.find(env, args[0]); o != nil {
			return o, nil
		}
		if owner := t.ownerAt(key{env.Session.Ensemble(), env.Session.ServerPath(args[0])}); owner != "" {
			return nil, fmt.Errorf("this shell acquired the lock %s for %s; to release it, run: unlock --owner %s %s", args[0], owner, commands.Quote(owner), args[0])
		}
		return nil, fmt.Errorf("this shell does not hold the lock %s; to see who does, run: locks %s", args[0], args[0])
	}
	all := t.all()
	switch len(all) {
	case 0:
		return nil, errors.New("this shell does not hold any locks")
	case 1:
		return all[0], nil
	}
	var paths []string
	for _, o := range all {
		paths = append(paths, o.path)
	}
	return nil, fmt.Errorf("this shell holds several locks: %s; specify one, or use -a to release all of them", strings.Join(paths, ", "))
}

func (t *Table) unlockAll(ctx context.Context, env *commands.Env) error {
	all := t.all()
	if len(all) == 0 {
		return errors.New("this shell does not hold any locks")
	}
	ctx, cancel := context.WithTimeout(ctx, env.Session.Info().Patience) // time limit for all locks together
	defer cancel()
	var errs []error
	for _, o := range all {
		for more := true; more; {
			var err error
			if more, err = o.unlock(ctx, env); err != nil {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

// unlock releases one lease of the lock or, if the lock is not held yet, cancels the wait. more
// reports whether the caller can unlock the lock once more; it is false after an error.
func (o *shellLock) unlock(ctx context.Context, env *commands.Env) (more bool, err error) {
	var a *attempt
	o.apply(func() { a = o.cancelAttempt(errWithdrawn) })
	if a != nil {
		select {
		case <-a.done:
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
		if a.releaseErr != nil {
			return false, a.releaseErr
		}
		return false, env.Screen.Print(unlocked{Path: o.path})
	}
	l := o.claim(true)
	if l == nil {
		return false, fmt.Errorf("this shell does not hold the lock %s", o.path)
	}
	node := l.Node() // read it before the release, which may replace the znode
	left, err := o.release(ctx, l)
	if err != nil {
		return false, err
	}
	return left > 0, env.Screen.Print(unlocked{o.path, l.kind.label, node, left})
}

// unlocked is the answer of the command unlock.
type unlocked struct {
	Path string `json:"unlocked"`
	Mode string `json:"mode,omitempty"`
	Node string `json:"node,omitempty"`
	Left int    `json:"left"` // number of leases of this lock that the shell still holds
}

// Text implements render.Value. It writes the answer on one line.
func (u unlocked) Text(w io.Writer) error { return u.line().Text(w) }

// FitText implements render.Fitter.
func (u unlocked) FitText(w io.Writer, columns int) error { return u.line().FitText(w, columns) }

func (u unlocked) line() lockLine {
	l := lockLine{"unlocked", u.Path}
	if u.Mode != "" {
		l = append(l, "mode", u.Mode, "node", u.Node)
	}
	if u.Left > 0 {
		l = append(l, "left", u.Left)
	}
	return l
}

// force removes another client's znode from the queue of the lock at dir.
func (t *Table) force(ctx context.Context, env *commands.Env, dir, which string) error {
	q, err := queue.Read(ctx, ensemble{env.Session}, dir)
	if err != nil {
		return err
	}
	if err := checkKnown(q); err != nil {
		return err
	}
	node, err := q.Find(which)
	if err != nil {
		return err
	}
	if o := t.find(env, dir); o != nil && path.Base(o.currentStatus().Node) == path.Base(node) {
		return fmt.Errorf("%s is a znode of this shell; to release the lock, run: unlock %s", node, dir)
	}
	n, err := zkconn.Do(ctx, env.Session, zkconn.GetData(node))
	if err != nil && !errors.Is(err, zkconn.NoAuth) {
		return err
	}
	if err := zkconn.Exec(ctx, env.Session, zkconn.Delete(node, -1)); err != nil {
		return err
	}
	return env.Screen.Print(nodeAnswer("removed", "removed", node, queue.Who(n.Data)))
}
