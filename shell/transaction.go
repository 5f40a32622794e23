package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zkconn"
)

// transaction is what begin has opened: the lines that are to be carried out together.
type transaction struct {
	begun int // the number of the line
	txn   *zkconn.Transaction
	lines []*joined
	bad   int // the number of a line of a batch that has failed since; 0: none
}

// joined is a line in a transaction. It is its command's Screen, and keeps the answer.
type joined struct {
	commands.Screen `json:"-"`
	Line            int    `json:"line"`
	Name            string `json:"command"`
	Answer          any    `json:"answer"`

	text  render.Value
	err   error
	ended chan struct{} // closed when the command has ended
}

// Print is part of commands.Screen.
func (j *joined) Print(v render.Value) error {
	j.Answer, j.text = v, v
	return nil
}

// transactions are the commands that make one.
func (s *Shell) transactions() []*commands.Command {
	const group = "Transactions"
	return []*commands.Command{
		{
			Name: "begin", Group: group, Effect: commands.Apart,
			Summary: "begin a transaction that commit applies atomically",
			Help: "A transaction can contain check, create, set and delete. commit prints the result of each command " +
				"with its line number. If ZooKeeper rejects one of the commands, none of them takes effect.\n\n" +
				"In a script, if any line between begin and commit fails, commit fails and changes nothing. A transaction " +
				"that is still open when zksh exits is discarded.",
			Examples: []string{"begin"},
			Flags:    commands.NoFlags(s.beginTransaction),
		},
		{
			Name: "check", Group: group, Effect: commands.Joins, Args: "path version",
			Summary:  "make the transaction fail unless the version matches",
			Help:     "The version is the znode's expected dataVersion. -1 requires only that the znode exists.",
			Examples: []string{"check /app/config 3", "check /app/config -1"},
			Params:   []commands.Param{{Name: "path", Kind: commands.Path}, {Name: "version", Kind: commands.Data}},
			Flags:    commands.NoFlags(s.check),
		},
		{
			Name: "commit", Group: group, Effect: commands.Apart,
			Summary:  "apply all lines of the transaction, or none",
			Examples: []string{"commit"},
			Flags:    commands.NoFlags(s.commit),
		},
		{
			Name: "abort", Group: group, Effect: commands.Offline | commands.Apart,
			Summary:  "discard the transaction without applying it",
			Examples: []string{"abort"},
			Flags:    commands.NoFlags(s.abort),
		},
	}
}

func (s *Shell) beginTransaction(_ context.Context, env *commands.Env, _ []string) error {
	if env.Mode == commands.OneShot {
		return commands.Misuse("a transaction takes several lines; write a script that contains everything from begin to commit")
	}
	if s.txn != nil {
		return fmt.Errorf("the transaction that began on line %d is still open; commit or abort it first", s.txn.begun)
	}
	s.txn = &transaction{begun: s.policy.number(), txn: s.cfg.Session.Begin()}
	return env.Screen.Print(render.Answer{JSON: render.Facts{"done", "begin"}})
}

// check is run outside a transaction as well, where it has nothing to guard.
func (s *Shell) check(ctx context.Context, env *commands.Env, args []string) error {
	version, err := strconv.ParseInt(args[1], 10, 32)
	if err != nil {
		return commands.Misuse("%q is not a version; write a whole number, or -1 for any version", args[1])
	}
	if s.txn == nil {
		return errors.New("check works only in a transaction, and none is open; put check between begin and commit")
	}
	if err := env.Session.Check(ctx, args[0], int32(version)); err != nil {
		return err
	}
	return env.Screen.Print(render.Answer{JSON: render.Facts{"done", "check", "path", args[0]}})
}

// errNoTransaction is that of commit and abort without begin.
var errNoTransaction = errors.New("no transaction is open; to open one, run: begin")

// errDropped is what the lines of a transaction come to that is not committed.
var errDropped = errors.New("dropped")

func (s *Shell) abort(_ context.Context, env *commands.Env, _ []string) error {
	if s.txn == nil {
		return errNoTransaction
	}
	s.txn.drop()
	s.txn = nil
	return env.Screen.Print(render.Answer{JSON: render.Facts{"done", "abort"}})
}

func (t *transaction) drop() {
	t.txn.Abort(errDropped)
	t.wait()
}

func (t *transaction) wait() {
	for _, j := range t.lines {
		<-j.ended
	}
}

