package shell

import (
	"context"
	"time"

	"github.com/zksh/zksh/commands"
)

// verbose waits for the connection and tells what it has agreed on by TLS. Why there
// is none is told by whoever needs it.
func (s *Shell) verbose(ctx context.Context) {
	if s.cfg.Verbose && s.cfg.Session.Ready(ctx) == nil {
		commands.NoteAgreed(s.env)
	}
}

// warnOfCertificates tells, once for each session, of certificates that end soon.
func (s *Shell) warnOfCertificates() {
	agreed, now := s.cfg.Session.Info().Agreed, s.cfg.Session.Stay()
	if agreed == nil || now == s.warned {
		return
	}
	s.warned = now
	for _, w := range agreed.Warnings(time.Now()) {
		s.env.Screen.Note("warning: " + w)
	}
}
