package zkconn

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/secure"
)

// hosts walks over the addresses of a server list, as zk.HostProvider asks. A
// pass resolves every name once, so that addresses which move are found again,
// and tries every address twice, the first time for a short while: a server that
// is just starting may accept a connection and never answer on it.
type hosts struct {
	list     []string
	ctx      context.Context // of looking up names
	limit    time.Duration   // of looking them all up
	resolve  func(ctx context.Context, host string) ([]string, error)
	onFailed func()        // a whole pass found no server
	urgent   func() bool   // reports whether a connection is wanted without delay
	hurry    chan struct{} // capacity 1: full when urgent may have become true

	mu     sync.Mutex
	names  map[string][]string // of addresses, in the list
	pass   []string            // addresses not tried yet in this pass
	width  int                 // addresses in a pass
	short  bool                // the last one handed out is to be tried for a short while
	begun  bool                // a pass is under way or has failed since the last connection
	last   time.Time           // of the last connection
	failed int                 // passes since the last connection that found none
	brief  int                 // connections in a row that did not last
}

func newHosts(ctx context.Context, limit time.Duration, list []string, onFailed func(), urgent func() bool) *hosts {
	l := append([]string(nil), list...)
	rand.Shuffle(len(l), func(i, j int) { l[i], l[j] = l[j], l[i] })
	return &hosts{ctx: ctx, names: map[string][]string{}, limit: min(limit, lookupTimeout), list: l, resolve: net.DefaultResolver.LookupHost,
		onFailed: onFailed, urgent: urgent, hurry: make(chan struct{}, 1)}
}

// Init is part of zk.HostProvider; the list came with newHosts.
func (h *hosts) Init([]string) error { return nil }

// Len is part of zk.HostProvider.
func (h *hosts) Len() int { return len(h.list) }

// Connected is part of zk.HostProvider: the next pass starts without delay.
func (h *hosts) Connected() { h.connected(time.Now()) }

func (h *hosts) connected(last time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.begun, h.pass, h.last, h.failed = false, nil, last, 0
}

// others are the addresses to try instead of one, that one last: the path to it
// may be at fault. Names are looked up for no longer than limit.
func (h *hosts) others(ctx context.Context, limit time.Duration, than string) []string {
	addrs := h.expand(ctx, limit)
	if at := slices.Index(addrs, than); at >= 0 {
		addrs = slices.Concat(addrs[at+1:], addrs[:at])
	}
	return append(addrs, than)
}

// offer makes an address the next one.
func (h *hosts) offer(addr string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pass = []string{addr}
}

// reset is Connected for a server that was there but had no session for us, or that
// hung up over a request.
func (h *hosts) reset() { h.connected(time.Time{}) }

// Next is part of zk.HostProvider. The pauses are its own: the library knows only one, of
// a second, for which retry asks. While the library pauses it also notices its end, so
// retry is true once the context has ended.
func (h *hosts) Next() (server string, retry bool) {
	h.mu.Lock()
	if len(h.pass) == 0 {
		failed := h.begun
		switch {
		case failed:
			h.failed++
		case time.Since(h.last) < tooSoon:
			h.brief++
		default:
			h.brief = 0
		}
		h.begun = true
		h.mu.Unlock()
		if failed {
			h.onFailed()
		}
		h.pause()
		addrs := h.expand(h.ctx, h.limit)
		h.mu.Lock()
		h.width = len(addrs)
		h.pass = append(addrs, addrs...)
	}
	defer h.mu.Unlock()
	h.short = len(h.pass) > h.width
	server, h.pass = h.pass[0], h.pass[1:]
	return server, h.ctx.Err() != nil
}

// Bounds of one attempt to connect: TCP and ZooKeeper's handshake.
const (
	maxAttempt   = 10 * time.Second
	shortAttempt = 2 * time.Second
)

// attempt is how long the address handed out last may take, so that a whole pass
// takes no longer than the given time.
func (h *hosts) attempt(whole time.Duration) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	each := min(whole/time.Duration(max(h.width, 1)), maxAttempt)
	short := min(each/4, shortAttempt)
	if h.short {
		return short
	}
	return each - short
}

// lookupTimeout bounds the resolution of the names.
const lookupTimeout = 5 * time.Second

// expand resolves the list, all names at once. A name that does not resolve stays
// as it is: the dialer then reports why.
func (h *hosts) expand(ctx context.Context, limit time.Duration) []string {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	found := make([][]string, len(h.list))
	var looking sync.WaitGroup
	for i, hp := range h.list {
		looking.Go(func() { found[i] = h.addresses(ctx, hp) })
	}
	looking.Wait()
	return slices.Concat(found...)
}