func (s *Shell) commit(ctx context.Context, env *commands.Env, _ []string) error {
	t := s.txn
	if t == nil {
		return errNoTransaction
	}
	s.txn = nil
	if t.bad > 0 {
		t.drop()
		return fmt.Errorf("nothing was done, because line %d of the transaction failed", t.bad)
	}
	outcome, err := t.txn.Commit(ctx)
	t.wait()
	undone, refused := errors.AsType[*zkconn.UndoneError](err)
	switch {
	case refused:
		j := t.lines[undone.Part]
		return fmt.Errorf("nothing was done, because line %d of the transaction failed: %s: %w", j.Line, j.Name, undone.Err)
	case errors.As(err, new(*zkconn.FencedError)): // which says that nothing was written
		return err
	case err != nil && !outcome.MayHaveHappened():
		return fmt.Errorf("nothing was done: %w", err)
	case err != nil && len(t.lines) > 1:
		return fmt.Errorf("%w (either all %d lines of the transaction took effect, or none)", err, len(t.lines))
	case err != nil:
		return err
	}
	for _, j := range t.lines {
		err = errors.Join(err, j.err)
	}
	if err != nil {
		return err
	}
	return env.Screen.Print(committed(t.lines))
}

// committed is the answer of commit.
type committed []*joined

// Text has a line for each that has an answer, and the number of all.
func (c committed) Text(w io.Writer) error {
	var b strings.Builder
	for _, j := range c {
		var own strings.Builder
		if j.text != nil {
			if err := j.text.Text(&own); err != nil {
				return err
			}
		}
		if own.Len() > 0 {
			fmt.Fprintf(&b, "line %d: %s", j.Line, own.String())
		}
	}
	fmt.Fprintf(&b, "Committed %d\n", len(c))
	_, err := io.WriteString(w, b.String())
	return err
}

// MarshalJSON has them all, as JSON has every answer.
func (c committed) MarshalJSON() ([]byte, error) {
	return render.Marshal(render.Facts{"committed", append([]*joined{}, c...)})
}

// carryOut runs a line, or has it join the transaction that is open.
func (s *Shell) carryOut(ctx context.Context, env *commands.Env, cmd string, l commands.Line) error {
	switch t := s.txn; {
	case t == nil || l.Has(commands.Apart):
		return run(ctx, env, l)
	case l.Redirected():
		return &commands.UsageError{Problem: "the lines of a transaction cannot be redirected, because commit prints all results; omit | and >, or quote them"}
	case !l.Has(commands.Joins):
		return &commands.UsageError{Problem: fmt.Sprintf("only check, create, set and delete can be part of a transaction; first commit or abort the transaction that began on line %d", t.begun)}
	default:
		return t.join(ctx, s, env, cmd, l)
	}
}

func (t *transaction) join(ctx context.Context, s *Shell, env *commands.Env, cmd string, l commands.Line) error {
	own, trip := *env, zkconn.NewTrip()
	if own.Keeper != nil && l.Has(commands.Destroys) {
		if env.Mode != commands.ByHand {
			return &commands.UsageError{Problem: "with --undo, a transaction can contain only check and create, because zksh cannot save what the other commands change"}
		}
		env.Screen.Note("changes made by a transaction are not saved, so undo cannot undo them")
		own.Keeper = nil
	}
	j := &joined{Screen: own.Screen, Line: s.policy.number(), Name: cmd, ended: make(chan struct{})}
	own.Screen = j
	go func() { // ends with the transaction
		defer s.giveBackOnPanic()
		defer close(j.ended)
		j.err = run(trip.Context(t.txn.Context(ctx)), &own, l)
	}()
	select {
	case <-trip.Sent:
		t.lines = append(t.lines, j)
		return env.Screen.Print(render.Answer{JSON: render.Facts{"joined", t.txn.Len()}})
	case <-j.ended:
		return j.err
	}
}

// spoil notes that a line of a batch has failed, without which its transaction is not
// what was meant.
func (s *Shell) spoil(line int, err error) {
	if err != nil && s.txn != nil && s.txn.bad == 0 {
		s.txn.bad = line
	}
}

// dropTransaction drops one that is still open at the end, and says so.
func (s *Shell) dropTransaction() error {
	if s.left != nil || s.txn == nil { // work that was left may still be at it, and ends with the process
		return nil
	}
	begun := s.txn.begun
	s.txn.drop()
	s.txn = nil
	return fmt.Errorf("the transaction that began on line %d was never committed, so nothing in it took effect", begun)
}
