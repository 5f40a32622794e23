package shell

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/history"
	"github.com/zksh/zksh/shell/syntax"
)

// sandboxPlace is the place of lines that were typed in a sandbox, whose address changes.
const sandboxPlace = "sandbox"

// inSandbox reports whether the shell is connected to the sandbox with which it was started.
func (s *Shell) inSandbox() bool {
	return s.cfg.Sandbox != "" && s.cfg.Session.Servers().Spec == s.cfg.Sandbox
}

// place returns the name of the ensemble to which the shell is connected, as the history stores it:
// the name of the cluster or, if it has none, the connect string with all ports. The name of a sandbox
// includes that of the file in it.
func (s *Shell) place() string {
	servers := s.cfg.Session.Servers()
	switch {
	case !s.inSandbox():
	case s.cfg.Loaded != "":
		return sandboxPlace + " " + s.cfg.Loaded
	default:
		return sandboxPlace
	}
	return cmp.Or(s.cfg.Session.Cluster(), strings.Join(servers.Hosts, ",")+servers.Chroot)
}

// entry returns the entry of the history for a line that is typed now.
func (s *Shell) entry(line string) history.Entry {
	return history.Entry{Line: line, Place: s.place(), Time: time.Now().Unix(), Status: history.UnknownStatus}
}

// recallable reports whether the Up key recalls a line. It recalls the lines that were typed for the
// current ensemble. Of the lines from files of older versions, whose place is unknown, it recalls
// those that only read, so that nobody runs by accident what was meant for another ensemble.
func (s *Shell) recallable(e history.Entry) bool {
	return e.Place == s.place() || e.Place == "" && s.onlyReads(e.Line)
}

// suggest returns the rest of the newest line that begins with text. It prefers lines that were
// typed for the current ensemble. Of other lines, it suggests only those that read. It suggests no
// line that was mistyped.
func (s *Shell) suggest(text string) string {
	here := s.place()
	valid := func(e history.Entry) bool {
		return e.Status != commands.StatusUnknown && e.Status != commands.StatusUsage
	}
	line := s.recall.Newest(text, func(e history.Entry) bool { return e.Place == here && valid(e) },
		func(e history.Entry) bool { return s.onlyReads(e.Line) && valid(e) })
	return strings.TrimPrefix(line, text)
}

// onlyReads reports whether the command of a line never writes and runs no other command.
func (s *Shell) onlyReads(line string) bool {
	name, _, _ := strings.Cut(line, " ")
	c := s.registry.Find(name)
	return c != nil && !c.Effect.Has(commands.Writes|commands.RunsLine)
}

// confirmElsewhere asks the user before redo runs a line that was typed for another ensemble, unless
// the line only reads.
func (s *Shell) confirmElsewhere(ctx context.Context, env *commands.Env, n int, e history.Entry) error {
	command, _, _ := syntax.CutRedirection(e.Line)
	if here := s.place(); e.Place != here && s.policy.mode() == commands.ByHand && !s.onlyReads(command) {
		return env.AskToContinue(ctx, fmt.Sprintf("line %d was typed for %s, and is about to run on %s",
			n, e.Place, here))
	}
	return nil
}
