// Package shell implements the command loop of zksh. It splits lines into words, runs the commands
// that they name, and reports errors.
//
// A Shell runs in one of three modes. RunCommand runs a single command from the arguments of the
// program, RunLines runs the lines of a script, and RunEditor runs the lines that a person types.
// The policy interface contains the differences between these modes. All output passes through one
// screen, which keeps answers, events, errors and progress apart. The package also provides the
// shell's own commands, completion, paging, pipes and redirections.
//
// Begin reading at Shell.runLine and Shell.read.
//
// This package is part of the program zksh and may change at any time.
package shell

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"
	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/history"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/shell/batch"
	"github.com/zksh/zksh/shell/exit"
	"github.com/zksh/zksh/shell/syntax"
)

// Config contains the settings of a Shell and the parts that it uses.
type Config struct {
	Session  *zkconn.Session
	Commands [][]*commands.Command // groups of commands, in addition to the shell's own
	Format   render.Format
	Version  string

	// IsOption reports whether word is an option of the program, which must be typed before the
	// command. It is called for an unknown flag after a command. If IsOption is nil, no word is an
	// option.
	IsOption func(word string) bool

	Out, Err Output
	Streams  commands.Streams // standard streams of the programs that commands start
	Stdin    io.Reader        // standard input of a one-shot command

	Yes         bool // --yes: the user has confirmed in advance what commands would ask
	StopAtError bool // -e: stop a script at the first line that fails
	KeepGoing   bool // -k: continue a script after a lock is lost or not acquired
	Quiet       bool // -q: no banner, remarks or progress
	NoBell      bool // whether the bell of the terminal never rings
	Window      int  // maximum number of script lines in flight; values below 2 mean 1

	TraceFile string // file to which the session's traffic is written already, or empty if there is none

	Sandbox    string           // connect string of the sandbox, or empty if there is none
	Loaded     string           // name of the file in the sandbox, which the prompt shows; empty if there is none
	NoHints    bool             // whether the editor shows no suggestions and no colors
	History    *history.File    // file for the lines that a person types, or nil if they are not saved
	Interrupts <-chan os.Signal // receives Ctrl-C and Ctrl-\ of the user at the prompt; may be nil

	Locks Locks // locks that commands hold, or nil if no command takes locks

	Recorder commands.Recorder // records changes for undo, or nil if nothing is recorded
	// Saved returns a remark on the changes that the Recorder saved for undo, or an empty string if
	// there are none. It is set only for a one-shot command whose standard error is a terminal.
	Saved func(env *commands.Env) string

	Clusters []Cluster // ensembles that the user can connect to by name

	Pager       string // command that shows answers longer than the screen at the prompt, or empty for none
	ManualPager string // command that shows help and manual pages longer than the screen, or empty for none

	NoServerHint string // text appended to the error that no server can be reached, except in scripts; may be empty

	Welcome string        // additional lines of the banner; interactive only
	Notices <-chan string // remarks from other parts of the program, which the interactive shell prints as they arrive
	// AfterLine runs after each line in the interactive shell, with the name of the line's command
	// and its error. It may be nil.
	AfterLine func(ctx context.Context, env *commands.Env, cmd string, err error) error
}

// A Cluster is an ensemble that has a name in the configuration.
type Cluster struct {
	Name  string // begins with zkconn.ClusterMark
	Color string // color of the prompt, one of line.Colors; may be empty
}

// Locks are the locks that commands hold from one line to the next.
type Locks interface {
	Held() (held, lost int) // returns the number of locks that are held, and the number of those that were lost
	Paths() []string        // returns the paths of the locks that are held or waited for
	// Guarding reports whether a program is running under a lock. zksh must not exit then, because
	// it would release the lock and leave the program running.
	Guarding() bool
	// Lost returns an error that names each lock that was lost, or could not be acquired in the
	// background, since the last call, or nil.
	Lost() error
	// Release releases all locks before the session is closed, and returns the paths of those that it
	// released.
	Release(ctx context.Context) (paths []string, err error)
}

// A Shell runs commands. It can be used only once: for one command, for the lines of a script, or
// interactively.
type Shell struct {
	cfg      Config
	registry *commands.Registry
	env      *commands.Env
	screen   *screen
	policy   policy

	lines        history.List
	recall       *history.Recall
	completer    *completer
	folder       folder
	number       int // number of the current line
	transactions *batch.Transactions
	abandoned    *work // work that did not stop after it was cancelled, or nil; once it is set, the shell exits

	tracing      tracing         // state of the trace command
	certsChecked zkconn.Ensemble // ensemble whose certificates have been checked

	eventMu      sync.Mutex   // held while events are printed, so that they stay in order
	watches      atomic.Int32 // setting of printwatches, an eventForm
	terminalLent atomic.Bool  // whether a program is using the terminal, so that events are deferred; interactive only
	lineRunning  bool         // whether a line is running; interactive only; guarded by eventMu
}

