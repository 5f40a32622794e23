package shell

import (
	"context"
	"sync"
	"time"

	"github.com/zksh/zksh/commands"
)

// noteConnection waits for the connection and prints the parameters of TLS and Kerberos, if
// Config.Verbose is set. A failure to connect is reported by the first command that needs the
// connection, not by noteConnection.
func (s *Shell) noteConnection(ctx context.Context) {
	if s.cfg.Verbose && s.cfg.Session.Ready(ctx) == nil {
		commands.NoteConnection(s.env)
	}
}

// noteConnectionDuring calls noteConnection while run runs. If no server can be reached, the command
// that run runs has then waited no longer than without Config.Verbose.
func (s *Shell) noteConnectionDuring(ctx context.Context, run func() error) error {
	ctx, cancel := context.WithCancel(ctx)
	var noting sync.WaitGroup
	noting.Go(func() { // ends when run has returned
		defer s.restoreTerminalOnPanic()
		s.noteConnection(ctx)
	})
	defer noting.Wait()
	defer cancel()
	return run()
}

// warnAboutCertificates prints a warning for each certificate that expires soon. It checks them
// only once after each connect to an ensemble.
func (s *Shell) warnAboutCertificates() {
	info, now := s.cfg.Session.Info(), s.cfg.Session.Ensemble()
	if info.Agreed == nil || now == s.certsChecked {
		return
	}
	s.certsChecked = now
	for _, w := range info.Agreed.Warnings(time.Now()) {
		s.env.Screen.Note("warning: " + w)
	}
}

// warnAboutTicket prints a warning, once for each ticket, if the Kerberos ticket ends soon. It is
// called only at the prompt: single commands rarely connect again.
func (s *Shell) warnAboutTicket() {
	id := s.cfg.Session.Info().Identity
	if id == nil {
		return
	}
	if w := id.NewWarning(time.Now()); w != "" {
		s.env.Screen.Note("warning: " + w)
	}
}
