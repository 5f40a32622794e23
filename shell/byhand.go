package shell

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/history"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/tty"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/shell/exit"
	"github.com/zksh/zksh/shell/line"
	"github.com/zksh/zksh/shell/syntax"
)

// byHand is the policy for lines that a person types.
type byHand struct {
	s      *Shell
	editor line.Editor
	status int // of the last line
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
	s.recall.Add(earlier...)
	s.screen.keys = keyboard{in: in, hide: tty.HideKeys}
	return line.New(in, out, getenv, line.Assistant{Open: syntax.OpenQuote, Complete: s.completer.complete, Recall: s.recall}, s.cfg.Interrupts)
}

// RunEditor reads lines from a person until he leaves, and returns the status of
// the last one. It closes the editor.
func (s *Shell) RunEditor(ctx context.Context, e line.Editor) int {
	defer s.giveBackOnPanic()
	h := &byHand{s: s, editor: e}
	s.begin(h)
	s.screen.mu.Lock()
	s.screen.editor = e
	s.screen.mu.Unlock()
	nodes := newNodeCache(sessionNodes{s.cfg.Session}, e.Refresh, s.giveBackOnPanic)
	s.completer.nodes = nodes
	if !s.cfg.Quiet {
		h.banner()
	}
	ctx, stop := context.WithCancelCause(ctx)
	s.screen.pager, s.screen.manuals = s.newPager(ctx, s.cfg.Pager), s.newPager(ctx, s.cfg.ManualPager)
	var watching sync.WaitGroup
	watching.Go(func() { // ends with stop
		defer s.giveBackOnPanic()
		s.verbose(ctx)
		s.watchEvents(ctx)
	})
	h.readLines(ctx)
	stop(nil)
	watching.Wait()
	nodes.close()
	if err := context.Cause(ctx); errors.Is(err, exit.ErrTerminated) {
		h.status = exit.Status(err)
	}
	status := s.leave(h.status)
	if err := e.Close(); err != nil {
		s.report("", err)
	}
	return status
}

func (h *byHand) banner() {
	text := fmt.Sprintf("Connecting to %s\nWelcome to ZooKeeper! This is zksh %s; help lists the commands.\n%s",
		h.s.cfg.Session.Servers().Spec, h.s.cfg.Version, h.s.cfg.Welcome)
	text = render.WrapText(text, commands.HelpWidthIn(h.s.screen.out.columns()))
	if err := h.s.screen.event(render.Answer{Words: text, JSON: text}); err != nil {
		h.s.report("", err)
	}
}

func (h *byHand) readLines(ctx context.Context) {
	for {
		text, err := h.editor.ReadLine(ctx, h.prompt)
		switch {
		case errors.Is(err, line.ErrInterrupted):
			continue
		case errors.Is(err, line.ErrTooLong):
			h.s.report("", err)
			h.status = commands.StatusUsage
			continue
		case errors.Is(err, line.ErrHungUp): // a SIGHUP is on its way, and may come later
			h.status = exit.Status(exit.ErrTerminated)
			return
		case errors.Is(err, io.EOF), ctx.Err() != nil:
			return
		case err != nil:
			h.s.report("", err)
			h.status = exit.Status(err)
			return
		}
		if syntax.BlankOrComment(text) {
			continue
		}
		text = syntax.OnOneLine(text) // as the history has it
		h.keep(text)
		var cmd string
		h.s.lineBegins()
		interrupted, err := h.s.attendLine(ctx, func(ctx context.Context) (err error) {
			cmd, err = h.s.runLine(ctx, text)
			return err
		})
		if errors.Is(err, exit.ErrQuit) {
			return
		}
		if h.s.left != nil {
			h.status = exit.Status(err)
			return
		}
		h.s.completer.nodes.doubt()
		if interrupted || errors.Is(err, line.ErrInterrupted) { // what was pasted after this line is not meant any more
			h.editor.Discard()
		}
		err = errors.Join(err, h.s.showEvents())
		h.s.warnOfCertificates()
		h.status = exit.Status(err)
		h.s.report(cmd, err)
		if after := h.s.cfg.AfterLine; after != nil {
			_, err := h.s.attend(ctx, func(ctx context.Context) error { return after(ctx, h.s.env, cmd, err) })
			h.s.report("", err)
		}
		h.s.lineEnds(err)
	}
}

