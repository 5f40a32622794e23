// Package shell reads lines, splits them into words, runs the commands they
// name, and reports what went wrong.
package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/history"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/tty"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/shell/line"
)

// Config is what a Shell is made of.
type Config struct {
	Session  *zkconn.Session
	Commands [][]*commands.Command // besides the shell's own
	Format   render.Format
	Version  string

	Out, Err Output
	Streams  commands.Streams // for programs that commands start
	Stdin    io.Reader        // for a one-shot command that asks for it

	StopAtError bool // -e
	GoOn        bool // -k: also after a lock that a batch relies on
	Quiet       bool // -q: no banner, remarks or progress

	History    *history.File // where lines typed by hand are kept; may be nil
	Interrupts <-chan os.Signal

	Locks Locks // held by commands; may be nil

	Pager string // by hand: the program for what is longer than the screen; may be empty

	Welcome string        // more lines of the banner, by hand
	Notices <-chan string // remarks from outside, shown by hand as they come; may be nil
}

// Locks are what commands keep from one line to the next.
type Locks interface {
	Held() int // how many, for the prompt
	// Guarding tells whether a program runs under a lock, which must not be left
	// behind: the lock would go, and the program stay.
	Guarding() bool
	// Lost is an error that names each lock that was lost since it was asked last.
	Lost() error
	// Release gives all back before the session ends, and names them.
	Release(ctx context.Context) (held []string, err error)
}

// Shell runs commands. It is used once: for one command, for the lines of a
// file, or by hand.
type Shell struct {
	cfg      Config
	registry *commands.Registry
	env      *commands.Env
	screen   *screen
	mode     commands.Mode
	where    string // FILE:LINE of the line being run, in a batch

	lines     history.List
	recall    *history.Recall
	completer *completer
	number    int  // of the line being run
	watches   bool // printwatches
	eventMu   sync.Mutex
	status    int // of the first failure in a batch, of the last line by hand
}

// New makes a Shell.
func New(cfg Config) *Shell {
	s := &Shell{cfg: cfg, watches: true, recall: history.NewRecall(nil)}
	s.screen = &screen{out: cfg.Out, err: cfg.Err,
		printer: render.Printer{W: cfg.Out.W, Format: cfg.Format, Safe: cfg.Out.TTY}}
	if cfg.Out.TTY && cfg.Out.Size != nil {
		s.screen.printer.Width = func() int { columns, _ := s.screen.out.size(); return columns }
	}
	s.registry = commands.NewRegistry(append(cfg.Commands, s.builtins())...)
	s.completer = &completer{registry: s.registry, lines: &s.lines}
	s.env = &commands.Env{Session: cfg.Session, Version: cfg.Version, Screen: front{s}, Streams: cfg.Streams}
	return s
}

func (s *Shell) setMode(m commands.Mode) { s.mode, s.env.Mode = m, m }

// Registry is the table of all commands.
func (s *Shell) Registry() *commands.Registry { return s.registry }

// front is the screen as commands see it.
type front struct{ s *Shell }

// Print shows an answer after the events that came before it on the wire.
func (f front) Print(v render.Value) error {
	return errors.Join(f.s.showEvents(), wrapWrite(f.s.screen.answer(v)))
}

// Note is part of commands.Screen.
func (f front) Note(text string) {
	if !f.s.cfg.Quiet {
		f.s.screen.complain(text)
	}
}

// Alert is part of commands.Screen. With stty tostop it would stop us while a
// command under a lock has the terminal, and the lock would be lost.
func (f front) Alert(text string) {
	_ = tty.Quietly(func() error { // nothing is left to do when it fails
		f.s.screen.complain(text)
		return nil
	})
}

// Ask is part of commands.Screen. The answer is no unless it is yes.
func (f front) Ask(ctx context.Context, question string) (bool, error) {
	if f.s.screen.editor == nil {
		return false, errors.New("there is nobody to ask")
	}
	answer, err := f.s.screen.editor.Ask(ctx, render.Safe(question))
	if errors.Is(err, io.EOF) {
		return false, nil
	}
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes", err
}

// Progress is part of commands.Screen.
func (f front) Progress(verb string) (update func(done, total int), end func()) {
	if f.s.cfg.Quiet {
		return func(int, int) {}, func() {}
	}
	return f.s.screen.progress(verb)
}

