package wire

import (
	"math/rand/v2"
	"time"
)

// tooSoon is the shortest time that a connection must last in order to reset the pause.
const tooSoon = time.Second

// The pause before a pass that follows a failed pass, or a short connection, grows from shortPause
// to longPause. It is shortened at random, by up to pauseJitter, so that clients that lost a
// server at the same time do not all return at once.
const (
	shortPause  = 200 * time.Millisecond
	longPause   = time.Second
	pauseJitter = shortPause / 2
)

// pause waits for the delay before the next pass. The delay becomes shorter when a connection
// becomes urgent meanwhile.
func (h *hosts) pause() {
	begin := time.Now()
	for {
		select {
		case <-time.After(time.Until(begin.Add(h.delay()))):
			return
		case <-h.hurry:
		case <-h.ctx.Done():
			return
		}
	}
}

// delay returns the pause before the next pass. If a connection is urgent, only short connections
// make it grow, so that a server that drops every connection is not flooded.
func (h *hosts) delay() time.Duration {
	urgent := h.urgent()
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.brief
	if !urgent {
		n += h.failed
	} else if h.failed > 0 {
		n = max(n, 1)
	}
	if n == 0 {
		return 0
	}
	return min(shortPause<<min(n-1, 10), longPause) - rand.N(pauseJitter)
}

// expedite shortens the current pause if a connection has become urgent.
func (h *hosts) expedite() {
	select {
	case h.hurry <- struct{}{}:
	default:
	}
}

// urgent reports whether a connection is needed without delay, because something relies on the
// session or waits for it. Once the session has probably expired, a delay does no more harm, so
// servers that have been down for long are tried less often.
func (l *Link) urgent() bool {
	if l.guards.Load() == 0 && !l.handler.Relies() {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Since(l.lastSent) < l.timeout
}
