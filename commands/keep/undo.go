package keep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/userfile"
	"github.com/zksh/zksh/internal/zktree"
)

// undoName begins the names of operations that are themselves undone by number only:
// undo alone goes further back each time.
const undoName = "undo"

func undoCommand(s *store) *commands.Command {
	return &commands.Command{
		Name: undoName, Group: "Trees", Args: "[-l] [-n] [-s] [number]", Writes: true, Streams: true, Destroys: true, Dry: []string{"list", commands.DryRun},
		Summary: "bring back what was destroyed by hand",
		Help: "By hand set, edit, delete, deleteall, rmr, mv, setAcl, import, mirror and cp --overwrite keep what they destroy before they do, for the last" +
			" 50 times, at most 64 MiB each and 256 MiB together. Without a number the last one is taken back that was not, and with" +
			" one that of undo -l. undo is kept as well, and taken back by its number.\n\n" +
			"What has changed since is not overwritten: the difference is shown, and nothing is done. With -s all else is brought back." +
			" Ephemeral znodes and those of lock queues do not come back, nor do containers, times to live, sequence counters, zxids and times." +
			" What appears while a subtree is kept and deleted is not kept.",
		Example: "undo",
		Params:  []commands.Param{{Name: "number", Kind: commands.Data, Optional: true}},
		Flags: func(fs *pflag.FlagSet) commands.Run {
			list := fs.BoolP("list", "l", false, "list what can be brought back, the last first")
			dry := fs.BoolP(commands.DryRun, "n", false, "change nothing, and tell what would be done")
			skip := fs.BoolP("skip", "s", false, "leave what has changed since as it is, and bring the rest back")
			return func(ctx context.Context, env *commands.Env, args []string) error {
				if s.dir == "" {
					return errors.New("nothing is kept: there is no folder for that (XDG_STATE_HOME, or the home)")
				}
				if *list {
					if len(args) > 0 || *dry || *skip {
						return commands.Misuse("-l goes alone")
					}
					return s.print(env)
				}
				e, err := s.pick(env, args)
				if err != nil {
					return err
				}
				return (&undoing{entry: e, s: s, env: env, dry: *dry, skip: *skip}).run(ctx)
			}
		},
	}
}

// pick finds the operation that is meant. Without a number it is one of this ensemble:
// those of shells elsewhere are not in its way.
func (s *store) pick(env *commands.Env, args []string) (*entry, error) {
	if len(args) > 0 {
		n, err := strconv.Atoi(args[0])
		if err != nil || n < 1 {
			return nil, commands.Misuse("%q is no number of an operation; undo -l lists them", args[0])
		}
		return s.entry(n)
	}
	all, err := s.list()
	if err != nil {
		return nil, err
	}
	far := ""
	for _, e := range all {
		switch {
		case e.State == undone || e.ofUndo():
		case e.elsewhere(env) == nil:
			return e, nil
		case far == "":
			far = fmt.Sprintf(" here (operation %d was on %s)", e.N, e.place())
		}
	}
	return nil, fmt.Errorf("there is nothing left to undo%s; undo -l lists what was kept", far)
}

// print lists the operations.
func (s *store) print(env *commands.Env) error {
	all, err := s.list()
	if err != nil {
		return err
	}
	now := time.Now()
	return env.Screen.Print(&render.Stream{
		List: "operations",
		Columns: []render.Column{
			{Header: "no", Width: 3, Right: true}, {Header: "age", Width: 4, Right: true}, {Header: "command", Width: 9},
			{Header: "znodes", Width: 6, Right: true}, {Header: "bytes", Width: 8, Right: true}, {Header: "state", Width: 6}, {Header: "path"},
		},
		Items: func(yield func(render.Item) bool) {
			for _, e := range all {
				if !yield(&listed{e, now, e.elsewhere(env) != nil}) {
					return
				}
			}
		},
	})
}

// listed is an operation in undo -l.
type listed struct {
	*entry
	now time.Time
	far bool // on another ensemble, or below another chroot
}

// Cells is part of render.Item.
func (l *listed) Cells() []string {
	states := map[state]string{begun: "maybe", done: "-", undone: "undone"}
	at := l.Path
	if l.far {
		at += " on " + l.place()
	}
	return []string{strconv.Itoa(l.N), commands.Age(l.now.Sub(l.Time)), l.Command, strconv.Itoa(l.Znodes), strconv.FormatInt(l.Bytes, 10),
		states[l.State], at}
}

// JSON is part of render.Item.
func (l *listed) JSON() any {
	return render.Facts{"number", l.N, "time", render.Time(l.Time), "command", l.Command, "path", l.Path, "servers", l.Servers, "chroot", l.Chroot,
		"znodes", l.Znodes, "bytes", l.Bytes, "state", l.State}
}

// place is the cluster, or the connect string, of where an operation was.
func (e *entry) place() string { return cmp.Or(e.Cluster, strings.Join(e.Servers, ",")+e.Chroot) }

// ofUndo tells whether it has taken another one back.
func (e *entry) ofUndo() bool { return strings.HasPrefix(e.Command, undoName) }

// elsewhere is an error if the operation was on another ensemble, or below another
// chroot. Two connect strings are taken to be of one ensemble that name a server in
// common.
func (e *entry) elsewhere(env *commands.Env) error {
	here := env.Session.Servers()
	if share(e.Servers, here.Hosts) && here.Chroot == e.Chroot {
		return nil
	}
	return fmt.Errorf("operation %d was on %s, and this is %s: connect %s, and then undo %d", e.N, e.place(), here.Spec, e.place(), e.N)
}

