package batch

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

// Transactions runs lines, or makes them join the transaction that is open. There can be one
// at a time. It is for scripts and for the prompt.
type Transactions struct {
	session *zkconn.Session
	number  func() int // of the current line
	onPanic func()     // deferred in goroutines of lines
	open    *transaction
}

// NewTransactions returns the transactions of a shell. number returns the number of the current
// line. onPanic is deferred in every goroutine that runs a line.
func NewTransactions(session *zkconn.Session, number func() int, onPanic func()) *Transactions {
	return &Transactions{session: session, number: number, onPanic: onPanic}
}

// transaction is the lines that commit is to carry out together.
type transaction struct {
	begun int // number of the line
	txn   *zkconn.Transaction
	lines []*joinedLine
	bad   int // number of a line of a script that has failed since; 0: none
}

// joinedLine is a line of a transaction.
type joinedLine struct {
	number int
	cmd    string
	out    *Transcript
	err    error
	ended  chan struct{} // closed when the command has ended
}

func (t *Transactions) isOpen() bool { return t.open != nil }

// Joined returns the number of lines in the transaction that is open, if one is.
func (t *Transactions) Joined() (lines int, open bool) {
	if !t.isOpen() {
		return 0, false
	}
	return len(t.open.lines), true
}

func (t *Transactions) begin(_ context.Context, env *commands.Env, _ []string) error {
	if env.Mode == commands.OneShot {
		return commands.Misuse("a transaction takes several lines; write a script that contains everything from begin to commit")
	}
	if t.isOpen() {
		return fmt.Errorf("the transaction that began on line %d is still open; commit or abort it first", t.open.begun)
	}
	t.open = &transaction{begun: t.number(), txn: t.session.Begin()}
	return env.Screen.Print(render.Answer{JSON: render.Facts{"done", "begin"}})
}

// check fails outside of a transaction, where it has nothing to guard.
func (t *Transactions) check(ctx context.Context, env *commands.Env, args []string) error {
	version, err := strconv.ParseInt(args[1], 10, 32)
	if err != nil {
		return commands.Misuse("%q is not a version; write a whole number, or -1 for any version", args[1])
	}
	if !t.isOpen() {
		return errors.New("check works only in a transaction, and none is open; put check between begin and commit")
	}
	if err := zkconn.Exec(ctx, env.Session, zkconn.Check(args[0], int32(version))); err != nil {
		return err
	}
	return env.Screen.Print(render.Answer{JSON: render.Facts{"done", "check", "path", args[0]}})
}

// errNoTransaction is the error of commit and abort without begin.
var errNoTransaction = errors.New("no transaction is open; to open one, run: begin")

// errDropped is the error of the lines of a transaction that is not committed.
var errDropped = errors.New("dropped")