// New returns a Shell with the given configuration. The Shell does nothing until one of its Run
// methods or Wait is called.
func New(cfg Config) *Shell {
	cfg.Err.W = reportingWriter{cfg.Err.W}
	to := &screen{err: cfg.Err, silent: cfg.NoBell}
	to.answers.w = reportingWriter{cfg.Out.W}
	cfg.Out.W = &to.answers
	to.out, to.printer = cfg.Out, render.Printer{W: cfg.Out.W, Format: cfg.Format, Safe: cfg.Out.TTY}
	s := &Shell{cfg: cfg, screen: to, policy: oneShot{cfg.IsOption, cfg.NoServerHint}, recall: new(history.Recall)}
	s.watches.Store(int32(eventsOn))
	if cfg.Out.TTY && cfg.Out.Size != nil {
		s.screen.printer.Width = cfg.Out.columns
	}
	if cfg.Out.TTY && !cfg.Out.Dumb && !cfg.Out.Plain {
		s.screen.printer.Bold = render.Bold
	}
	s.transactions = batch.NewTransactions(cfg.Session, func() int { return s.policy.number() },
		s.restoreTerminalOnPanic)
	s.registry = commands.NewRegistry(append(cfg.Commands, s.transactions.Commands(), s.builtins(), s.folderCommands(),
		[]*commands.Command{s.sourceCommand(), s.screen.clearCommand()})...)
	s.folder.servers = func() string { return cfg.Session.Servers().Spec }
	s.completer = &completer{registry: s.registry, clusters: cfg.Clusters, lines: &s.lines, folder: &s.folder,
		locks: cfg.Locks}
	s.env = &commands.Env{Session: cfg.Session, Version: cfg.Version, Format: cfg.Format, Screen: commandScreen{s},
		Streams: cfg.Streams, Run: s.runWords, Recorder: cfg.Recorder, Yes: cfg.Yes}
	return s
}

// Registry returns the table of all commands.
func (s *Shell) Registry() *commands.Registry { return s.registry }

// Wait waits until the session is connected, but not longer than timeout. If the session cannot
// connect, Wait reports the error, shuts the shell down, and returns the exit status for the
// program.
func (s *Shell) Wait(ctx context.Context, timeout time.Duration) int {
	_, err := s.runInterruptible(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		return s.cfg.Session.WaitReady(ctx)
	})
	if err != nil {
		s.report("", err)
		return s.shutDown(exit.Status(err))
	}
	return commands.StatusOK
}

// runLine adds a line to the history, runs it, and returns the name of its command.
func (s *Shell) runLine(ctx context.Context, line string) (string, error) {
	s.number = s.lines.Add(s.entry(line))
	env := *s.env
	env.Line = rand.Text()
	return s.runText(ctx, &env, line)
}

func (s *Shell) runText(ctx context.Context, env *commands.Env, line string) (string, error) {
	cmd, l, err := s.read(line)
	if err == nil {
		err = s.confirmWrite(ctx, line, l)
	}
	if err == nil {
		own := *env
		if own.Confirm = ""; s.needsConfirmation(l) && l.Has(commands.Asks) {
			own.Confirm = s.target()
		}
		err = s.transactions.Run(ctx, &own, cmd, l)
	}
	return cmd, err
}

// read parses a line. It returns the name of the command even if the rest of the line is invalid.
func (s *Shell) read(line string) (cmd string, l commands.Line, err error) {
	line, mark, rest := syntax.CutRedirection(line)
	words, err := syntax.Split(line)
	if err != nil {
		first, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		return first, l, &commands.UsageError{Problem: err.Error()}
	}
	if len(words) == 0 {
		return mark, l, &commands.UsageError{Problem: "missing command before " + mark}
	}
	l, err = s.readWords(words)
	if err == nil && l.Has(commands.Writes) && s.policy.mode() == commands.ByHand {
		err = checkUnclosedJSON(words)
	}
	mistake := s.mistakeIn(line, words)
	if err != nil {
		return words[0].Text, l, mistake.explain(err)
	}
	if mistake != nil {
		l = l.MapError(mistake.explain)
	}
	if mark != "" {
		l, err = s.redirect(l, mark, rest)
	}
	return words[0].Text, l, err
}

func (s *Shell) readWords(words []commands.Word) (commands.Line, error) {
	name := words[0].Text
	c := s.registry.Find(name)
	if c == nil {
		return commands.Line{}, exit.UnknownCommand{Name: name, Hint: s.registry.Hint(name)}
	}
	l, err := s.readAs(c, words[1:])
	if errors.Is(err, pflag.ErrHelp) {
		return s.registry.Find("help").Read(s.env, []commands.Word{{Text: name}})
	}
	if err == nil {
		err = s.refuseWrites(l)
	}
	if err != nil {
		return l, err
	}
	return l.WithPaths(s.folder.resolve), nil
}

func (s *Shell) readAs(c *commands.Command, words []commands.Word) (commands.Line, error) {
	l, err := c.Read(s.env, words)
	if err != nil || l.Bare() {
		if here, ok := s.readInFolder(c, words); ok {
			return here, nil
		}
	}
	if err != nil {
		return l, err
	}
	return l.ReadInner(s.readWords)
}