// undoing is an operation that is being taken back.
type undoing struct {
	*entry
	s    *store
	env  *commands.Env
	dry  bool
	skip bool

	kept      *dump.Tree
	conflicts []conflict
	plan      []string // what is to be done, a line each
	counts    zktree.Counts
}

// conflict is a znode that is not as the operation has left it.
type conflict struct {
	path string
	what string
	diff string // of text; may be empty
}

func (u *undoing) run(ctx context.Context) (err error) {
	if err := u.elsewhere(u.env); err != nil {
		return err
	}
	if u.State == undone {
		return fmt.Errorf("operation %d was taken back already", u.N)
	}
	if err := u.behind(ctx); err != nil {
		return err
	}
	if u.comesBack() == 0 {
		return fmt.Errorf("operation %d, %s %s, took only what does not come back: %s", u.N, u.Command, u.Path, u.lost())
	}
	if err := userfile.Check(u.s.file(u.N, dumpFile)); err != nil {
		return err
	}
	if u.kept, err = dump.Open(ctx, u.s.file(u.N, dumpFile)); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, u.kept.Close()) }()
	switch u.Of {
	case commands.LostData:
		err = u.data(ctx)
	case commands.LostNode, commands.LostTree, commands.LostParts:
		err = u.tree(ctx)
	case commands.LostACL, commands.LostACLs:
		err = u.acls(ctx)
	default:
		err = fmt.Errorf("operation %d is of a kind that this zksh does not know", u.N)
	}
	if err != nil {
		return err
	}
	return u.finish()
}

// behind is an error if the ensemble has not come as far as what was kept: another one has
// got the servers' names, or it was set back.
func (u *undoing) behind(ctx context.Context) error {
	if err := u.env.Session.Absolute().Sync(ctx, "/"); err != nil {
		return err
	}
	zxid, err := u.env.Session.Zxid(ctx)
	if err != nil || zxid >= u.Seen {
		return err
	}
	return fmt.Errorf("operation %d was on another ensemble, or this one was set back: its last change, %#x, came before that of what was kept, %#x; what was lost is in %s, which import -R reads",
		u.N, zxid, u.Seen, u.s.file(u.N, dumpFile))
}

// comesBack is how many znodes can be brought back.
func (e *entry) comesBack() int {
	if e.Of == commands.LostData || aclsOnly(e.Of) {
		return e.Znodes
	}
	return e.Znodes - e.Ephemeral
}

// lost names what does not come back; empty if all does.
func (e *entry) lost() string {
	var parts []string
	if e.Ephemeral > 0 {
		parts = append(parts, fmt.Sprintf("%d ephemeral", e.Ephemeral))
	}
	if e.Queued > 0 {
		parts = append(parts, fmt.Sprintf("%d of lock queues, with what is below", e.Queued))
	}
	return strings.Join(parts, ", ")
}

// finish notes that the operation was taken back, and tells of it.
func (u *undoing) finish() error {
	if !u.dry && len(u.conflicts) == 0 {
		u.State = undone
		if err := u.s.update(u.entry); err != nil {
			return fmt.Errorf("all is brought back, but that is not noted: %w", err)
		}
	}
	if lost := u.lost(); lost != "" {
		u.env.Screen.Note("not brought back: " + lost)
	}
	if len(u.conflicts) > 0 {
		u.env.Screen.Note(fmt.Sprintf("%d changed since, and left as they are", len(u.conflicts)))
	}
	return u.env.Screen.Print(u.answer())
}

// answer tells what was done, or would be.
func (u *undoing) answer() render.Answer {
	facts := render.Facts{"number", u.N, "command", u.Command, "path", u.Path, "conflicts", len(u.conflicts)}
	if u.dry {
		words := fmt.Sprintf("would undo %d: %s %s\n%s", u.N, u.Command, u.Path, strings.Join(append(u.plan, ""), "\n"))
		return render.Answer{Words: words, JSON: append(facts, "plan", append([]string{}, u.plan...))}
	}
	var parts []string
	for _, c := range []struct {
		n    int
		what string
	}{{u.counts.Created, "created"}, {u.counts.Changed, "changed"}} {
		if c.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", c.n, c.what))
		}
	}
	switch {
	case parts == nil && len(u.conflicts) > 0:
		parts = []string{"nothing"}
	case parts == nil:
		parts = []string{"it is as it was already"}
	}
	return render.Answer{Words: fmt.Sprintf("undid %d: %s %s: %s\n", u.N, u.Command, u.Path, strings.Join(parts, ", ")),
		JSON: append(render.Facts{"done", undoName}, append(facts, "created", u.counts.Created, "changed", u.counts.Changed)...)}
}

// refuse shows what has changed since, and is an error, unless that is to be left as it is.
func (u *undoing) refuse() error {
	if len(u.conflicts) == 0 || u.skip {
		return nil
	}
	var words strings.Builder
	paths := []string{}
	for i, c := range u.conflicts {
		paths = append(paths, c.path)
		if i < maxShown {
			fmt.Fprintf(&words, "%s: %s\n%s", c.path, c.what, c.diff)
		}
	}
	if more := len(u.conflicts) - maxShown; more > 0 {
		fmt.Fprintf(&words, "and %d more\n", more)
	}
	if err := u.env.Screen.Print(render.Answer{Words: words.String(), JSON: render.Facts{"number", u.N, "changedSince", paths}}); err != nil {
		return err
	}
	return fmt.Errorf("nothing was done, because %d changed since operation %d; undo -s %d brings the rest back, and what was there is in %s, which import -R reads",
		len(u.conflicts), u.N, u.N, u.s.file(u.N, dumpFile))
}

// maxShown is how many conflicts are spelt out.
const maxShown = 20
