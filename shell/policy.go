package shell

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/shell/batch"
	"github.com/zksh/zksh/shell/exit"
)

// policy is what a shell does otherwise in one mode than in the others. A Shell
// gets it when it begins to run, and keeps it.
type policy interface {
	mode() commands.Mode
	// wording is what is printed for an error, a line each. The command's name is
	// "" for an error that is of none.
	wording(cmd string, err error) []string
	// number is that of the line under way, as messages have it.
	number() int
	// shows reports whether an event is printed where printwatches is on.
	shows(e zkconn.Event) bool
	// expired is called when a session has expired and another one took its place.
	// What it returns is the error of the line under way.
	expired(e expiredError) error
	// redoing is called with a line of the history that is about to run again.
	redoing(line string)
	// released is the remark on locks that the end of the shell has given back.
	released(locks string) string
	// closed is called when the session has been closed at the end.
	closed() error
}

// begin has a policy govern the shell.
func (s *Shell) begin(p policy) { s.policy, s.env.Mode = p, p.mode() }

// RunCommand runs one command given as words and returns the exit status.
func (s *Shell) RunCommand(ctx context.Context, args []string) int {
	s.env.Stdin, s.env.Line = s.cfg.Stdin, rand.Text()
	s.screen.manuals = s.newPager(ctx, s.cfg.ManualPager)
	words := make([]commands.Word, len(args))
	quotedArgs := make([]string, len(args))
	for i, a := range args {
		words[i] = commands.Word{Text: a}
		quotedArgs[i] = commands.Quote(a)
	}
	s.number = s.lines.Add(strings.Join(quotedArgs, " "))
	out := batch.NewTranscript(s.env, words[0].Text, 0)
	l, err := s.readWords(words)
	if err == nil {
		if !l.Has(commands.Offline) {
			s.verbose(ctx)
		}
		err = s.txns.Run(ctx, out.Env(s.env, l, nil), words[0].Text, l)
	}
	if errors.Is(err, exit.ErrQuit) {
		err = nil
	}
	err = errors.Join(err, out.Conclude(scriptHost{s}, err))
	s.report(words[0].Text, err)
	if s.cfg.Saved != nil {
		if remark := s.cfg.Saved(s.env); remark != "" {
			s.env.Screen.Note(remark)
		}
	}
	return s.leave(exit.Status(err))
}

// oneShot is the policy for a single command, whose answer and error are all that
// is printed. A shell that has not begun has it as well.
type oneShot struct {
	isOption func(word string) bool // of the program; may be nil
	noServer string                 // as in Config
}

func (oneShot) mode() commands.Mode { return commands.OneShot }

func (p oneShot) wording(_ string, err error) []string {
	var usage *commands.UsageError
	if p.isOption != nil && errors.As(err, &usage) && usage.Flag != "" && p.isOption(usage.Flag) {
		return []string{fmt.Sprintf("unknown flag %s; put options of zksh before the command (usage: %s)",
			usage.Flag, usage.Command.Usage())}
	}
	if errors.As(err, new(*zkconn.NoServerError)) {
		return []string{err.Error() + p.noServer}
	}
	return []string{err.Error()}
}

func (oneShot) number() int                { return 0 }
func (oneShot) shows(zkconn.Event) bool    { return false }
func (oneShot) expired(expiredError) error { return nil }
func (oneShot) redoing(string)             {}
func (oneShot) released(string) string     { return "" }
func (oneShot) closed() error              { return nil }