// readInFolder parses a line that omits the path argument of its command. It uses the current
// folder as the path. Before the first cd, only the commands that are cheap do that. ok is false if
// the line is invalid even with that path.
func (s *Shell) readInFolder(c *commands.Command, words []commands.Word) (l commands.Line, ok bool) {
	here, moved := s.folder.here()
	if len(c.Params) == 0 || !c.Params[0].Here || !moved && !c.Params[0].Root {
		return l, false
	}
	l, err := c.Read(s.env, append([]commands.Word{{Text: here, Quoted: true}}, words...))
	if err == nil {
		l, err = l.ReadInner(s.readWords)
	}
	return l, err == nil
}

// refuseWrites returns an error if the line may write and the configuration does not allow that. If
// the configuration requires confirmation, it returns an error when no user is present to confirm.
func (s *Shell) refuseWrites(l commands.Line) error {
	target := cmp.Or(s.cfg.Session.Cluster(), "this server")
	var err error
	switch {
	case l.Has(commands.Writes) && s.cfg.Session.Writes() == zkconn.WritesNever:
		err = fmt.Errorf("nothing was done: %w (writes = never is set for %s, or --no-write was given)",
			zkconn.ErrNoWrites, target)
	case s.needsConfirmation(l) && s.policy.mode() != commands.ByHand:
		err = fmt.Errorf("nothing was done, because writes on %s require confirmation (writes = ask); "+
			"to confirm them in advance, add --yes", target)
	default:
		return nil
	}
	return &commands.StatusError{Status: commands.StatusFailed, Code: "NoWrites", Err: err}
}

// needsConfirmation reports whether the line may write and the configuration of the cluster
// requires a confirmation for each write.
func (s *Shell) needsConfirmation(l commands.Line) bool {
	return l.Has(commands.Writes) && s.cfg.Session.Writes() == zkconn.WritesAsk
}

// confirmWrite asks the user to confirm the line, if it needs a confirmation and its command does
// not ask for one itself.
func (s *Shell) confirmWrite(ctx context.Context, line string, l commands.Line) error {
	if !s.needsConfirmation(l) || l.Has(commands.Asks) || s.policy.mode() != commands.ByHand {
		return nil
	}
	return s.env.AskToContinue(ctx, fmt.Sprintf("%s is about to run on %s",
		history.Redacted(line), s.target()))
}

// target returns the name of the cluster or, if it has none, the connect string, for use in a
// confirmation question.
func (s *Shell) target() string {
	return cmp.Or(s.cfg.Session.Cluster(), s.cfg.Session.Servers().Spec)
}

// runWords runs a line that another command generates. It does not ask for a confirmation, because
// the user has already confirmed the line of that command.
func (s *Shell) runWords(ctx context.Context, env *commands.Env, words []commands.Word) error {
	l, err := s.readWords(words)
	if err != nil {
		return err
	}
	return s.transactions.Run(ctx, env, words[0].Text, l)
}

// report prints an error, unless exit.Silent returns true for it. The errors of script lines are
// printed by the batch instead.
func (s *Shell) report(cmd string, err error) {
	if err == nil || exit.Silent(err) {
		return
	}
	s.tracing.settle()
	for _, line := range s.policy.wording(cmd, err) {
		s.screen.complain(line)
	}
}

// closeTimeout is how long shutDown may take to release the locks and close the session.
const closeTimeout = 3 * time.Second

// shutDown releases the locks and closes the session, so that ZooKeeper deletes its ephemeral
// znodes at once. It returns status, the exit status so far. But if status is StatusOK and shutDown
// itself fails, it returns the exit status of that failure.
func (s *Shell) shutDown(status int) int {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	s.warnAboutCertificates()
	var dropped error
	if s.abandoned == nil { // an abandoned command may still use the transaction
		dropped = s.transactions.Drop()
	}
	err := errors.Join(dropped, s.releaseLocks(ctx), s.cfg.Session.Close(ctx), s.awaitAbandoned(), s.endTrace(ctx),
		s.policy.closed())
	err = errors.Join(err, s.policy.conclude(err))
	s.report("", err)
	if status == commands.StatusOK {
		status = exit.Status(err)
	}
	return status
}

func (s *Shell) releaseLocks(ctx context.Context) error {
	if s.cfg.Locks == nil {
		return nil
	}
	paths, err := s.cfg.Locks.Release(ctx)
	if remark := s.policy.released(strings.Join(paths, ", ")); len(paths) > 0 && remark != "" {
		s.env.Screen.Note(remark)
	}
	if s.policy.mode() == commands.Batch { // at the prompt, the user has seen a notice
		err = errors.Join(s.lostLocks(), err)
	}
	return err
}

// lostLocks returns an error that names the locks that were lost, or could not be acquired in the
// background, since the last call, or nil.
func (s *Shell) lostLocks() error {
	if s.cfg.Locks == nil {
		return nil
	}
	return s.cfg.Locks.Lost()
}