func (t *Transactions) abort(_ context.Context, env *commands.Env, _ []string) error {
	if !t.isOpen() {
		return errNoTransaction
	}
	t.open.drop()
	t.open = nil
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

func (t *Transactions) commit(ctx context.Context, env *commands.Env, _ []string) error {
	open := t.open
	if open == nil {
		return errNoTransaction
	}
	t.open = nil
	if open.bad > 0 {
		open.drop()
		return fmt.Errorf("nothing was done, because line %d of the transaction failed", open.bad)
	}
	outcome, err := open.txn.Commit(ctx)
	open.wait()
	undone, refused := errors.AsType[*zkconn.UndoneError](err)
	switch {
	case refused:
		j := open.lines[undone.Part]
		return fmt.Errorf("nothing was done, because line %d of the transaction failed: %s: %w", j.number, j.cmd, undone.Err)
	case errors.As(err, new(*zkconn.FencedError)): // it says that nothing was written
		return err
	case err != nil && !outcome.MayHaveHappened():
		return fmt.Errorf("nothing was done: %w", err)
	case err != nil && len(open.lines) > 1:
		return fmt.Errorf("%w (either all %d lines of the transaction took effect, or none)", err, len(open.lines))
	case err != nil:
		return err
	}
	var done committed
	for _, j := range open.lines {
		var answer lastAnswer
		err = errors.Join(err, j.err, j.out.Play(&answer))
		done = append(done, committedLine{j.number, j.cmd, answer.Value})
	}
	if err != nil {
		return err
	}
	return env.Screen.Print(done)
}

// lastAnswer is the Output of a line that has one answer, and no other part.
type lastAnswer struct{ render.Value }

// Print replaces the answer.
func (a *lastAnswer) Print(v render.Value) error { a.Value = v; return nil }

// Note is not called: remarks of the line were printed when it joined.
func (*lastAnswer) Note(string) {}

// Alert is not called either.
func (*lastAnswer) Alert(string) {}

// committed is the answer of commit.
type committed []committedLine

type committedLine struct {
	Line    int          `json:"line"`
	Command string       `json:"command"`
	Answer  render.Value `json:"answer"`
}

// Text has one line for each answer that has text, and the number of all.
func (c committed) Text(w io.Writer) error {
	var b strings.Builder
	for _, l := range c {
		var own strings.Builder
		if l.Answer != nil {
			if err := l.Answer.Text(&own); err != nil {
				return err
			}
		}
		if own.Len() > 0 {
			fmt.Fprintf(&b, "line %d: %s", l.Line, own.String())
		}
	}
	fmt.Fprintf(&b, "Committed %d\n", len(c))
	_, err := io.WriteString(w, b.String())
	return err
}

// MarshalJSON has every line, as JSON has every answer.
func (c committed) MarshalJSON() ([]byte, error) {
	return render.Marshal(render.Facts{"committed", append([]committedLine{}, c...)})
}

// Run runs a line, or makes it join the transaction that is open.
func (t *Transactions) Run(ctx context.Context, env *commands.Env, cmd string, l commands.Line) error {
	switch {
	case !t.isOpen() || l.Has(commands.Apart):
		return run(ctx, env, l)
	case l.Redirected():
		return &commands.UsageError{Problem: "the lines of a transaction cannot be redirected, because commit prints all results; omit | and >, or quote them"}
	case !l.Has(commands.Joins):
		return &commands.UsageError{Problem: fmt.Sprintf("only check, create, set and delete can be part of a transaction; first commit or abort the transaction that began on line %d", t.open.begun)}
	default:
		return t.join(ctx, env, cmd, l)
	}
}

// run runs a line. If its context has ended, the error is what ended it.
func run(ctx context.Context, env *commands.Env, l commands.Line) error {
	err := l.Run(ctx, env)
	if err != nil && context.Cause(ctx) != nil && errors.Is(err, context.Canceled) {
		return context.Cause(ctx)
	}
	return err
}

func (t *Transactions) join(ctx context.Context, env *commands.Env, cmd string, l commands.Line) error {
	own, trip, open := *env, zkconn.NewTrip(), t.open
	if own.Keeper != nil && l.Has(commands.Destroys) {
		if env.Mode != commands.ByHand {
			return &commands.UsageError{Problem: "with --undo, a transaction can contain only check and create, because zksh cannot save what the other commands change"}
		}
		env.Screen.Note("changes made by a transaction are not saved, so undo cannot undo them")
		own.Keeper = nil
	}
	j := &joinedLine{number: t.number(), cmd: cmd, out: &Transcript{Screen: env.Screen, keeps: toOutput}, ended: make(chan struct{})}
	own.Screen = j.out
	go func() { // ends with the transaction
		defer t.onPanic()
		defer close(j.ended)
		j.err = run(trip.Context(open.txn.Context(ctx)), &own, l)
	}()
	select {
	case <-trip.Sent:
		open.lines = append(open.lines, j)
		return env.Screen.Print(render.Answer{JSON: render.Facts{"joined", open.txn.Len()}})
	case <-j.ended:
		return j.err
	}
}

// spoil notes that a line of a script has failed. Without it, the transaction that is open is
// not what was meant.
func (t *Transactions) spoil(line int, err error) {
	if err != nil && t.isOpen() && t.open.bad == 0 {
		t.open.bad = line
	}
}

// Drop drops the transaction that is open at the end, and returns an error that says so.
func (t *Transactions) Drop() error {
	if !t.isOpen() {
		return nil
	}
	begun := t.open.begun
	t.open.drop()
	t.open = nil
	return fmt.Errorf("the transaction that began on line %d was never committed, so nothing in it took effect", begun)
}

// Commands are the commands that make a transaction.
func (t *Transactions) Commands() []*commands.Command {
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
			Flags:    commands.NoFlags(t.begin),
		},
		{
			Name: "check", Group: group, Effect: commands.Joins, Args: "path version",
			Summary:  "make the transaction fail unless the version matches",
			Help:     "The version is the znode's expected dataVersion. -1 requires only that the znode exists.",
			Examples: []string{"check /app/config 3", "check /app/config -1"},
			Params:   []commands.Param{{Name: "path", Kind: commands.Path}, {Name: "version", Kind: commands.Data}},
			Flags:    commands.NoFlags(t.check),
		},
		{
			Name: "commit", Group: group, Effect: commands.Apart,
			Summary:  "apply all lines of the transaction, or none",
			Examples: []string{"commit"},
			Flags:    commands.NoFlags(t.commit),
		},
		{
			Name: "abort", Group: group, Effect: commands.Offline | commands.Apart,
			Summary:  "discard the transaction without applying it",
			Examples: []string{"abort"},
			Flags:    commands.NoFlags(t.abort),
		},
	}
}
