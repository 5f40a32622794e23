package wire

import "time"

// answers records, for a sample of the answers on one connection, pings included, when the request
// was sent and when the answer came.
type answers []struct{ sent, came time.Time }

// All answers but the newest are 1/thinning of the session timeout apart, so maxAnswers of them
// cover nearly half of it.
const (
	maxAnswers = 16
	thinning   = 32
)

// add adds the newest answer. It replaces the one before if that came shortly after its own
// predecessor.
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

// AnsweredBy returns the latest known send time of a request that had been answered by a moment,
// and the latest time at which its answer can have come. If no such request is known, it returns
// the send time of the connect request, and the moment.
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
