package shell

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/zkconn"
)

// RunCommand runs one command given as words and returns the exit status.
func (s *Shell) RunCommand(ctx context.Context, args []string) int {
	s.env.Stdin = s.cfg.Stdin
	words := make([]commands.Word, len(args))
	quotedArgs := make([]string, len(args))
	for i, a := range args {
		words[i] = commands.Word{Text: a}
		quotedArgs[i] = quote(a)
	}
	s.number = s.lines.Add(strings.Join(quotedArgs, " "))
	l, err := s.readWords(words)
	if err == nil {
		err = run(ctx, s.env, l)
	}
	if errors.Is(err, errQuit) {
		err = nil
	}
	s.report(words[0].Text, err)
	return s.leave(Status(err))
}

// oneShot is the policy for a single command, whose answer and error are all that
// is printed. A shell that has not begun has it as well.
type oneShot struct {
	isOption func(word string) bool // of the program; may be nil
}

func (oneShot) mode() commands.Mode { return commands.OneShot }

func (p oneShot) wording(_ string, err error) []string {
	var usage *commands.UsageError
	if p.isOption != nil && errors.As(err, &usage) && usage.Flag != "" && p.isOption(usage.Flag) {
		return []string{fmt.Sprintf("unknown flag %s; as an option of zksh it goes before the command (usage: %s)",
			usage.Flag, usage.Command.Usage())}
	}
	return []string{err.Error()}
}

func (oneShot) shows(zkconn.Event) bool    { return false }
func (oneShot) expired(expiredError) error { return nil }
func (oneShot) redoing(string)             {}
func (oneShot) released(string) string     { return "" }
func (oneShot) closed() error              { return nil }
