package commands

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/spf13/pflag"

	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktree"
)

var deleteallCommand = &Command{
	Name: "deleteall", Group: "Trees", Writes: true, Destroys: true, Args: "path [-b batch size] [-y] [-n]",
	Sweeps: true, Streams: true, Dry: []string{DryRun},
	Summary: "delete a znode and everything below it",
	Help: "At the prompt, deleteall counts the znodes and asks for confirmation. It then deletes the subtree in batches, " +
		"children before their parents. If you press Ctrl-C, deleteall stops after the current batch and prints how many " +
		"znodes it deleted.\n\n" +
		"With -n, deleteall deletes nothing and lists the znodes that it would delete.",
	Limits:   []string{"/ and /zookeeper cannot be deleted."},
	Examples: []string{"deleteall /app/old", "deleteall -n /app/old"},
	Params:   []Param{pathParam},
	Asks:     asksUnlessYes,
	Flags: func(fs *pflag.FlagSet) Run {
		batch := numberFlag(fs, 32, "batch", "b", zktree.DefaultBatch, "delete this many znodes in one transaction; a number below 1 deletes them one by one")
		sure := fs.BoolP("yes", "y", false, "do not ask for confirmation")
		dry := fs.BoolP(DryRun, "n", false, "delete nothing; list the znodes that would be deleted")
		return func(ctx context.Context, env *Env, args []string) error {
			if *dry {
				return wouldDelete(ctx, env, "deleteall", args[0])
			}
			return deleteTree(ctx, env, "deleteall", args[0], int(*batch), *sure)
		}
	},
}

var rmrCommand = &Command{
	Name: "rmr", Group: "Trees", Writes: true, Destroys: true, Args: "path [-y]",
	Sweeps:   true,
	Summary:  "delete a subtree (old name of deleteall)",
	Help:     "rmr is the ZooKeeper 3.4 name for deleteall.",
	Examples: []string{"rmr /app/old", "rmr /app/old -y"},
	Params:   []Param{pathParam},
	Asks:     asksUnlessYes,
	Flags: func(fs *pflag.FlagSet) Run {
		sure := fs.BoolP("yes", "y", false, "do not ask for confirmation")
		return func(ctx context.Context, env *Env, args []string) error {
			env.Screen.Note("The command 'rmr' has been deprecated. Please use 'deleteall' instead.")
			return deleteTree(ctx, env, "rmr", args[0], zktree.DefaultBatch, *sure)
		}
	},
}

func asksUnlessYes(fs *pflag.FlagSet) bool { return !fs.Changed("yes") }

// sweepable is an error for a subtree that is never removed as a whole.
func sweepable(env *Env, name, path string) error {
	if err := zkconn.ValidatePath(path, false); err != nil {
		return err
	}
	if server := env.Session.ServerPath(path); path == "/" || server == "/zookeeper" {
		return fmt.Errorf("%s never deletes %s; specify a znode below it", name, path)
	}
	return nil
}

// wouldDelete lists what deleteTree would remove.
func wouldDelete(ctx context.Context, env *Env, name, path string) error {
	if err := sweepable(env, name, path); err != nil {
		return err
	}
	s, err := surveyOf(ctx, env, env.Session, path, false, zktree.Options{Stat: true})
	if err != nil {
		return err
	}
	found, eph := 0, 0
	err = s.print(pathStream(path, s.items("listed", func(st *zktree.Step, yield func(render.Item) bool) bool {
		if st.Kind != zktree.Enter {
			return true
		}
		found++
		if st.Stat != nil && st.Stat.EphemeralOwner != 0 {
			eph++
		}
		return yield(pathItem{path: st.Path()})
	})))
	env.Screen.Note(fmt.Sprintf("%s would be deleted (%d ephemeral); nothing was deleted", zktree.Znodes(found), eph))
	return err
}

