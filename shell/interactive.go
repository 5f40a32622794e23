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

// interactive is the policy for lines that a person types at the prompt.
type interactive struct {
	s      *Shell
	editor line.Editor
	status int // exit status of the last line
}

// Editor returns a line editor for the terminal to which in and out are connected. It reads the
// variables TERM and NO_COLOR with getenv. If there is a history file, the user can recall the
// lines in it.
func (s *Shell) Editor(in, out *os.File, getenv func(string) string) line.Editor {
	var earlier []history.Entry
	if s.cfg.History != nil {
		var err error
		if earlier, err = s.cfg.History.Entries(); err != nil {
			s.report("", err)
		}
	}
	s.recall.Add(earlier...)
	s.screen.echo = keyEcho{in: in, turnOff: tty.HideKeys}
	assistant := line.Assistant{Open: syntax.OpenQuote, Complete: s.completer.complete, Recall: s.recall,
		Recallable: s.recallable}
	if !s.cfg.NoHints {
		assistant.Suggest, assistant.Paint = s.suggest, s.completer.paint
	}
	return line.New(in, out, getenv, assistant, s.cfg.Interrupts)
}

// RunEditor runs the lines that a person types, until the person quits, input ends or ctx is done.
// It then shuts the shell down, closes the editor, and returns the exit status of the last line.
func (s *Shell) RunEditor(ctx context.Context, e line.Editor) int {
	defer s.restoreTerminalOnPanic()
	h := &interactive{s: s, editor: e}
	s.setPolicy(h)
	s.screen.mu.Lock()
	s.screen.editor = e
	s.screen.mu.Unlock()
	nodes := newNodeCache(sessionNodes{s.cfg.Session}, e.Refresh, s.restoreTerminalOnPanic)
	s.completer.nodes = nodes
	if !s.cfg.Quiet {
		h.banner()
	}
	ctx, stop := context.WithCancelCause(ctx)
	s.screen.pager, s.screen.manuals = s.newPager(ctx, s.cfg.Pager), s.newPager(ctx, s.cfg.ManualPager)
	var watching sync.WaitGroup
	watching.Go(func() { // ends when stop is called below
		defer s.restoreTerminalOnPanic()
		s.watchEvents(ctx)
	})
	h.readLines(ctx)
	stop(nil)
	watching.Wait()
	nodes.close()
	if err := context.Cause(ctx); errors.Is(err, exit.ErrTerminated) {
		h.status = exit.Status(err)
	}
	status := s.shutDown(h.status)
	if err := e.Close(); err != nil {
		s.report("", err)
	}
	return status
}

func (h *interactive) banner() {
	text := fmt.Sprintf("Connecting to %s\nWelcome to ZooKeeper! This is zksh %s; help lists the commands.\n%s",
		h.s.cfg.Session.Servers().Spec, h.s.cfg.Version, h.s.cfg.Welcome)
	text = render.WrapText(text, commands.HelpWidthIn(h.s.screen.out.columns()))
	if err := h.s.screen.event(render.Answer{Words: text, JSON: text}); err != nil {
		h.s.report("", err)
	}
}

