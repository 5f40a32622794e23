package batch

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/commands/commandtest"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/internal/zktest/zksession"
	"github.com/zksh/zksh/shell/exit"
	"github.com/zksh/zksh/shell/syntax"
)

// A fakeShell records the output of a batch, in order.
type fakeShell struct {
	commandtest.Screen // makes fakeShell a commands.Screen; its own methods are not called

	commands map[string]*commands.Command
	env      *commands.Env
	flushErr error        // returned by the next Flush
	lost     func() error // called by Lost; may be nil

	interrupt func() // interrupts the running script

	mu      sync.Mutex
	printed []string
}

var _ Shell = (*fakeShell)(nil)

func (s *fakeShell) add(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.printed = append(s.printed, text)
}

func (s *fakeShell) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.printed, "\n")
}

func (s *fakeShell) Read(text string) (string, commands.Line, error) {
	words, err := syntax.Split(text)
	if err != nil {
		return "", commands.Line{}, &commands.UsageError{Problem: err.Error()}
	}
	c := s.commands[words[0].Text]
	if c == nil {
		return words[0].Text, commands.Line{}, errors.New("unknown")
	}
	l, err := c.Read(s.env, words[1:])
	return c.Name, l, err
}

func (s *fakeShell) Print(v render.Value) error {
	var b strings.Builder
	p := render.Printer{W: &b, Format: s.env.Format}
	err := p.Print(v)
	s.add(strings.TrimSuffix(b.String(), "\n"))
	return err
}

func (s *fakeShell) Note(text string)   { s.add("note: " + text) }
func (s *fakeShell) Alert(text string)  { s.add("alert: " + text) }
func (s *fakeShell) Report(text string) { s.add("error: " + text) }
func (s *fakeShell) Buffer()            {}

func (s *fakeShell) Flush() (err error) {
	err, s.flushErr = s.flushErr, nil
	return err
}

func (s *fakeShell) ShowEvents(take func() []zkconn.Event) error {
	for _, e := range take() {
		if !e.Session() {
			s.add("event: " + string(e.Type) + " " + e.Path)
		}
	}
	return nil
}

func (s *fakeShell) Lost() error {
	if s.lost == nil {
		return nil
	}
	return s.lost()
}

// run runs the lines of text with fake and real commands. It returns their output and the exit
// status.
func (s *fakeShell) run(t *testing.T, text string, o Options) (printed string, status int) {
	t.Helper()
	var b *Batch
	txns := NewTransactions(s.env.Session, func() int { return b.Line() }, func() {})
	s.register(commands.All()...)
	s.register(txns.Commands()...)
	b = New(s, s.env, txns, "script", o)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	s.interrupt = func() { cancel(exit.ErrInterrupted) }
	status = b.Run(ctx, strings.NewReader(text))
	if err := txns.Drop(); err != nil {
		s.Report(err.Error())
	}
	return s.text(), status
}

func (s *fakeShell) register(list ...*commands.Command) {
	for _, c := range list {
		s.commands[c.Name] = c
	}
}

// newFakeShell returns a shell without a server.
func newFakeShell(t *testing.T) *fakeShell {
	t.Helper()
	session, err := zkconn.Open(zkconn.Config{Servers: "127.0.0.1:1", Timeout: time.Second})
	zktest.Must(t, err)
	t.Cleanup(func() { _ = session.Close(context.Background()) }) // fails, because it was never connected
	return fakeShellOf(session)
}

// newSandboxShell returns a shell that is connected to a new sandbox.
func newSandboxShell(t *testing.T, o sandbox.Options) *fakeShell {
	t.Helper()
	return fakeShellOf(zksession.Open(t, zkconn.Config{Servers: zktest.Sandbox(t, o).Addr(), Timeout: 30 * time.Second}))
}

func fakeShellOf(session *zkconn.Session) *fakeShell {
	s := &fakeShell{commands: map[string]*commands.Command{}}
	s.env = &commands.Env{Session: session, Screen: s, Format: render.Text, Mode: commands.Batch}
	s.register(fakes...)
	s.register(fake("hang", commands.OneRequest, func(trip *zkconn.Trip) error { // waits for Ctrl-C
		close(trip.Queued)
		time.Sleep(50 * time.Millisecond)
		s.interrupt()
		trip.Outcome.Unknown, trip.Cut = 1, true
		return exit.ErrInterrupted
	}))
	return s
}

// fakes are commands that behave like requests. They print their first argument as the answer.
var fakes = []*commands.Command{
	fake("slow", commands.OneRequest, func(trip *zkconn.Trip) error { // answered after the next lines
		close(trip.Queued)
		time.Sleep(50 * time.Millisecond)
		trip.Outcome.Done = 1
		return nil
	}),
	fake("fast", commands.OneRequest, func(trip *zkconn.Trip) error {
		close(trip.Queued)
		trip.Outcome.Done = 1
		return nil
	}),
	fake("fail", commands.OneRequest, func(trip *zkconn.Trip) error {
		close(trip.Queued)
		trip.Outcome.Rejected = 1
		return &zkconn.Error{Code: zkconn.NoNode, Path: "/x"}
	}),
	fake("cut", commands.OneRequest, func(trip *zkconn.Trip) error { // sent, but the connection is lost
		close(trip.Queued)
		time.Sleep(20 * time.Millisecond)
		trip.Outcome.Unknown, trip.Cut = 1, true
		return errors.New("cut")
	}),
	fake("unsent", commands.OneRequest, func(trip *zkconn.Trip) error {
		close(trip.Queued)
		time.Sleep(20 * time.Millisecond)
		trip.Outcome.NotSent, trip.Cut = 1, true
		return errors.New("not sent")
	}),
	fake("busy", commands.OneRequest, func(trip *zkconn.Trip) error { // throttled unless it runs alone
		close(trip.Queued)
		if !trip.Alone {
			time.Sleep(50 * time.Millisecond) // until the next lines have been sent
			trip.Outcome.Rejected = 1
			return &zkconn.Error{Code: zkconn.Throttled, Path: "/x"}
		}
		trip.Outcome.Done = 1
		return nil
	}),
	fake("alone", 0, func(*zkconn.Trip) error { return nil }),
}

func fake(name string, effect commands.Effect, run func(trip *zkconn.Trip) error) *commands.Command {
	return &commands.Command{
		Name: name, Effect: effect | commands.Offline, Params: []commands.Param{{Name: "word", Kind: commands.Data}},
		Flags: func(*pflag.FlagSet) commands.Run {
			return func(ctx context.Context, env *commands.Env, args []string) error {
				env.Screen.Note(args[0] + " starts")
				if err := run(zkconn.TripOf(ctx)); err != nil {
					return err
				}
				return env.Screen.Print(render.Answer{Words: args[0] + "\n", JSON: args[0]})
			}
		},
	}
}