func deleteTree(ctx context.Context, env *Env, name, path string, batch int, sure bool) error {
	if err := sweepable(env, name, path); err != nil {
		return err
	}
	if !sure && env.Mode == ByHand {
		yes, err := confirm(ctx, env, path)
		if err != nil {
			return err
		}
		if !yes {
			env.Screen.Note("nothing was deleted")
			return nil
		}
	}
	n := 0
	loss := Loss{Command: name, Path: path, Of: LostTree, Version: -1}
	err := env.Losing(ctx, loss, func(ctx context.Context, _ int32) (err error) {
		update, end := env.Screen.Progress("deleted")
		defer end()
		n, err = zktree.Delete(ctx, env.Session.Client, path, batch, update)
		return err
	})
	return env.answer(err, done(name, path, "deleted", n))
}

// confirm tells what would be deleted, and asks. The server counts where it can;
// for how many are ephemeral the subtree is looked through, up to a bound.
func confirm(ctx context.Context, env *Env, path string) (bool, error) {
	n, err := countBelow(ctx, env, env.Session, path)
	if err != nil {
		return false, err
	}
	eph := "too many to count the ephemeral ones"
	if n <= maxLooked {
		update, end := env.Screen.Progress("examined")
		found, hidden, err := zktree.CountEphemerals(ctx, env.Session.Client, path, update)
		end()
		if err != nil {
			return false, err
		}
		switch {
		case found > 0:
			eph = fmt.Sprintf("%d ephemeral", found)
		case n == 0:
			eph = "not ephemeral"
		default:
			eph = "none ephemeral"
		}
		if hidden > 0 {
			eph += fmt.Sprintf(", %d unreadable", hidden)
		}
	}
	return env.Screen.Ask(ctx, deleteQuestion(path, n, eph, env.Confirm))
}

// deleteQuestion asks about a znode with below znodes below it, on the cluster where if that
// is to be confirmed.
func deleteQuestion(path string, below int, ephemeral, where string) string {
	text := "delete " + path
	switch below {
	case 0:
		text += ", which has no children"
	case 1:
		text += " and the znode below it"
	default:
		text += fmt.Sprintf(" and the %d znodes below it", below)
	}
	text += " (" + ephemeral + ")"
	if where != "" {
		text += " on " + where
	}
	return text + "? [y/N] "
}

// maxLooked is how many znodes are looked at for a question.
const maxLooked = 10_000

var countCommand = &Command{
	Name: "getAllChildrenNumber", Group: "Trees", Args: "[--in file] [--max-size MiB] path",
	Summary:  "count all znodes below a znode",
	Help:     "Servers before version 3.6 do not support this request, so zksh walks the subtree instead.",
	Limits:   []string{"On servers before version 3.6, znodes below an unreadable znode are not counted."},
	Examples: []string{"getAllChildrenNumber /app", "getAllChildrenNumber / --in snapshot.a3f"},
	Params:   []Param{hereParam},
	Flags: func(fs *pflag.FlagSet) Run {
		return looking(fs, func(ctx context.Context, env *Env, from reader, args []string) error {
			n, err := countBelow(ctx, env, from, args[0])
			return env.answer(err, render.Answer{Words: fmt.Sprintln(n), JSON: render.Facts{"path", args[0], "count", n}})
		})
	},
}

// countBelow asks the server to count, or lists where the server may be too old
// to know the request: it would drop the connection over it.
func countBelow(ctx context.Context, env *Env, from reader, path string) (int, error) {
	if err := zkconn.ValidatePath(path, false); err != nil {
		return 0, err
	}
	if k, kept := from.(*keptReader); kept {
		_, err := k.znode(path)
		n, _ := k.tree.Has(path)
		return n, err
	}
	p, err := env.Session.Pipe(ctx, path)
	if err != nil {
		return 0, err
	}
	if p.HasMultiRead(ctx) { // as do those, nearly, that know getAllChildrenNumber
		n, err := env.Session.CountChildren(ctx, path)
		if !errors.Is(err, zkconn.Unimplemented) {
			return n, err
		}
	}
	s, err := surveyOf(ctx, env, from, path, false, zktree.Options{Shut: true})
	if err != nil {
		return 0, err
	}
	n := -1 // without the root
	for st := range s.steps("counted") {
		if st.Kind == zktree.Enter {
			n++
		}
	}
	if s.shut.N > 0 {
		env.Screen.Note(fmt.Sprintf("no permission to read %s below %s; descendants of unreadable znodes are not counted", zktree.Znodes(s.shut.N), path))
	}
	return n, s.err
}

