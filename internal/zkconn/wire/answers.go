package wire

import "time"

// answers is a sample of the answers on one connection, answers to pings included. For each of
// them it holds the time when the request was sent and the time when the answer arrived.
type answers []struct{ sent, came time.Time }

// The recorded answers, except the newest, are at least 1/thinning of the session timeout apart.
// So maxAnswers of them cover nearly half of the session timeout.
const (
	maxAnswers = 16
	thinning   = 32
)

// add records the newest answer. To limit the size of the sample, it drops the previous answer if
// that one arrived shortly after its predecessor.
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

// AnsweredBy returns the send time of the latest known request that had been answered before the
// given moment, and the latest time at which its answer can have arrived. If no such request is
// known, it returns the send time of the connect request, and the moment itself.
func (k *Conn) AnsweredBy(moment time.Time) (sent, came time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	sent, came = k.Asked, moment
	for _, a := range k.answers {
		if !a.came.After(moment) && a.sent.After(sent) {
			sent, came = a.sent, a.came
		}
	}
	return sent, came
}
