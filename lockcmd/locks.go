package lockcmd

import (
	"context"
	"io"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/lockcmd/queue"
	"github.com/zksh/zksh/lockcmd/zklock"
)

func (t *Table) locksCommand() *commands.Command {
	return &commands.Command{
		Name: "locks", Group: group, Effect: commands.Offline, Args: "[-f] [-q] [-R] [path]",
		Summary: "show who holds a lock and who waits for it",
		Help: "Without a path, locks lists the locks that this shell holds or waits for. With a path, it shows the queue of " +
			"the lock at that path, no matter which client created it: the holder and the clients that wait (STATE), and " +
			"the data that each client left about itself (WHO). The exit status is 0 if the lock is certainly free, and 75 " +
			"otherwise. If a contender is an orphan (its session no longer exists, but its znode does), locks says so after " +
			"checking twice, 2 s apart, and prints the command that removes the znode.\n\n" +
			"Some clients use a single ephemeral znode as a lock; its session holds the lock. STATE is unknown if the path " +
			"has only ephemeral sequential children with names that zksh does not know.\n\n" +
			wholeHelp,
		Limits: []string{
			"-R sees sessions, not threads, so two threads of a Curator client can look like a deadlock.",
			"-R cannot be combined with other flags, and ignores semaphores when it looks for deadlocks.",
		},
		Examples: []string{"locks /locks/backup", "locks -f /locks/backup", "locks -R"},
		Params:   []commands.Param{{Name: "path", Optional: true}},
		Flags: func(fs *pflag.FlagSet) commands.Run {
			follow := fs.BoolP("follow", "f", false, "keep running and show each change until you press Ctrl-C")
			quiet := fs.BoolP("quiet", "q", false, "print nothing; only set the exit status")
			all := fs.BoolP("recursive", "R", false, "show all queues below path, or in the entire tree, the longest wait first")
			return func(ctx context.Context, env *commands.Env, args []string) error {
				switch {
				case *all && (*quiet || *follow):
					return commands.Misuse("-R cannot be combined with other flags")
				case *all:
					return showAll(ctx, env, rootOf(args))
				case len(args) == 0 && (*follow || *quiet):
					return commands.Misuse("-f and -q require a path")
				case *follow && *quiet:
					return commands.Misuse("-f cannot be combined with -q")
				case len(args) == 0:
					return env.Screen.Print(t.list())
				case *follow:
					return followQueue(ctx, env, args[0])
				}
				return showQueue(ctx, env, args[0], *quiet)
			}
		},
	}
}

// A lockRow describes one lock that this shell holds or waits for, in the answer of the command
// locks.
type lockRow struct {
	Path  string    `json:"path"`
	Mode  string    `json:"mode,omitempty"`
	State string    `json:"state"`
	Times int       `json:"times"` // number of leases
	Place int       `json:"place,omitempty"`
	Node  string    `json:"node,omitempty"`
	Token string    `json:"token,omitempty"`
	Until time.Time `json:"until,omitzero"`  // when the lease expires unless it is renewed
	Owner string    `json:"owner,omitempty"` // owner of a lock that does not belong to this shell
	left  time.Duration
}

// lockRows is the answer of the command locks without a path argument.
type lockRows []lockRow

func (t *Table) list() lockRows {
	rows := lockRows{}
	for _, o := range t.all() {
		o.apply(func() { rows = append(rows, o.row()) })
	}
	return append(rows, t.ownerRows()...)
}

func (l *lifecycle) row() lockRow {
	s := l.status
	r := lockRow{Path: l.path, Mode: l.kind.label, State: string(s.State), Times: len(l.leases), Place: s.Place, Node: s.Node}
	if len(l.leases) > 0 {
		last := l.leases[len(l.leases)-1]
		r.Mode, r.Token, r.Place = last.kind.label, render.Hex(last.Token()), 0
		r.Until, r.left = last.State().Until, last.Left()
	}
	return r
}

// Table returns a row for each lock.
func (l lockRows) Table() render.Grid {
	g := render.Grid{Header: []string{"path", "mode", "state", "times", "node", "token"}}
	for _, r := range l {
		state := r.State
		switch {
		case r.Place > 0:
			state += " at place " + strconv.Itoa(r.Place)
		case r.State == string(zklock.Suspended):
			state += " for " + seconds(r.left)
		}
		g.Rows = append(g.Rows, []string{r.Path, r.Mode, state, strconv.Itoa(r.Times), r.Node, r.Token})
	}
	return g
}

// Text writes the table without shortening it.
func (l lockRows) Text(w io.Writer) error { return l.FitText(w, 0) }

// FitText implements render.Fitter. A shortened znode name still shows the mode of the lock.
func (l lockRows) FitText(w io.Writer, columns int) error {
	if len(l) == 0 {
		_, err := io.WriteString(w, "no locks\n")
		return err
	}
	const path, mode, times, node, token = 0, 1, 3, 4, 5
	return render.WriteGrid(w, l.Table().Fit(columns-3, // the last column is padded, too
		render.Step{Column: node, Width: 12, Cut: queue.ShortNode}, render.Step{Column: times}, render.Step{Column: token},
		render.Step{Column: mode}, render.Step{Column: path, Width: 5}))
}

// showQueue runs the command locks with a path: it shows who holds the lock and who waits for
// it. Unless the lock is certainly free, it returns a StatusError without a message. With quiet, it
// prints nothing, and the exit status is the only result.
func showQueue(ctx context.Context, env *commands.Env, path string, quiet bool) error {
	read := queue.LookTwice
	if quiet {
		read = queue.Read
	}
	q, err := read(ctx, ensemble{env.Session}, path)
	if err != nil {
		return err
	}
	if !quiet {
		if err := show(env, q); err != nil {
			return err
		}
	}
	if q.Free() {
		return nil
	}
	return &commands.StatusError{Status: commands.StatusNotLocked}
}
