package wire

import "time"

// answers is a sample of the requests on one connection, including pings, whose answers have
// arrived. For each, it contains the time when the request was sent and the time when its answer
// came.
type answers []struct{ sent, came time.Time }

// Size of the sample. maxAnswers is the maximum number of answers. thinning determines the minimum
// time between two of them: the session timeout divided by thinning. A full sample therefore covers
// nearly half of the session timeout.
const (
	maxAnswers = 16
	thinning   = 32
)

// add records the newest answer. To limit the size of the sample, it replaces the previous answer
// if that one arrived shortly after the one before it.
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

// AnsweredBy returns two times of the latest recorded request that had been answered before the
// given moment: when the request was sent, and when its answer had arrived at the latest. If there
// is no such request, it returns the send time of the connect request, and the moment itself.
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
