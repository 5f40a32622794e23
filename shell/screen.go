package shell

import (
	"bytes"
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

// screen is the only writer of standard output and standard error. Each of its
// writes is whole, so that answers, events, errors and regions never run into each
// other. Where both streams are terminals they are taken for one and the same.
type screen struct {
	mu       sync.Mutex // guards all that is written, and the fields below but paging
	out, err Output
	answers  answers // out's
	printer  render.Printer
	editor   line.Editor // nil unless by hand: it knows the line being typed
	pager    *pager      // nil unless by hand, by the person's wish
	manuals  *pager      // for help and pages of the manual; may be nil
	paging   atomic.Bool // the pager has the terminal
	flowing  atomic.Bool // an answer is printed as it comes
	shut     bool        // commands have no screen any more

	regions []*region // those that have drawn, from top to bottom; a region belongs to its command
	picture picture   // what the terminal shows of them
	keys    keyboard  // by hand
}

// answer prints a value on standard output. Without its pager it is an answer all
// the same.
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
	defer s.makeWay(s.out)()
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
		to.Bold = render.Overstrike // every pager knows it
		if err := to.Print(v); err != nil {
			return err
		}
	}
	return s.page(pager, b.Bytes())
}

// page shows a text with the pager, and without it if that cannot be run. It is
// called with mu held.
func (s *screen) page(p *pager, text []byte) error {
	s.paging.Store(true)
	defer s.paging.Store(false)
	err := p.show(text)
	if failed := (noPagerError{}); errors.As(err, &failed) {
		if _, err := s.out.W.Write(text); err != nil {
			return err
		}
	}
	return err
}

// event prints a value that nobody waits for, above the line being typed.
func (s *screen) event(v render.Value) error {
	var b bytes.Buffer
	if err := s.printer.To(&b).Print(v); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.makeWay(s.out)()
	if s.editor != nil {
		return s.editor.Notify(b.String())
	}
	_, err := s.out.W.Write(b.Bytes())
	return err
}

// refresh has the editor show the prompt as it is now.
func (s *screen) refresh() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.editor != nil {
		s.editor.Refresh()
	}
}

// complain prints a line on standard error, broken between words where a terminal would
// break it within one. Nothing is left to do when that fails.
func (s *screen) complain(text string) {
	text, fresh := strings.CutPrefix(text, "\n") // on a line of its own
	text = batch.OneLine(text)
	if s.err.TTY {
		text = render.Wrap(render.Safe(text), s.err.columns(), "")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if fresh && !s.keys.unseen {
		text = "\n" + text
	}
	s.answers.flush()
	defer s.makeWay(s.err)()
	if s.editor != nil && s.err.TTY {
		_ = s.editor.Notify(text + "\n")
		return
	}
	_, _ = io.WriteString(s.err.W, text+"\n")
}

// errShut is what a command gets that prints after the shell has gone on without it.
var errShut = errors.New("the shell no longer waits for this command")

// shutOut takes the screen from commands. What they print later is not shown, and
// what they have drawn in place is taken away.
func (s *screen) shutOut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shut = true
	s.regions = nil
	_ = s.redraw() // nothing is left to do when that fails
}

func (s *screen) isShut() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shut
}

// front is the screen as commands see it.
type front struct{ s *Shell }

// Print shows an answer after the events that came before it on the wire.
func (f front) Print(v render.Value) error {
	if f.s.screen.isShut() {
		return errShut
	}
	events := f.s.showEvents()
	if _, ok := v.(*render.Stream); ok && f.s.cfg.Format == render.JSON { // which is one value: events wait for its end
		f.s.eventMu.Lock()
		defer f.s.eventMu.Unlock()
	}
	return errors.Join(events, exit.Unwritten(f.s.screen.answer(v)))
}

// Note is part of commands.Screen.
func (f front) Note(text string) {
	if !f.s.cfg.Quiet {
		f.Alert(text)
	}
}

// Alert is part of commands.Screen. With stty tostop it would stop us while a
// command under a lock has the terminal, and the lock would be lost.
func (f front) Alert(text string) {
	_ = tty.Quietly(func() error { // nothing is left to do when it fails
		if !f.s.screen.isShut() {
			f.s.screen.complain(text)
		}
		return nil
	})
}

// errNobody is what a command gets that asks where nobody is.
var errNobody = errors.New("cannot ask for input outside the interactive shell")

// AskUnseen is part of commands.Screen.
func (f front) AskSecret(ctx context.Context, question string) (string, error) {
	if f.s.screen.editor == nil || f.s.screen.isShut() {
		return "", errNobody
	}
	answer, err := f.s.screen.editor.AskUnseen(ctx, render.Safe(question))
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return answer, err
}

// Lend is part of commands.Screen.
func (f front) Lend(do func() error) error {
	f.s.lent.Store(true)
	defer f.s.lent.Store(false)
	f.s.screen.lend()
	f.s.screen.paging.Store(true)
	defer f.s.screen.paging.Store(false)
	return do()
}

// Ask is part of commands.Screen. The answer is no unless it is yes.
func (f front) Ask(ctx context.Context, question string) (bool, error) {
	if f.s.screen.editor == nil || f.s.screen.isShut() {
		return false, errNobody
	}
	answer, err := f.s.screen.editor.Ask(ctx, f.s.screen.question(render.Safe(question)))
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

// watchEvents shows events as they come while a person uses the shell, also while a
// command under a lock has the terminal: stty tostop must not stop us then.
func (s *Shell) watchEvents(ctx context.Context) {
	for {
		select {
		case <-s.cfg.Session.EventsReady():
			if s.lent.Load() { // they are shown when the line has ended
				continue
			}
			if err := tty.Quietly(s.showEvents); err != nil {
				s.report("", err)
			}
			s.eventMu.Lock()
			if !s.busy {
				s.tellUnreached(nil)
			}
			s.eventMu.Unlock()
			s.screen.refresh() // the state may be another one
		case text := <-s.cfg.Notices:
			s.screen.complain(text)
		case <-ctx.Done():
			return
		}
	}
}

// showEvents prints the events that have come in, as far as they are to be shown. Its
// error says too that the session has expired, where a line may rely on ephemeral
// znodes that are gone.
func (s *Shell) showEvents() error { return s.show(s.cfg.Session.Events) }

func (s *Shell) show(take func() []zkconn.Event) error {
	s.eventMu.Lock()
	defer s.eventMu.Unlock()
	var errs []error
	for _, e := range take() {
		if form := eventForm(s.watches.Load()); form != eventsOff && s.policy.shows(e) {
			errs = append(errs, exit.Unwritten(s.screen.event(event(e, form))))
		}
		if e.Session() && e.State == zkconn.Expired {
			errs = append(errs, s.policy.expired(expiredError{e.Gone}))
		}
	}
	return errors.Join(errs...)
}

// expiredError says that the session ended and another one took its place.
type expiredError struct{ gone []string }

func (e expiredError) Error() string {
	gone := "its watches"
	if len(e.gone) > 0 {
		gone += " and its ephemeral znodes " + strings.Join(e.gone, ", ")
	}
	return "the session expired, and " + gone + " are gone; zksh continues in a new session"
}

// Unwrap gives the code, for the exit status.
func (e expiredError) Unwrap() error { return zkconn.SessionExpired }

// event is a watch or session event as it is printed: zkCli's block, or a line.
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
