package zkconn

import (
	"context"
	"errors"
	"time"
)

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

// Begun is when the present connection had been asked for; zero without one.
func (p *Pinned) Begun() time.Time {
	return look(p.l, func() (begun time.Time) {
		if p.l.cur != nil && p.l.gen == p.gen {
			begun = p.l.cur.asked
		}
		return begun
	})
}

// Heard is the latest sending on the present connection that had been answered
// by a moment, the connect request's at the least, and when its answer had come
// at the latest. All are zero without a connection.
func (p *Pinned) Heard(by time.Time) (sent, came time.Time) {
	p.l.mu.Lock()
	defer p.l.mu.Unlock()
	k := p.l.cur
	if k == nil || p.l.gen != p.gen {
		return sent, came
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	sent, came = k.asked, by
	for _, a := range k.answers {
		if !a.came.After(by) && a.sent.After(sent) {
			sent, came = a.sent, a.came
		}
	}
	return sent, came
}

// Standalone tells whether the server of the present connection is one without
// others: those of an ensemble keep their list in the configuration. It is asked
// once for each connection. Where the answer is a refusal it is no.
func (p *Pinned) Standalone(ctx context.Context) (bool, error) {
	k, _, err := p.connection(ctx, "")
	if err != nil {
		return false, err
	}
	k.mu.Lock()
	known, alone := k.known, k.alone
	k.mu.Unlock()
	if known {
		return alone, nil
	}
	config := bind(ctx, k.l, "", getData(ConfigPath, nil))
	k.send(config.call)
	n, err := config.Wait(ctx)
	if err != nil && !errors.As(err, new(*Error)) {
		return false, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.known, k.alone = true, err == nil && len(n.Data) == 0
	return k.alone, nil
}
