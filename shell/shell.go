// Package shell reads lines, splits them into words, runs the commands they
// name, and reports what went wrong.
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

// Config is what a Shell is made of.
type Config struct {
	Session  *zkconn.Session
	Commands [][]*commands.Command // besides the shell's own
	Format   render.Format
	Version  string

	// IsOption tells a word that would be an option of the program before the
	// command; nil tells none.
	IsOption func(word string) bool

	Out, Err Output
	Streams  commands.Streams // for programs that commands start
	Stdin    io.Reader        // for a one-shot command that asks for it

	StopAtError bool // -e
	GoOn        bool // -k: also after a lock that a batch relies on
	Quiet       bool // -q: no banner, remarks or progress
	Verbose     bool // tell what TLS has agreed on
	Window      int  // how many lines of a batch may be under way; below 2: one

	History    *history.File    // where lines typed by hand are kept; may be nil
	Interrupts <-chan os.Signal // by hand: Ctrl-C and Ctrl-\

	Locks Locks // held by commands; may be nil

	Keeper commands.Keeper // of what commands destroy; may be nil
	// Saved is for one command that a person types in another shell: it returns a remark on what
	// the Keeper has saved for undo, or "". It is nil otherwise.
	Saved func(env *commands.Env) string

	Clusters []Cluster // that can be connected to by name

	Pager       string // by hand: the program for what is longer than the screen; may be empty
	ManualPager string // the program for help and pages of the manual that are longer; may be empty

	NoServer string // is said behind an error of no server, by hand and for one command; may be empty

	Welcome string        // more lines of the banner, by hand
	Notices <-chan string // remarks from outside, shown by hand as they come; may be nil
	// AfterLine is called by hand when a line of this command has ended, with its error;
	// may be nil.
	AfterLine func(ctx context.Context, env *commands.Env, cmd string, err error) error
}

// Cluster is an ensemble that the configuration has a name for.
type Cluster struct {
	Name  string // with zkconn.ClusterMark
	Color string // of its prompt, one of line.Colors; may be empty
}

// Locks are what commands keep from one line to the next.
type Locks interface {
	Held() (held, gone int) // how many, for the prompt, and how many more are lost
	Paths() []string        // of those held or waited for, for completion
	// Guarding reports whether a program runs under a lock, which must not be left
	// behind: the lock would go, and the program stay.
	Guarding() bool
	// Lost is an error that names each lock that was lost since its last call.
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
	policy   policy

	lines     history.List
	recall    *history.Recall
	completer *completer
	folder    folder
	number    int // of the line being run
	sources   int // files whose lines are being run
	txns      *batch.Transactions
	left      *work // what did not end when it was cancelled; the loop has ended then

	warned zkconn.Ensemble // the session whose certificates have been looked at

	eventMu sync.Mutex   // held while events are shown: they keep their order
	watches atomic.Int32 // an eventForm
	lent    atomic.Bool  // by hand: a program has the terminal, and events wait
	busy    bool         // by hand: a line is under way; under eventMu
}

// New makes a Shell.
func New(cfg Config) *Shell {
	to := &screen{answers: answers{w: cfg.Out.W}, err: cfg.Err}
	cfg.Out.W = &to.answers
	to.out, to.printer = cfg.Out, render.Printer{W: cfg.Out.W, Format: cfg.Format, Safe: cfg.Out.TTY}
	s := &Shell{cfg: cfg, screen: to, policy: oneShot{cfg.IsOption, cfg.NoServer}, recall: new(history.Recall)}
	s.watches.Store(int32(eventsOn))
	if cfg.Out.TTY && cfg.Out.Size != nil {
		s.screen.printer.Width = cfg.Out.columns
	}
	if cfg.Out.TTY && !cfg.Out.Dumb && !cfg.Out.Plain {
		s.screen.printer.Bold = render.Bold
	}
	s.txns = batch.NewTransactions(cfg.Session, func() int { return s.policy.number() }, s.giveBackOnPanic)
	s.registry = commands.NewRegistry(append(cfg.Commands, s.txns.Commands(), s.builtins(), s.folderCommands(), s.handy())...)
	s.folder.servers = func() string { return cfg.Session.Servers().Spec }
	s.completer = &completer{registry: s.registry, clusters: cfg.Clusters, lines: &s.lines, folder: &s.folder, locks: cfg.Locks}
	s.env = &commands.Env{Session: cfg.Session, Version: cfg.Version, Format: cfg.Format, Screen: front{s}, Streams: cfg.Streams, Run: s.runWords, Keeper: cfg.Keeper}
	return s
}

// Registry is the table of all commands.
func (s *Shell) Registry() *commands.Registry { return s.registry }

// Wait waits at most so long for a session, and returns the exit status of a
// program that gives up.
func (s *Shell) Wait(ctx context.Context, timeout time.Duration) int {
	_, err := s.attend(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		return s.cfg.Session.WaitReady(ctx)
	})
	if err != nil {
		s.report("", err)
		return s.leave(exit.Status(err))
	}
	return commands.StatusOK
}

// verbose waits for the connection and tells what it has agreed on by TLS. Why there
// is none is told by whoever needs it.
func (s *Shell) verbose(ctx context.Context) {
	if s.cfg.Verbose && s.cfg.Session.Ready(ctx) == nil {
		commands.NoteAgreed(s.env)
	}
}

