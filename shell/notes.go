package shell

import "time"

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
