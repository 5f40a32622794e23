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
	"github.com/zksh/zksh/internal/zktree"
)

// Transactions runs lines, or adds them to the open transaction if there is one. At most one
// transaction is open at a time. Scripts and the interactive shell both use Transactions.
type Transactions struct {
	session *zkconn.Session
	number  func() int   // returns the number of the current line
	onPanic func()       // deferred in each goroutine that runs a line
	open    *transaction // nil if no transaction is open
}

// NewTransactions returns a Transactions without an open transaction. The function number returns
// the number of the current line. onPanic is deferred in every goroutine that runs a line.
func NewTransactions(session *zkconn.Session, number func() int, onPanic func()) *Transactions {
	return &Transactions{session: session, number: number, onPanic: onPanic}
}

// A transaction contains the lines that the commit command applies together.
type transaction struct {
	begun      int // number of the line that contains begin
	txn        *zkconn.Transaction
	lines      []*joinedLine
	failedLine int // number of the first script line that failed after begin, or 0 if there is none
}

// maxJoined is the maximum number of lines in a transaction. Each line takes about 7 kB of memory until
// the transaction ends, because its command waits for the answer.
const maxJoined = 20000

// A joinedLine is a line that has been added to a transaction.
type joinedLine struct {
	number int
	cmd    string // name of the command
	out    *Transcript
	err    error         // error of the command; valid once ended is closed
	ended  chan struct{} // closed when the command has ended
}

func (t *Transactions) isOpen() bool { return t.open != nil }

// Joined returns the number of lines that have joined the open transaction, and reports whether a
// transaction is open.
func (t *Transactions) Joined() (lines int, open bool) {
	if !t.isOpen() {
		return 0, false
	}
	return len(t.open.lines), true
}

func (t *Transactions) begin(_ context.Context, env *commands.Env, _ []string) error {
	if env.Mode == commands.OneShot {
		return commands.Misuse("a transaction takes several lines; write a script that contains everything from " +
			"begin to commit")
	}
	if t.isOpen() {
		return fmt.Errorf("the transaction that began on line %d is still open; commit or abort it first", t.open.begun)
	}
	t.open = &transaction{begun: t.number(), txn: t.session.Begin()}
	return env.Screen.Print(render.Answer{JSON: render.Facts{"done", "begin"}})
}

// check runs the check command: it adds a version check to the open transaction, and fails if no
// transaction is open.
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

// errNoTransaction is the error of commit and abort if no transaction is open.
var errNoTransaction = errors.New("no transaction is open; to open one, run: begin")