// lineBegins lets only the line tell of what happens to it, until lineEnds.
func (s *Shell) lineBegins() {
	s.eventMu.Lock()
	defer s.eventMu.Unlock()
	s.busy = true
}

// lineEnds is behind a line that told this error: why no server can be reached is not told again then.
func (s *Shell) lineEnds(told error) {
	s.eventMu.Lock()
	defer s.eventMu.Unlock()
	s.tellUnreached(told)
	s.busy = false
}

// tellUnreached tells, once after each loss of the connection and at the start, why no
// server can be reached, unless this error has just told it. The caller holds eventMu.
func (s *Shell) tellUnreached(told error) {
	if why := s.cfg.Session.Unreached(); why != nil && !errors.As(told, new(*zkconn.NoServerError)) {
		s.env.Screen.Note(why.Error() + "; zksh keeps trying" + s.cfg.NoServer)
	}
}

// keep puts a line where it can be recalled from.
func (h *byHand) keep(line string) {
	s := h.s
	s.recall.Add(line)
	if s.cfg.History == nil || strings.ContainsAny(line, "\r\n") {
		return
	}
	if err := s.cfg.History.Append(line); err != nil {
		s.report("", fmt.Errorf("the history is no longer saved: %w", err))
		s.cfg.History = nil
	}
}

// shownFolder is how much of the folder stands in the prompt, in columns.
const shownFolder = 24

// prompt is zkCli's: the connect string, the state, the number of the next line.
// Locks are counted behind the state once there are any, and so are the lines of a
// transaction that is open; then comes the folder unless it is the root.
func (h *byHand) prompt() line.Prompt {
	s := h.s
	state, locks, txn := s.cfg.Session.State(), "", ""
	if s.cfg.Locks != nil {
		held, gone := s.cfg.Locks.Held()
		locks = countLocks(held, "") + countLocks(gone, " lost")
	}
	cluster := s.cfg.Session.Cluster()
	if lines, open := s.txns.Joined(); open {
		txn = fmt.Sprintf(" (txn %d)", lines)
	}
	insecure := s.cfg.Session.Secure().TLS.Gap()
	if insecure != "" {
		insecure = ", " + insecure
	}
	folder, moved := s.folder.here()
	if moved && folder != "/" {
		folder = " " + render.CutMiddle(render.Safe(folder), shownFolder, shownFolder/2)
	} else {
		folder = ""
	}
	return line.Prompt{
		Text:  fmt.Sprintf("[zk: %s(%s%s%s)%s%s %d] ", cmp.Or(cluster, s.cfg.Session.Servers().Spec), state, insecure, locks, txn, folder, s.lines.Len()),
		Color: s.colorOf(cluster),
		Alert: state != zkconn.StateConnected || insecure != "",
	}
}

func (s *Shell) colorOf(cluster string) string {
	for _, c := range s.cfg.Clusters {
		if c.Name == cluster {
			return c.Color
		}
	}
	return ""
}

func countLocks(n int, how string) string {
	switch n {
	case 0:
		return ""
	case 1:
		return ", 1 lock" + how
	}
	return fmt.Sprintf(", %d locks%s", n, how)
}

func (*byHand) mode() commands.Mode { return commands.ByHand }

// wording gives the usage and an example lines of their own.
func (*byHand) wording(_ string, err error) []string {
	var usage *commands.UsageError
	switch {
	case errors.Is(err, exit.ErrInterrupted):
		return []string{"\n" + err.Error()} // the terminal has echoed the key
	case errors.As(err, &usage) && usage.Command != nil:
		return []string{usage.Problem, "usage: " + usage.Command.Usage(), "example: " + usage.Command.Examples[0]}
	}
	return []string{err.Error()}
}

func (h *byHand) number() int { return h.s.number }

func (*byHand) shows(zkconn.Event) bool { return true }

// expired is told at once, since no line need be under way.
func (h *byHand) expired(e expiredError) error {
	h.s.screen.complain(e.Error())
	return nil
}

func (h *byHand) redoing(line string)        { h.s.screen.complain(history.Redacted(line)) }
func (*byHand) released(locks string) string { return "released these locks: " + locks }
func (h *byHand) closed() error              { return h.s.showEvents() }
