package wire

import (
	"context"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"
)

// hosts is a zk.HostProvider that passes over the addresses of a server list again and again. Each
// pass resolves every name anew, because addresses may change. It tries every address twice, the
// first time with a short limit: a server that is just starting may accept a connection and never
// answer on it.
type hosts struct {
	list     []string
	ctx      context.Context // of name lookups
	limit    time.Duration   // for the lookup of all names
	resolve  func(ctx context.Context, host string) ([]string, error)
	onFailed func()        // called after a pass that found no server
	urgent   func() bool   // reports whether a connection is wanted without delay
	hurry    chan struct{} // capacity 1: full when urgent may have become true

	mu     sync.Mutex
	names  map[string][]string // host names in the list, by address
	pass   []string            // addresses not tried yet in this pass
	width  int                 // addresses in a pass
	short  bool                // the address returned last is tried with the short limit
	begun  bool                // a pass is in progress, or has failed since the last connection
	last   time.Time           // when the last connection was made
	failed int                 // failed passes since the last connection
	brief  int                 // connections in a row that did not last
}

func newHosts(ctx context.Context, limit time.Duration, list []string, onFailed func(), urgent func() bool) *hosts {
	l := append([]string(nil), list...)
	rand.Shuffle(len(l), func(i, j int) { l[i], l[j] = l[j], l[i] })
	return &hosts{ctx: ctx, names: map[string][]string{}, limit: min(limit, lookupTimeout), list: l, resolve: net.DefaultResolver.LookupHost,
		onFailed: onFailed, urgent: urgent, hurry: make(chan struct{}, 1)}
}

// Init implements zk.HostProvider. It does nothing, because newHosts got the list.
func (h *hosts) Init([]string) error { return nil }

// Len implements zk.HostProvider.
func (h *hosts) Len() int { return len(h.list) }

// Connected implements zk.HostProvider: the next pass starts without delay.
func (h *hosts) Connected() { h.connected(time.Now()) }

func (h *hosts) connected(last time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.begun, h.pass, h.last, h.failed = false, nil, last, 0
}

// others returns the addresses to try instead of one, which comes last: only the network path to it
// may have failed. limit bounds the lookup of names.
func (h *hosts) others(ctx context.Context, limit time.Duration, than string) []string {
	addrs := h.expand(ctx, limit)
	if at := slices.Index(addrs, than); at >= 0 {
		addrs = slices.Concat(addrs[at+1:], addrs[:at])
	}
	return append(addrs, than)
}

// offer makes addr the next address.
func (h *hosts) offer(addr string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pass = []string{addr}
}

// reset is Connected for a server that answered but granted no session, or that hung up over a
// request.
func (h *hosts) reset() { h.connected(time.Time{}) }

// Next implements zk.HostProvider. It pauses by itself, because the library knows only a pause of
// a second, when retry is true. During its pause the library notices that it was closed, so retry
// is true once the context has ended.
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

// Bounds of one attempt to connect, which includes ZooKeeper's handshake.
const (
	maxAttempt   = 10 * time.Second
	shortAttempt = 2 * time.Second
)

// attempt returns the time limit for the address returned last. A pass with these limits takes no
// longer than whole.
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

// lookupTimeout bounds the lookup of all names.
const lookupTimeout = 5 * time.Second

// expand resolves all names of the list concurrently. It keeps a name that it cannot resolve, so
// that the dialer reports why.
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

// namesOf returns the names that a certificate of the server at addr may have: those in the list.
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