// ignore passes over one refusal.
func ignore(err error, codes ...zkconn.Code) error {
	for _, c := range codes {
		if errors.Is(err, c) {
			return nil
		}
	}
	return err
}

// survey is a walk over a subtree that is shown as it goes.
type survey struct {
	env    *Env
	src    zktree.Source
	walk   *zktree.Walk
	update func(done, total int)
	shut   zktree.UnreadError // what may not be read
	err    error              // what broke it off
}

// surveyOf reads the root of a subtree. With watch, each list of children leaves a watch.
func surveyOf(ctx context.Context, env *Env, from reader, path string, watch bool, o zktree.Options) (*survey, error) {
	src, err := sourceOf(ctx, env, from, path, watch)
	if err != nil {
		return nil, err
	}
	s := &survey{env: env, src: src, shut: zktree.UnreadError{Root: path}}
	o.Progress = func(done, total int) {
		if s.update != nil {
			s.update(done, total)
		}
	}
	if s.walk, err = zktree.Begin(ctx, src, path, o); err != nil {
		if k, kept := from.(*keptReader); kept {
			err = k.explain(err)
		}
	}
	return s, err
}

func sourceOf(ctx context.Context, env *Env, from reader, path string, watch bool) (zktree.Source, error) {
	if k, kept := from.(*keptReader); kept {
		return k, nil
	}
	return zktree.OnServer(ctx, env.Session.Client, path, watch)
}

// steps are those of the walk, and keeps what goes wrong. verb is for the progress.
func (s *survey) steps(verb string) iter.Seq[*zktree.Step] {
	return func(yield func(*zktree.Step) bool) {
		update, end := s.env.Screen.Progress(verb)
		s.update = update
		defer end()
		for st, err := range s.walk.Steps() {
			if err != nil {
				s.err = err
				return
			}
			if st.Err != nil && st.Kind == zktree.Enter {
				s.shut.Add(st.Err)
			}
			if !yield(st) {
				return
			}
		}
	}
}

// items makes items of the steps; of tells whether the loop goes on.
func (s *survey) items(verb string, of func(*zktree.Step, func(render.Item) bool) bool) iter.Seq[render.Item] {
	return func(yield func(render.Item) bool) {
		for st := range s.steps(verb) {
			if st.Kind == zktree.Pause && !yield(nil) || st.Kind != zktree.Pause && !of(st, yield) {
				return
			}
		}
	}
}

// print shows a stream that is made of the survey.
func (s *survey) print(v *render.Stream) error {
	v.End = s.end
	if err := s.env.Screen.Print(v); err != nil {
		return err
	}
	return s.end()
}

// end is the error of a survey that has not seen all.
func (s *survey) end() error {
	return errors.Join(s.err, s.shut.OrNil())
}

// pathItem is a path in an answer.
type pathItem struct {
	path   string
	decode bool // for people
}

// Cells is part of render.Item.
func (p pathItem) Cells() []string {
	if p.decode {
		return []string{decoded(p.path)}
	}
	return []string{render.OneLine(p.path)}
}

// JSON is part of render.Item.
func (p pathItem) JSON() any { return p.path }

// pathStream is an answer that is a path a line.
func pathStream(root string, items iter.Seq[render.Item]) *render.Stream {
	return &render.Stream{Open: render.Facts{"path", root}, List: "paths", Columns: []render.Column{{Header: "path"}}, Bare: true, Items: items}
}