// errDropped is the error of each line in a transaction that was discarded. It is never printed.
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
	if open.failedLine > 0 {
		open.drop()
		return fmt.Errorf("nothing was done, because line %d of the transaction failed", open.failedLine)
	}
	err := zktree.CheckQuotas(ctx, t.session.Client, open.txn.Changes())
	if err != nil {
		open.drop()
	}
	if errors.As(err, new(*zktree.QuotaError)) {
		return fmt.Errorf("nothing was done: %w; raise the limit with setquota, "+
			"or remove it with delquota if the server does not enforce it", err)
	}
	if err != nil {
		return fmt.Errorf("nothing was done: %w", err)
	}
	outcome, sent, err := open.commit(ctx, env)
	if !sent {
		open.drop()
		return err
	}
	open.wait()
	undone, refused := errors.AsType[*zkconn.UndoneError](err)
	switch {
	case refused:
		j := open.lines[undone.Part]
		return fmt.Errorf("nothing was done, because line %d of the transaction failed: %s: %w", j.number, j.cmd,
			commands.WithActualVersion(ctx, env, undone.Err))
	case errors.As(err, new(*zkconn.FencedError)): // the message says that nothing was written
		return err
	case err != nil && !outcome.MayHaveHappened():
		return fmt.Errorf("nothing was done: %w", err)
	case err != nil && len(open.lines) > 1:
		return fmt.Errorf("%w (either all %d lines of the transaction took effect, or none)%s", err,
			len(open.lines), look(err))
	case err != nil:
		return fmt.Errorf("%w%s", err, look(err))
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

// commit records what the transaction changes, and sends it. sent is false if recording has failed.
func (t *transaction) commit(ctx context.Context, env *commands.Env) (outcome zkconn.Outcome, sent bool, err error) {
	edits, at := editsOf(t.txn.Changes())
	send := func() (zkconn.Outcome, []zktree.Result, error) {
		sent = true
		outcome, err = t.txn.Commit(ctx)
		results := make([]zktree.Result, len(edits))
		if err == nil {
			for i, written := 0, t.txn.Written(); i < len(edits); i++ {
				results[i] = zktree.Result{Path: written.Paths[at[i]], Czxid: written.Zxid}
			}
		}
		return outcome, results, err
	}
	if len(edits) == 0 {
		_, _, err = send()
		return outcome, sent, err
	}
	err = env.Record(ctx, "commit", edits[0].Path, func(ctx context.Context, rec zktree.Recorder) error {
		return zktree.Sent(ctx, rec, env.Session, edits, send)
	})
	return outcome, sent, err
}

// editsOf returns the edits that the changes of a transaction make, and the index of the change of
// each.
func editsOf(changes []zkconn.Change) (edits []*zktree.Edit, at []int) {
	for i, c := range changes {
		e := &zktree.Edit{Path: c.Path()}
		switch _, writes := c.Writes(); {
		case c.Creates():
			e.Does = zktree.Creates
		case c.Deletes():
			e.Does = zktree.Deletes
		case writes:
			e.Does = zktree.Sets
		default: // a check
			continue
		}
		edits, at = append(edits, e), append(at, i)
	}
	return edits, at
}

// look returns an addition to the error of a transaction whose outcome is unknown: how to find it out.
func look(err error) string {
	path := zkconn.PathOf(err)
	if path == "" {
		return ""
	}
	return "; to see, run: stat " + commands.Quote(path)
}

// lastAnswer is an Output that stores the only answer of a line.
type lastAnswer struct{ render.Value }

// Print stores the answer v.
func (a *lastAnswer) Print(v render.Value) error { a.Value = v; return nil }

// Note is never called, because the remarks of a line are printed when the line joins the
// transaction.
func (*lastAnswer) Note(string) {}

// Alert is never called, because alerts are printed when the line joins the transaction, too.
func (*lastAnswer) Alert(string) {}

// committed is the result that the commit command prints.
type committed []committedLine

type committedLine struct {
	Line    int          `json:"line"`
	Command string       `json:"command"`
	Answer  render.Value `json:"answer"`
}

// Text writes the answers that have a text, one per line, and then the number of lines in the
// transaction.
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

// MarshalJSON returns all lines with their answers, even if the answers have no text.
func (c committed) MarshalJSON() ([]byte, error) {
	return render.Marshal(render.Facts{"committed", append([]committedLine{}, c...)})
}

// Run runs a line, or adds it to the open transaction.
func (t *Transactions) Run(ctx context.Context, env *commands.Env, cmd string, l commands.Line) error {
	switch {
	case !t.isOpen() || l.Has(commands.Apart):
		return run(ctx, env, l)
	case l.Redirected():
		return &commands.UsageError{Problem: "the lines of a transaction cannot be redirected, " +
			"because commit prints all results; omit | and >, or quote them"}
	case !l.Has(commands.Joins):
		problem := "only check, create, set and delete can be part of a transaction;"
		if flag := l.FlagAgainst(commands.Joins); flag != "" {
			problem = flag + " cannot be used in a transaction; omit it, or"
		}
		problem += fmt.Sprintf(" first commit or abort the transaction that began on line %d", t.open.begun)
		return &commands.UsageError{Problem: problem}
	default:
		return t.join(ctx, env, cmd, l)
	}
}

// run runs a line. If the line fails because ctx was cancelled, run returns the cause of the
// cancellation.
func run(ctx context.Context, env *commands.Env, l commands.Line) error {
	err := l.Run(ctx, env)
	if err != nil && context.Cause(ctx) != nil && errors.Is(err, context.Canceled) {
		return context.Cause(ctx)
	}
	return err
}

func (t *Transactions) join(ctx context.Context, env *commands.Env, cmd string, l commands.Line) error {
	own, trip, open := *env, zkconn.NewTrip(), t.open
	if len(open.lines) == maxJoined {
		return fmt.Errorf("a transaction can have at most %d lines; use several transactions", maxJoined)
	}
	own.Recorder = nil // commit records the transaction
	j := &joinedLine{number: t.number(), cmd: cmd, out: &Transcript{Screen: env.Screen, buffered: toOutput},
		ended: make(chan struct{})}
	own.Screen = j.out
	go func() { // returns when the transaction is committed or discarded
		defer t.onPanic()
		defer close(j.ended)
		j.err = run(trip.Context(open.txn.Context(ctx)), &own, l)
	}()
	select {
	case <-trip.Queued:
		open.lines = append(open.lines, j)
		return env.Screen.Print(render.Answer{JSON: render.Facts{"joined", open.txn.Len()}})
	case <-j.ended:
		return j.err
	}
}

// markFailed records the failure err of a script line, unless err is nil. A later commit then
// fails, because the open transaction is incomplete without that line.
func (t *Transactions) markFailed(line int, err error) {
	if err != nil && t.isOpen() && t.open.failedLine == 0 {
		t.open.failedLine = line
	}
}

// Drop discards the transaction that is still open when the shell ends. It returns an error that
// reports this, or nil if no transaction is open.
func (t *Transactions) Drop() error {
	if !t.isOpen() {
		return nil
	}
	begun := t.open.begun
	t.open.drop()
	t.open = nil
	return fmt.Errorf("the transaction that began on line %d was never committed, so nothing in it took effect", begun)
}

// Commands returns the commands begin, check, commit and abort.
func (t *Transactions) Commands() []*commands.Command {
	const group = "Transactions"
	return []*commands.Command{
		{
			Name: "begin", Group: group, Effect: commands.Apart,
			Summary: "begin a transaction that commit applies atomically",
			Help: "A transaction can contain check, create, set and delete. commit prints the result of each command " +
				"with its line number. If ZooKeeper rejects one of the commands, none of them takes effect.\n\n" +
				"In a script, if any line between begin and commit fails, commit fails and changes nothing. A " +
				"transaction that is still open when zksh exits is discarded.",
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
