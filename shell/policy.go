package shell

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/shell/batch"
	"github.com/zksh/zksh/shell/exit"
)

// A policy contains the behavior that differs between the modes of a shell: one command, a script,
// or the prompt. A Shell gets its policy when it begins to run.
type policy interface {
	mode() commands.Mode
	// wording returns the lines to print for an error. cmd is the name of the command that failed,
	// or an empty string if the error belongs to no command.
	wording(cmd string, err error) []string
	// number returns the number of the current line, for error messages.
	number() int
	// shows reports whether an event is printed while printwatches is on.
	shows(e zkconn.Event) bool
	// expired is called when the session has expired and a new one has replaced it. It returns the
	// error with which the current line fails, or nil.
	expired(e expiredError) error
	// redoing is called before the redo command runs a line from the history. line is that line.
	redoing(line string)
	// released returns the remark to print about locks that were released when the shell ended, or
	// an empty string for none.
	released(locks string) string
	// closed is called after the session has been closed because the shell ends.
	closed() error
	// conclude prints a JSON answer for err, the error of the end of the shell, if err is not nil and
	// the lines of the shell have JSON answers.
	conclude(err error) error
}

// setPolicy sets the policy of the shell. It is called before the shell runs.
func (s *Shell) setPolicy(p policy) { s.policy, s.env.Mode = p, p.mode() }

// RunCommand runs one command and returns the exit status. args contains the name of the command
// and its arguments.
func (s *Shell) RunCommand(ctx context.Context, args []string) int {
	s.env.Stdin, s.env.Line = s.cfg.Stdin, rand.Text()
	s.screen.manuals = s.newPager(ctx, s.cfg.ManualPager)
	words := make([]commands.Word, len(args))
	quotedArgs := make([]string, len(args))
	for i, a := range args {
		words[i] = commands.Word{Text: a}
		quotedArgs[i] = commands.Quote(a)
	}
	s.number = s.lines.Add(s.entry(strings.Join(quotedArgs, " ")))
	out := batch.NewTranscript(s.env, words[0].Text, 0)
	l, err := s.readWords(words)
	if err == nil {
		err = s.transactions.Run(ctx, out.Env(s.env, l, nil), words[0].Text, l)
	}
	if errors.Is(err, exit.ErrQuit) {
		err = nil
	}
	err = errors.Join(err, out.Conclude(scriptHost{s}, err))
	s.report(words[0].Text, err)
	if err == nil && l.Passing() != "" {
		s.env.Screen.Note(l.Passing())
	}
	if s.cfg.Saved != nil {
		if remark := s.cfg.Saved(s.env); remark != "" {
			s.env.Screen.Note(remark)
		}
	}
	return s.shutDown(exit.Status(err))
}

// oneShot is the policy for a single command. With this policy, the shell prints no events. A
// Shell also has this policy before it runs.
type oneShot struct {
	isOption     func(word string) bool // Config.IsOption
	noServerHint string                 // Config.NoServerHint
}

func (oneShot) mode() commands.Mode { return commands.OneShot }

func (p oneShot) wording(_ string, err error) []string {
	var usage *commands.UsageError
	if p.isOption != nil && errors.As(err, &usage) && usage.Flag != "" && p.isOption(usage.Flag) {
		hinted := *usage
		hinted.Problem = "unknown flag " + usage.Flag + "; put options of zksh before the command"
		return []string{hinted.Error()}
	}
	if errors.As(err, new(*zkconn.NoServerError)) {
		return []string{err.Error() + p.noServerHint}
	}
	return []string{err.Error()}
}

func (oneShot) number() int                { return 0 }
func (oneShot) shows(zkconn.Event) bool    { return false }
func (oneShot) expired(expiredError) error { return nil }
func (oneShot) redoing(string)             {}
func (oneShot) released(string) string     { return "" }
func (oneShot) closed() error              { return nil }
func (oneShot) conclude(error) error       { return nil }
