package wire

import "time"

// answers are the answers that have come on one connection, pings' too, thinned
// out: when each came, and when what it answers had been sent.
type answers []struct{ sent, came time.Time }

// maxAnswers, of which all but the newest are a share of the session timeout
// apart, reach back for nearly half of it.
const (
	maxAnswers = 16
	thinning   = 32
)

// add takes the newest answer. It takes the place of the one before if that was
// close behind its own predecessor.
func (a *answers) add(sent, came time.Time, timeout time.Duration) {
	old := *a
	switch n := len(old); {
	case n > 1 && old[n-1].came.Sub(old[n-2].came) < timeout/thinning:
		old = old[:n-1]
	case n == maxAnswers:
		old = append(answers{}, old[1:]...)
	}
	*a = append(old, struct{ sent, came time.Time }{sent, came})
}

// AnsweredBy returns the latest sending that had been answered by a moment, the connect request's at
// the least, and when its answer had come at the latest.
func (k *Conn) AnsweredBy(by time.Time) (sent, came time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	sent, came = k.Asked, by
	for _, a := range k.answers {
		if !a.came.After(by) && a.sent.After(sent) {
			sent, came = a.sent, a.came
		}
	}
	return sent, came
}
