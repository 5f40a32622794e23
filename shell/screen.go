package shell

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/tty"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/shell/batch"
	"github.com/zksh/zksh/shell/exit"
	"github.com/zksh/zksh/shell/line"
)

// screen is the only writer to standard output and standard error. It writes each answer, event and
// error as a unit, so that their texts are never mixed. If both streams are terminals, screen
// assumes that they are the same one.
type screen struct {
	mu        sync.Mutex // held during each write; guards the fields below, except the atomic ones
	out, err  Output
	answers   answers // buffering writer to which out.W refers
	printer   render.Printer
	editor    line.Editor // prints events and remarks above the line being typed; nil unless interactive
	asker     line.Editor // asks for secrets in a one-shot command; nil until it is needed
	pager     *pager      // shows long answers; nil unless interactive and configured
	manuals   *pager      // shows help and manual pages, or nil if they are not paged
	paging    atomic.Bool // whether a pager or another program has the terminal and handles Ctrl-C
	streaming atomic.Bool // whether a streamed answer is being printed
	silent    bool        // whether the bell never rings
	muted     bool        // whether the shell has abandoned its commands and drops their output

	regions []*region // regions that have been drawn, from top to bottom
	picture picture   // lines that the regions occupy on the terminal
	echo    keyEcho   // echo of the terminal; used only interactively
}

// answer prints a value on standard output, in the pager if it is long. If the pager cannot be run,
// answer prints the value without it. In this case, it reports the error of the pager but does not
// fail.
func (s *screen) answer(v render.Value) error {
	var err error
	if stream, ok := v.(*render.Stream); ok {
		err = s.stream(stream)
	} else {
		err = s.printOrPage(v)
	}
	if failed := (noPagerError{}); errors.As(err, &failed) {
		s.complain(failed.Error())
		return nil
	}
	return err
}

func (s *screen) printOrPage(v render.Value) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.hideRegions(s.out)()
	pager := s.pager
	if isHelp(v) {
		pager = s.manuals
	}
	if pager == nil {
		return s.printer.Print(v)
	}
	var b bytes.Buffer
	to := s.printer.To(&b)
	if err := to.Print(v); err != nil {
		return err
	}
	if pager.fits(b.Bytes()) {
		_, err := s.out.W.Write(b.Bytes())
		return err
	}
	if _, styled := v.(render.Styled); styled && to.Bold != nil {
		b.Reset()
		to.Bold = render.Overstrike // every pager understands overstriking
		if err := to.Print(v); err != nil {
			return err
		}
	}
	return s.page(pager, b.Bytes())
}

// page shows text in a pager, or prints the text if the pager cannot be run. The caller must hold
// mu.
func (s *screen) page(p *pager, text []byte) error {
	defer s.lendToPager()()
	err := p.show(text)
	if failed := (noPagerError{}); errors.As(err, &failed) {
		if _, err := s.out.W.Write(text); err != nil {
			return err
		}
	}
	return err
}

// lendToPager gives the terminal to a pager, which then handles Ctrl-C, until takeBack is called. The
// caller must hold mu during that time.
func (s *screen) lendToPager() (takeBack func()) {
	hideAgain := s.echo.lend()
	s.paging.Store(true)
	return func() {
		s.paging.Store(false)
		hideAgain()
	}
}

// event prints a value that is not an answer to a command, such as a watch event. It prints the
// value above the line being typed.
func (s *screen) event(v render.Value) error {
	var b bytes.Buffer
	if err := s.printer.To(&b).Print(v); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.hideRegions(s.out)()
	if s.editor != nil {
		return exit.AsWriteError(s.editor.Notify(b.String()))
	}
	_, err := s.out.W.Write(b.Bytes())
	return err
}

// refresh makes the line editor draw the current prompt.
func (s *screen) refresh() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.editor != nil {
		s.editor.Refresh()
	}
}

// complain prints a line on standard error. On a terminal, it wraps the line between words. If the
// text begins with \n, it is printed on a new line of the terminal. complain ignores a failed
// write, because it cannot report the failure anywhere else.
func (s *screen) complain(text string) {
	text, fresh := strings.CutPrefix(text, "\n")
	text = zkconn.HidePassword(batch.OneLine(text))
	if s.err.TTY {
		text = render.Wrap(render.Safe(text), s.err.columns(), "")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if fresh && !s.echo.notEchoed {
		text = "\n" + text
	}
	s.answers.flush()
	defer s.hideRegions(s.err)()
	if s.editor != nil && s.err.TTY {
		_ = s.editor.Notify(text + "\n")
		return
	}
	_, _ = io.WriteString(s.err.W, text+"\n")
}

// errMuted is returned to a command that prints after the shell has abandoned it.
var errMuted = errors.New("the shell no longer waits for this command")

// mute removes the regions of commands from the terminal, and makes the screen drop everything
// that commands print afterwards.
func (s *screen) mute() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.muted = true
	s.regions = nil
	_ = s.redraw() // a failed write cannot be reported
}

