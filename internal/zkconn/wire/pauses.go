package wire

import (
	"math/rand/v2"
	"time"
)

// tooSoon is the minimum duration of a connection. If a connection ends sooner, zksh pauses
// before it looks for a server again.
const tooSoon = time.Second

// After a failed pass over the server list, or a connection that ended within tooSoon, zksh
// pauses before the next pass. Pauses grow from shortPause to longPause. Each is shortened by a
// random time of up to pauseJitter, so that clients that lost a server at the same time do not
// all return at once.
const (
	shortPause  = 200 * time.Millisecond
	longPause   = time.Second
	pauseJitter = shortPause / 2
)

// pause waits before the next pass over the servers. delay determines how long. If a connection
// becomes urgent in the meantime, pause shortens the wait.
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

// delay returns the length of the pause before the next pass. While a connection is urgent,
// failed passes do not make the pause grow. Connections that end within tooSoon still do, so that
// zksh does not flood a server that drops every connection.
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

// expedite makes a running pause check again whether a connection is urgent. If it is, the pause
// becomes shorter.
func (h *hosts) expedite() {
	select {
	case h.hurry <- struct{}{}:
	default:
	}
}

// urgent reports whether a connection is needed without delay, because something depends on the
// session or waits for it. It returns false once the session has probably expired, because a delay
// then does no more harm. As a result, servers that have been down for long are tried less often.
func (l *Link) urgent() bool {
	if l.guards.Load() == 0 && !l.handler.Relies() {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Since(l.lastSent) < l.timeout
}