func (h *hosts) addresses(ctx context.Context, hp string) []string {
	host, port, err := net.SplitHostPort(hp)
	if err != nil || net.ParseIP(host) != nil {
		return []string{hp}
	}
	addrs, err := h.resolve(ctx, host)
	if err != nil || len(addrs) == 0 {
		return []string{hp}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, a := range addrs {
		addrs[i] = net.JoinHostPort(a, port)
		if !slices.Contains(h.names[addrs[i]], host) {
			h.names[addrs[i]] = append(h.names[addrs[i]], host)
		}
	}
	return addrs
}

// namesOf are what a server at this address may be called: as in the list.
func (h *hosts) namesOf(addr string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if names := h.names[addr]; len(names) > 0 {
		return slices.Clone(names)
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		host = addr
	}
	return []string{host}
}

// plainCause shortens a dial error to its reason; the address is named already.
func plainCause(err error) error {
	if _, ok := errors.AsType[*secure.Error](err); ok {
		return err
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		if dns.IsNotFound {
			return errors.New("unknown host")
		}
		return fmt.Errorf("name lookup failed: %s", dns.Err)
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		if op.Timeout() {
			return errors.New("connecting timed out")
		}
		if sys, ok := errors.AsType[*os.SyscallError](op.Err); ok {
			return sys.Err
		}
		return op.Err
	}
	return err
}

// dial connects for the library, or gives it the connection to which the session
// has moved.
func (l *link) dial(network, addr string, _ time.Duration) (net.Conn, error) {
	if k := l.takeSpare(); k != nil {
		return k, nil
	}
	if err := l.rest(); err != nil {
		return nil, err
	}
	k, err := l.open(l.ctx, network, addr, l.hosts.attempt(l.cfg.Timeout))
	if err != nil {
		l.attemptFailed(addr, plainCause(err))
		return nil, err
	}
	return k, nil
}

// open connects, with a limit for all that comes before the session is there.
func (l *link) open(ctx context.Context, network, addr string, limit time.Duration) (*frameConn, error) {
	deadline := time.Now().Add(limit)
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	c, err := l.cfg.dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	c, agreed, err := l.secured(ctx, c, addr)
	if err != nil {
		return nil, err
	}
	if l.cfg.tap != nil {
		c = l.cfg.tap(c)
	}
	if err := c.SetDeadline(deadline); err != nil {
		c.Close()
		return nil, err
	}
	k := newFrameConn(c, addr, l)
	k.agreed = agreed
	k.unbind = context.AfterFunc(l.ctx, func() { c.Close() }) // until the session is there
	return k, nil
}

// The pauses before connecting again to servers that answer without a session.
const (
	firstRest = 100 * time.Millisecond
	longRest  = 5 * time.Second
)

// rest waits before dialing while servers go on answering without a session: not
// after the first such answer, which is an expiry, then longer each time.
func (l *link) rest() error {
	again := look(l, func() int { return l.refusals }) - 2
	if again < 0 {
		return nil
	}
	select {
	case <-time.After(min(firstRest<<min(again, 10), longRest)):
		return nil
	case <-l.ctx.Done():
		return l.ctx.Err()
	}
}

func (l *link) attemptFailed(addr string, cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.attempts = slices.DeleteFunc(l.attempts, func(a AttemptError) bool { return a.Addr == addr })
	l.attempts = append(l.attempts, AttemptError{addr, cause})
}

func (l *link) passFailed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); now.Sub(l.counted) >= longPause-pauseJitter { // a request waits as long, however short the pauses are
		l.passes, l.counted = l.passes+1, now
	}
	l.failed, l.attempts = l.attempts, nil
	if !l.searching && l.state == StateConnecting {
		l.searching, l.unreached = true, &NoServerError{Attempts: l.failed}
		l.out.wake()
	}
	l.notify()
}

// noPasswd is what goes with no session.
var noPasswd = make([]byte, 16)

// hello is the connect request, for the session there is or for a new one, and the id
// of that session; 0 for a new one. It
// takes the place of the library's, which knows neither the highest zxid that we
// have seen nor the wish for a read-only server.
func (l *link) hello() (frame []byte, id int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var e jute.Encoder
	e.Int(4 + 8 + 4 + 8 + 4 + int32(len(l.passwd)) + 1) // what follows
	e.Int(0)                                            // protocol version
	e.Long(l.lastZxid)
	e.Int(int32(l.timeout.Milliseconds()))
	e.Long(l.id)
	e.Buffer(l.passwd)
	e.Bool(l.cfg.ReadOnly)
	return e.B, l.id
}

// refusedBy words a connect reply that is an error. Such a server is often one
// that lost its quorum, and takes read-only clients alone.
func (l *link) refusedBy(code Code) error {
	if code == NotReadOnly && !l.cfg.ReadOnly {
		return fmt.Errorf("the server rejected the session: %w; it is in read-only mode, which zksh accepts with -r", code)
	}
	return fmt.Errorf("the server rejected the session: %w", code)
}