func (s *screen) isMuted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.muted
}

// commandScreen is the commands.Screen of all commands.
type commandScreen struct{ s *Shell }

var _ commands.Screen = commandScreen{}

// Print prints an answer, after the events that the server sent before it.
func (f commandScreen) Print(v render.Value) error {
	if f.s.screen.isMuted() {
		return errMuted
	}
	events := f.s.showEvents()
	f.s.tracing.settle()
	// a stream is a single JSON value, so events must wait until it ends
	if _, ok := v.(*render.Stream); ok && f.s.cfg.Format == render.JSON {
		f.s.eventMu.Lock()
		defer f.s.eventMu.Unlock()
	}
	return errors.Join(events, f.s.screen.answer(v))
}

// Note prints a remark on standard error, unless the shell is quiet.
func (f commandScreen) Note(text string) {
	if !f.s.cfg.Quiet {
		f.Alert(text)
	}
}

// Alert prints a message on standard error. It uses tty.Quietly, because after stty tostop, a
// background process that writes to the terminal is stopped. zksh is in the background while a
// command under a lock has the terminal. If zksh were stopped, the lock would be lost.
func (f commandScreen) Alert(text string) {
	_ = tty.Quietly(func() error { // a failed write cannot be reported
		if !f.s.screen.isMuted() {
			f.s.screen.complain(text)
		}
		return nil
	})
}

// errNotInteractive is returned to a command that asks a question outside the interactive shell.
var errNotInteractive = errors.New("cannot ask for input outside the interactive shell")

// AskSecret asks for a secret and does not show the typed answer. At the end of input, it returns
// an empty string.
func (f commandScreen) AskSecret(ctx context.Context, question string) (string, error) {
	editor := f.s.screen.secretEditor(f.s.policy.mode(), f.s.cfg.Streams)
	if editor == nil || f.s.screen.isMuted() {
		return "", errNotInteractive
	}
	defer f.s.screen.restoreEcho()() // the editor sets the modes of the terminal
	answer, err := editor.AskUnseen(ctx, render.Safe(question))
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return answer, err
}

// secretEditor returns the editor that asks for secrets: the one of the prompt or, for a one-shot
// command on a terminal, a plain one. It returns nil if there is nobody to ask.
func (s *screen) secretEditor(mode commands.Mode, streams commands.Streams) line.Editor {
	if s.editor == nil && s.asker == nil && mode == commands.OneShot && streams.OnTerminal() {
		// the plain editor leaves the modes of the terminal alone until it asks
		dumb := func(string) string { return "" }
		s.asker = line.New(streams.In, streams.Err, dumb, line.Assistant{}, nil)
	}
	return cmp.Or(s.editor, s.asker)
}

// Lend calls run, which runs a program on the terminal. Until run returns, events are deferred, and
// Ctrl-C reaches only the program.
func (f commandScreen) Lend(run func() error) error {
	f.s.terminalLent.Store(true)
	defer f.s.terminalLent.Store(false)
	defer f.s.screen.restoreEcho()()
	f.s.screen.paging.Store(true)
	defer f.s.screen.paging.Store(false)
	return run()
}

// ShowKeys turns the echo of the terminal on until hideAgain is called.
func (f commandScreen) ShowKeys() (hideAgain func()) { return f.s.screen.restoreEcho() }

// Ask asks a question and reports whether the answer is y or yes.
func (f commandScreen) Ask(ctx context.Context, question string) (bool, error) {
	if f.s.screen.editor == nil || f.s.screen.isMuted() {
		return false, errNotInteractive
	}
	defer f.s.screen.restoreEcho()() // the editor sets the modes of the terminal
	answer, err := f.s.screen.editor.Ask(ctx, f.s.screen.wrapQuestion(render.Safe(question)))
	if errors.Is(err, io.EOF) {
		return false, nil
	}
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes", err
}

// Progress shows the progress of a task, unless the shell is quiet.
func (f commandScreen) Progress(verb string) (update func(done, total int), end func()) {
	if f.s.cfg.Quiet {
		return func(int, int) {}, func() {}
	}
	return f.s.screen.progress(verb)
}