// Region is part of commands.Screen.
func (f front) Region(on commands.Stream) commands.Region { return f.s.screen.region(on) }

// Wait waits at most so long for a session, and returns the exit status of a
// program that gives up.
func (s *Shell) Wait(ctx context.Context, timeout time.Duration) int {
	ctx, _, done := s.cancellable(ctx)
	defer done()
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := s.cfg.Session.WaitReady(waiting); err != nil {
		s.report("", err)
		return s.leave(Status(err))
	}
	return commands.StatusOK
}

// RunCommand runs one command given as words and returns the exit status.
func (s *Shell) RunCommand(ctx context.Context, args []string) int {
	s.setMode(commands.OneShot)
	s.env.Stdin = s.cfg.Stdin
	words := make([]commands.Word, len(args))
	quotedArgs := make([]string, len(args))
	for i, a := range args {
		words[i] = commands.Word{Text: a}
		quotedArgs[i] = quote(a)
	}
	s.number = s.lines.Add(strings.Join(quotedArgs, " "))
	err := s.runWords(ctx, words)
	if errors.Is(err, errQuit) {
		err = nil
	}
	s.report(words[0].Text, err)
	return s.leave(Status(err))
}

// Editor is the editor for a terminal: getenv gives what the person wants of it.
// The history file, if there is one, is what earlier lines are recalled from.
func (s *Shell) Editor(in, out *os.File, getenv func(string) string) line.Editor {
	var earlier []string
	if s.cfg.History != nil {
		var err error
		if earlier, err = s.cfg.History.Lines(); err != nil {
			s.report("", err)
		}
	}
	for _, line := range earlier {
		s.recall.Add(line)
	}
	return line.New(in, out, getenv, line.Assistant{Open: openQuote, Complete: s.completer.complete, Recall: s.recall}, s.cfg.Interrupts)
}

// RunEditor reads lines from a person until he leaves, and returns the status of
// the last one. It closes the editor.
func (s *Shell) RunEditor(ctx context.Context, e line.Editor) int {
	defer s.giveBackOnPanic()
	s.setMode(commands.ByHand)
	s.screen.mu.Lock()
	s.screen.editor = e
	s.screen.mu.Unlock()
	nodes := newNodeCache(sessionNodes{s.cfg.Session}, e.Refresh, s.giveBackOnPanic)
	s.completer.nodes = nodes
	if !s.cfg.Quiet {
		s.banner()
	}
	ctx, stop := context.WithCancelCause(ctx)
	if s.cfg.Pager != "" && s.cfg.Out.TTY && s.cfg.Out.Size != nil {
		s.screen.pager = &pager{command: s.cfg.Pager, size: s.cfg.Out.Size, ctx: ctx}
	}
	var watching sync.WaitGroup
	watching.Go(func() {
		defer s.giveBackOnPanic()
		s.watchEvents(ctx)
	})
	s.readLines(ctx, e)
	stop(nil)
	watching.Wait()
	nodes.close()
	if err := context.Cause(ctx); errors.Is(err, ErrTerminated) {
		s.status = Status(err)
	}
	status := s.leave(s.status)
	if err := e.Close(); err != nil {
		s.report("", err)
	}
	return status
}

func (s *Shell) banner() {
	text := fmt.Sprintf("Connecting to %s\nWelcome to ZooKeeper! This is zksh %s; help lists the commands.\n%s",
		s.cfg.Session.Servers().Spec, s.cfg.Version, s.cfg.Welcome)
	if err := s.screen.event(plain(text)); err != nil {
		s.report("", err)
	}
}