// warnOfCertificates tells, once for each session, of certificates that end soon.
func (s *Shell) warnOfCertificates() {
	agreed, now := s.cfg.Session.Info().Agreed, s.cfg.Session.Ensemble()
	if agreed == nil || now == s.warned {
		return
	}
	s.warned = now
	for _, w := range agreed.Warnings(time.Now()) {
		s.env.Screen.Note("warning: " + w)
	}
}

// runLine runs one line and returns the name of its command as well.
func (s *Shell) runLine(ctx context.Context, line string) (string, error) {
	s.number = s.lines.Add(line)
	env := *s.env
	env.Line = rand.Text()
	return s.runText(ctx, &env, line)
}

func (s *Shell) runText(ctx context.Context, env *commands.Env, line string) (string, error) {
	cmd, l, err := s.read(line)
	if err == nil {
		err = s.leaveToWrite(ctx, line, l)
	}
	if err == nil {
		own := *env
		if own.Confirm = ""; s.needsLeave(l) && l.Has(commands.Asks) {
			own.Confirm = s.where()
		}
		err = s.txns.Run(ctx, &own, cmd, l)
	}
	return cmd, err
}

// read takes a line apart, and names its command.
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
		err = unfinished(words)
	}
	mistake := s.mistakeIn(line, words)
	if err != nil {
		return words[0].Text, l, mistake.explain(err)
	}
	if mistake != nil {
		l = l.Explained(mistake.explain)
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
	return l.At(s.folder.resolve), nil
}

func (s *Shell) readAs(c *commands.Command, words []commands.Word) (commands.Line, error) {
	if c.Over != nil {
		return c.ReadOver(words, s.readWords)
	}
	l, err := c.Read(s.env, words)
	if err != nil || l.Bare() {
		if here, is := s.readHere(c, words); is {
			return here, nil
		}
	}
	if err != nil {
		return l, err
	}
	return l.Checked(s.readWords)
}

// readHere reads a line that lacks nothing but its path, which is the folder that somebody
// has gone to.
func (s *Shell) readHere(c *commands.Command, words []commands.Word) (l commands.Line, is bool) {
	if _, moved := s.folder.here(); !moved || len(c.Params) == 0 || !c.Params[0].Here {
		return l, false
	}
	l, err := c.Read(s.env, append([]commands.Word{{Text: "."}}, words...))
	if err == nil {
		l, err = l.Checked(s.readWords)
	}
	return l, err == nil
}

// refuseWrites is an error if a line may write where that is switched off, or needs
// the leave of a person who is not there.
func (s *Shell) refuseWrites(l commands.Line) error {
	where := cmp.Or(s.cfg.Session.Cluster(), "this server")
	var err error
	switch {
	case l.Has(commands.Writes) && s.cfg.Session.Writes() == zkconn.WritesNever:
		err = fmt.Errorf("nothing was done: %w (writes = never is set for %s, or --no-write was given)", zkconn.ErrNoWrites, where)
	case s.needsLeave(l) && s.policy.mode() != commands.ByHand:
		err = fmt.Errorf("nothing was done, because writes on %s require confirmation (writes = ask); to confirm them in advance, add --yes", where)
	default:
		return nil
	}
	return &commands.StatusError{Status: commands.StatusFailed, Code: "NoWrites", Err: err}
}

// needsLeave reports whether a line writes where a person is to be asked.
func (s *Shell) needsLeave(l commands.Line) bool {
	return l.Has(commands.Writes) && s.cfg.Session.Writes() == zkconn.WritesAsk
}

// leaveToWrite asks the person at the terminal before a line writes, where that is to
// be asked.
func (s *Shell) leaveToWrite(ctx context.Context, line string, l commands.Line) error {
	if !s.needsLeave(l) || l.Has(commands.Asks) || s.policy.mode() != commands.ByHand {
		return nil
	}
	return s.env.Leave(ctx, fmt.Sprintf("%s is about to run on %s",
		history.Redacted(line), s.where()))
}

// where is the name of the cluster, for a question.
func (s *Shell) where() string {
	return cmp.Or(s.cfg.Session.Cluster(), s.cfg.Session.Servers().Spec)
}

// runWords runs a line that a command makes. There is leave for it if there was for that
// of the command.
func (s *Shell) runWords(ctx context.Context, env *commands.Env, words []commands.Word) error {
	l, err := s.readWords(words)
	if err != nil {
		return err
	}
	return s.txns.Run(ctx, env, words[0].Text, l)
}

// report prints an error. Scripts print those of their lines.
func (s *Shell) report(cmd string, err error) {
	if err == nil || exit.Silent(err) {
		return
	}
	for _, line := range s.policy.wording(cmd, err) {
		s.screen.complain(line)
	}
}

// closeTimeout bounds the end of the session.
const closeTimeout = 3 * time.Second

// leave gives back the locks and closes the session, so that its ephemeral znodes
// vanish at once.
func (s *Shell) leave(status int) int {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	s.warnOfCertificates()
	var dropped error
	if s.left == nil { // a command that still runs may use the transaction, which ends with the process
		dropped = s.txns.Drop()
	}
	err := errors.Join(dropped, s.releaseLocks(ctx), s.cfg.Session.Close(ctx), s.settle(), s.policy.closed())
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
	held, err := s.cfg.Locks.Release(ctx)
	if remark := s.policy.released(strings.Join(held, ", ")); len(held) > 0 && remark != "" {
		s.env.Screen.Note(remark)
	}
	return err
}

// lost is the error of a lock that was lost since the last call.
func (s *Shell) lost() error {
	if s.cfg.Locks == nil {
		return nil
	}
	return s.cfg.Locks.Lost()
}