func (h *interactive) readLines(ctx context.Context) {
	for {
		text, err := h.editor.ReadLine(ctx, h.prompt)
		switch {
		case errors.Is(err, line.ErrInterrupted):
			continue
		case errors.Is(err, line.ErrTooLong):
			h.s.report("", err)
			h.status = commands.StatusUsage
			continue
		case errors.Is(err, line.ErrHungUp): // the terminal is gone, but SIGHUP may not have arrived yet
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
		text = syntax.OnOneLine(text) // the history stores one line per command
		entry, number := h.s.entry(text), h.s.lines.Len()
		var cmd string
		// the user has seen the notices; only new losses end a script that the line runs with
		// source
		_ = h.s.lostLocks()
		h.s.beginLine()
		h.s.screen.hideKeys(true)
		interrupted, err := h.s.runLineInterruptible(ctx, func(ctx context.Context) (err error) {
			cmd, err = h.s.runLine(ctx, text)
			return err
		})
		h.s.screen.hideKeys(false)
		if errors.Is(err, exit.ErrQuit) {
			entry.Status = commands.StatusOK
			h.remember(entry)
			return
		}
		if h.s.abandoned != nil {
			h.status = exit.Status(err)
			entry.Status = h.status
			h.remember(entry)
			return
		}
		h.s.completer.nodes.expireAll()
		if interrupted || errors.Is(err, line.ErrInterrupted) { // discard the remaining lines of a paste
			h.editor.Discard()
		}
		err = errors.Join(err, h.s.showEvents())
		h.s.warnAboutCertificates()
		h.s.warnAboutTicket()
		h.status = exit.Status(err)
		entry.Status = h.status
		h.s.lines.Finish(number, h.status)
		h.remember(entry)
		h.s.report(cmd, err)
		if after := h.s.cfg.AfterLine; after != nil {
			_, err := h.s.runInterruptible(ctx, func(ctx context.Context) error {
				return after(ctx, h.s.env, cmd, err)
			})
			h.s.report("", err)
		}
		h.s.endLine(err)
	}
}

// beginLine records that a line is running. Until endLine is called, the shell does not report that
// no server can be reached, because the error of the line usually says so.
func (s *Shell) beginLine() {
	s.eventMu.Lock()
	defer s.eventMu.Unlock()
	s.lineRunning = true
}

// endLine records that the line has finished with the error lineErr, or nil. If no server can be
// reached, endLine prints the reason, unless lineErr already contains it.
func (s *Shell) endLine(lineErr error) {
	s.eventMu.Lock()
	defer s.eventMu.Unlock()
	s.reportUnreached(lineErr)
	s.lineRunning = false
}

// reportUnreached prints why no server can be reached, unless lineErr already contains the reason.
// It prints the reason once at the start and once after each loss of the connection. The caller
// must hold eventMu.
func (s *Shell) reportUnreached(lineErr error) {
	if why := s.cfg.Session.Unreached(); why != nil && !errors.As(lineErr, new(*zkconn.NoServerError)) {
		s.env.Screen.Note(why.Error() + "; zksh keeps trying" + s.cfg.NoServerHint)
	}
}

// remember adds a line to those that the user can recall, and appends it to the history file.
func (h *interactive) remember(e history.Entry) {
	s := h.s
	s.recall.Add(e)
	if s.cfg.History == nil || strings.ContainsAny(e.Line, "\r\n") {
		return
	}
	if err := s.cfg.History.Append(e); err != nil {
		s.report("", fmt.Errorf("the history is no longer saved: %w", err))
		s.cfg.History = nil
	}
}

// maxFolderWidth is the maximum width of the current folder in the prompt, in terminal columns.
const maxFolderWidth = 24

// prompt returns a prompt like zkCli's, with the connect string or the name of the cluster, the
// state of the connection and the number of the next line. It adds the number of locks, the number
// of lines in an open transaction, and the current folder unless that is the root.
func (h *interactive) prompt() line.Prompt {
	s := h.s
	state, locks, txn := s.cfg.Session.State(), "", ""
	if s.cfg.Locks != nil {
		held, gone := s.cfg.Locks.Held()
		locks = countLocks(held, "") + countLocks(gone, " lost")
	}
	cluster := s.cfg.Session.Cluster()
	if lines, open := s.transactions.Joined(); open {
		txn = fmt.Sprintf(" (txn %d)", lines)
	}
	insecure := s.cfg.Session.Secure().TLS.Gap()
	if insecure != "" {
		insecure = ", " + insecure
	}
	folder, moved := s.folder.here()
	if moved && folder != "/" {
		folder = " " + render.CutMiddle(render.Safe(folder), maxFolderWidth, maxFolderWidth/2)
	} else {
		folder = ""
	}
	where := fmt.Sprintf("%s(%s%s%s)%s%s", cmp.Or(cluster, s.serverName()), state, insecure, locks, txn, folder)
	return line.Prompt{
		Text:  fmt.Sprintf("[zk: %s %d] ", where, s.lines.Len()),
		Color: s.colorOf(cluster),
		Alert: state != zkconn.StateConnected || insecure != "", Status: h.status,
	}
}

// serverName returns what the prompt shows instead of the name of a cluster: the connect string, or the
// name of the file in the sandbox.
func (s *Shell) serverName() string {
	if s.cfg.Loaded != "" && s.inSandbox() {
		return render.CutMiddle(render.Safe(s.cfg.Loaded), maxFolderWidth, maxFolderWidth/2)
	}
	return s.cfg.Session.Servers().Spec
}

func (s *Shell) colorOf(cluster string) string {
	for _, c := range s.cfg.Clusters {
		if c.Name == cluster {
			return c.Color
		}
	}
	return ""
}

func countLocks(n int, suffix string) string {
	switch n {
	case 0:
		return ""
	case 1:
		return ", 1 lock" + suffix
	}
	return fmt.Sprintf(", %d locks%s", n, suffix)
}

func (*interactive) mode() commands.Mode { return commands.ByHand }

// wording returns the text of an error. For a usage error, it adds a line that names the help of the
// command, and a line with an example.
func (*interactive) wording(_ string, err error) []string {
	var usage *commands.UsageError
	switch {
	case errors.Is(err, exit.ErrInterrupted):
		return []string{"\n" + err.Error()} // start a new line, because the terminal has echoed ^C
	case errors.As(err, &usage) && usage.Command != nil:
		return []string{usage.Problem, "see: " + usage.Help(), "example: " + usage.Command.Examples[0]}
	}
	return []string{err.Error()}
}

func (h *interactive) number() int { return h.s.number }

func (*interactive) shows(zkconn.Event) bool { return true }

// expired prints that the session has expired, and returns nil. It prints the error immediately,
// because there may be no running command that could return it.
func (h *interactive) expired(e expiredError) error {
	h.s.screen.complain(e.Error())
	return nil
}

func (h *interactive) redoing(line string)        { h.s.screen.complain(history.Redacted(line)) }
func (*interactive) released(locks string) string { return "released these locks: " + locks }
func (h *interactive) closed() error              { return h.s.showEvents() }
func (*interactive) conclude(error) error         { return nil }