func (s *Shell) readLines(ctx context.Context, e line.Editor) {
	for {
		text, err := e.ReadLine(ctx, s.prompt)
		switch {
		case errors.Is(err, ErrInterrupted):
			continue
		case errors.Is(err, line.ErrTooLong):
			s.report("", err)
			s.status = commands.StatusUsage
			continue
		case errors.Is(err, io.EOF), ctx.Err() != nil:
			return
		case err != nil:
			s.report("", err)
			s.status = Status(err)
			return
		}
		if blankOrComment(text) {
			continue
		}
		text = onOneLine(text) // as the history has it
		s.keep(text)
		cmd, err := s.runCancellable(ctx, text)
		if errors.Is(err, errQuit) {
			return
		}
		if left := (abandonedError{}); errors.As(err, &left) {
			s.status = Status(err)
			s.report("", err)
			return
		}
		s.completer.nodes.doubt()
		if errors.Is(err, ErrInterrupted) || s.interruptedLate() { // what was pasted after this line is not meant any more
			e.Discard()
		}
		err = errors.Join(err, s.showEvents())
		s.status = Status(err)
		s.report(cmd, err)
	}
}

// keep puts a line where it can be recalled from.
func (s *Shell) keep(line string) {
	s.recall.Add(line)
	if s.cfg.History == nil || strings.ContainsAny(line, "\r\n") {
		return
	}
	if err := s.cfg.History.Append(line); err != nil {
		s.report("", fmt.Errorf("the history is no longer kept: %w", err))
		s.cfg.History = nil
	}
}

// prompt is zkCli's: the connect string, the state, the number of the next line.
// Locks are counted behind the state once there are any.
func (s *Shell) prompt() line.Prompt {
	state, locks := s.cfg.Session.State(), ""
	if s.cfg.Locks != nil {
		switch n := s.cfg.Locks.Held(); n {
		case 0:
		case 1:
			locks = ", 1 lock"
		default:
			locks = fmt.Sprintf(", %d locks", n)
		}
	}
	return line.Prompt{
		Text:  fmt.Sprintf("[zk: %s(%s%s) %d] ", s.cfg.Session.Servers().Spec, state, locks, s.lines.Len()),
		Alert: state != zkconn.StateConnected,
	}
}

func blankOrComment(line string) bool {
	line = strings.TrimLeft(line, " \t\n\v\f\r")
	return line == "" || line[0] == '#'
}

// runLine runs one line and returns the name of its command as well.
func (s *Shell) runLine(ctx context.Context, line string) (string, error) {
	s.number = s.lines.Add(line)
	return s.runText(ctx, line)
}

func (s *Shell) runText(ctx context.Context, line string) (string, error) {
	words, err := split(line)
	if err != nil {
		first, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		return first, &commands.UsageError{Problem: err.Error()}
	}
	return words[0].Text, s.runWords(ctx, words)
}

func (s *Shell) runWords(ctx context.Context, words []commands.Word) error {
	name := words[0].Text
	c := s.registry.Find(name)
	if c == nil {
		return unknownCommand{name, s.registry.Nearest(name)}
	}
	err := c.Execute(ctx, s.env, words[1:])
	if err != nil && context.Cause(ctx) != nil && errors.Is(err, context.Canceled) {
		return context.Cause(ctx)
	}
	return err
}

// report is the only place that prints an error.
func (s *Shell) report(cmd string, err error) {
	if err == nil || silent(err) {
		return
	}
	text := err.Error()
	if s.mode == commands.ByHand && errors.Is(err, ErrInterrupted) {
		text = "\n" + text // the terminal has echoed ^C
	}
	if s.mode == commands.Batch {
		if cmd != "" {
			text = cmd + ": " + text
		}
		text = s.where + text
	}
	var usage *commands.UsageError
	if s.mode == commands.ByHand && errors.As(err, &usage) && usage.Command != nil {
		s.screen.complain(usage.Problem)
		s.screen.complain("usage: " + usage.Command.Usage())
		text = "example: " + usage.Command.Example
	}
	s.screen.complain(text)
}

// silent tells an error whose exit status says it all.
func silent(err error) bool {
	switch e := err.(type) {
	case commands.Unmet:
		return true
	case *commands.StatusError:
		return e.Err == nil
	case interface{ Unwrap() []error }: // joined: each of them
		return !slices.ContainsFunc(e.Unwrap(), func(err error) bool { return !silent(err) })
	}
	return errors.Is(err, syscall.EPIPE)
}

// plain is text that is printed as it is.
type plain string

// Text writes it.
func (p plain) Text(w io.Writer) error {
	_, err := io.WriteString(w, string(p))
	return err
}

func quoted(s string) string { return fmt.Sprintf("%q", s) }
