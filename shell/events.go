package shell

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/tty"
	"github.com/zksh/zksh/internal/zkconn"
)

// watchEvents shows events as they come while a person uses the shell, also while a
// command under a lock has the terminal: stty tostop must not stop us then.
func (s *Shell) watchEvents(ctx context.Context) {
	for {
		select {
		case <-s.cfg.Session.EventsReady():
			if err := tty.Quietly(s.showEvents); err != nil {
				s.report("", err)
			}
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
func (s *Shell) showEvents() error {
	s.eventMu.Lock()
	defer s.eventMu.Unlock()
	var errs []error
	for _, e := range s.cfg.Session.Events() {
		if s.watches.Load() && s.policy.shows(e) {
			errs = append(errs, wrapWrite(s.screen.event(event(e))))
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
	also := ""
	if len(e.gone) > 0 {
		also = ", and so are its ephemeral znodes " + strings.Join(e.gone, ", ")
	}
	return "the session expired and its watches are gone" + also + "; a new session goes on"
}

// Unwrap gives the code, for the exit status.
func (e expiredError) Unwrap() error { return zkconn.SessionExpired }

// event is a watch or session event as it is printed: zkCli's block.
func event(e zkconn.Event) render.Answer {
	return render.Answer{Words: fmt.Sprintf("\nWATCHER::\n\n%s\n", e), JSON: struct {
		Event string   `json:"event"`
		State string   `json:"state"`
		Path  string   `json:"path,omitempty"`
		Gone  []string `json:"gone,omitempty"`
	}{string(e.Type), string(e.State), e.Path, e.Gone}}
}

// writeError says that answers cannot be written, which ends a batch.
type writeError struct{ cause error }

func (e *writeError) Error() string { return "cannot write the answer: " + e.cause.Error() }

// Unwrap gives the cause.
func (e *writeError) Unwrap() error { return e.cause }

func wrapWrite(err error) error {
	if err == nil {
		return nil
	}
	return &writeError{err}
}
