package wire

import (
	"math/rand/v2"
	"time"
)

// tooSoon is how long a connection must last to count as one that lasted.
const tooSoon = time.Second

// The pause before a pass that follows a failed one, or a connection that did not last,
// grows from shortPause to longPause. A random part of it, up to pauseJitter, is left out,
// so that clients which lost a server together do not return together.
const (
	shortPause  = 200 * time.Millisecond
	longPause   = time.Second
	pauseJitter = shortPause / 2
)

// pause waits for as long as the next pass must wait. The wait becomes shorter when a
// connection becomes urgent meanwhile.
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

// delay is how long the next pass must wait. Only connections that do not last make an
// urgent one wait longer: a server that drops every connection must not be stormed.
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

// expedite shortens a pause that is under way if a connection is urgent by now.
func (h *hosts) expedite() {
	select {
	case h.hurry <- struct{}{}:
	default:
	}
}

// urgent reports whether a connection is wanted without delay: something relies on the
// session, or somebody waits for it. Once the session is likely to have expired no delay
// makes that worse, and servers that are gone for long are asked less often.
func (l *Link) urgent() bool {
	if l.guards.Load() == 0 && !l.handler.Relies() {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Since(l.lastSent) < l.timeout
}