// Region returns a new region of the terminal.
func (f commandScreen) Region(on commands.Stream) commands.Region { return f.s.screen.region(on) }

// Bell rings the bell of the terminal.
func (f commandScreen) Bell() {
	s := f.s.screen
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err.TTY && !s.silent && !s.muted {
		_, _ = io.WriteString(s.err.W, "\a") // a failed write cannot be reported
	}
}

// watchEvents prints events and notices in the interactive shell as they arrive. It prints events
// with tty.Quietly for the same reason as Alert: zksh must not be stopped while a command under a
// lock has the terminal.
func (s *Shell) watchEvents(ctx context.Context) {
	for {
		select {
		case <-s.cfg.Session.EventsReady():
			if s.terminalLent.Load() { // the events are printed after the line has ended
				continue
			}
			if err := tty.Quietly(s.showEvents); err != nil {
				s.report("", err)
			}
			s.eventMu.Lock()
			if !s.lineRunning {
				s.reportUnreached(nil)
			}
			s.eventMu.Unlock()
			s.screen.refresh() // the prompt shows the state of the connection
		case text := <-s.cfg.Notices:
			// complain reports no error: nobody could read the report.
			_ = tty.Quietly(func() error { s.screen.complain(text); return nil })
		case <-ctx.Done():
			return
		}
	}
}

// showEvents prints the events received so far, if printwatches and the policy allow it. If the
// session has expired and the policy treats that as an error, showEvents returns the error.
func (s *Shell) showEvents() error { return s.show(s.cfg.Session.Events) }

func (s *Shell) show(take func() []zkconn.Event) error {
	s.eventMu.Lock()
	defer s.eventMu.Unlock()
	var errs []error
	for _, e := range take() {
		if form := eventForm(s.watches.Load()); form != eventsOff && s.policy.shows(e) {
			errs = append(errs, s.screen.event(event(e, form)))
		}
		if e.Session() && e.State == zkconn.Expired {
			errs = append(errs, s.policy.expired(expiredError{e.Gone}))
		}
	}
	return errors.Join(errs...)
}

// expiredError reports that the session has expired and that a new one has replaced it. ephemerals
// contains the paths of the ephemeral znodes of the old session.
type expiredError struct{ ephemerals []string }

func (e expiredError) Error() string {
	gone := "its watches"
	if len(e.ephemerals) > 0 {
		gone += " and its ephemeral znodes " + strings.Join(e.ephemerals, ", ")
	}
	return "the session expired, and " + gone + " are gone; zksh continues in a new session"
}

// Unwrap returns SessionExpired, which determines the exit status.
func (e expiredError) Unwrap() error { return zkconn.SessionExpired }

// event formats a watch or session event, either as a block like zkCli's or on one line.
func event(e zkconn.Event, form eventForm) render.Answer {
	words := fmt.Sprintf("\nWATCHER::\n\n%s\n", e)
	if form == eventsShort || form == eventsTimed {
		at := ""
		if form == eventsTimed {
			at = e.Received.Format(time.DateTime) + " "
		}
		words = fmt.Sprintf("WATCHER:: %s%s %s\n", at, e.Type, render.OneLine(e.Path))
		if e.Session() {
			words = fmt.Sprintf("WATCHER:: %s%s\n", at, e.State)
		}
	}
	return render.Answer{Words: words, JSON: struct {
		Event string   `json:"event"`
		State string   `json:"state"`
		Path  string   `json:"path,omitempty"`
		Zxid  int64    `json:"zxid,omitempty"`
		Gone  []string `json:"gone,omitempty"`
		Time  string   `json:"time"`
	}{string(e.Type), string(e.State), e.Path, e.Zxid, e.Gone, render.Time(e.Received)}}
}

func (s *screen) clearCommand() *commands.Command {
	return &commands.Command{
		Name: "clear", Group: "Shell", Effect: commands.Offline,
		Summary:  "clear the terminal, like Ctrl-L",
		Examples: []string{"clear"},
		Flags:    commands.NoFlags(func(context.Context, *commands.Env, []string) error { return s.clear() }),
	}
}

// clear clears the screen and its scrollback, if standard output is a terminal that understands
// control sequences.
func (s *screen) clear() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.out.TTY || s.out.Dumb {
		return nil
	}
	_, err := io.WriteString(s.out.W, "\x1b[H\x1b[2J\x1b[3J")
	return err
}
