package wire

import (
	"context"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"
)

// hosts is a zk.HostProvider that makes passes over the addresses of a server list until a server
// grants a session. Each pass resolves every name again, because addresses may change, and tries
// every address twice. The first try has a short time limit, because a server that is just
// starting may accept a connection and never answer on it.
type hosts struct {
	list     []string        // the server list, in random order
	ctx      context.Context // for name lookups; ends with the Link
	limit    time.Duration   // time limit for a pass: for the lookup of all names and for all attempts to connect
	resolve  func(ctx context.Context, host string) ([]string, error)
	onFailed func()        // called after a pass that found no server
	urgent   func() bool   // reports whether a connection is needed without delay
	hurry    chan struct{} // capacity 1; receives a value when urgent may have become true

	mu     sync.Mutex
	names  map[string][]string // host names in the list, by resolved address (host:port)
	pass   []string            // addresses that have not been tried in this pass
	width  int                 // number of different addresses in a pass
	share  time.Duration       // time for the two attempts with one address in this pass
	short  bool                // whether the address that Next returned last has the short time limit
	begun  bool                // whether a pass is in progress, or has failed since the last connection
	last   time.Time           // time of the last connection
	failed int                 // number of failed passes since the last connection
	brief  int                 // number of connections in a row that ended within tooSoon
}

func newHosts(ctx context.Context, limit time.Duration, list []string, onFailed func(), urgent func() bool) *hosts {
	return &hosts{ctx: ctx, names: map[string][]string{}, limit: limit, list: shuffled(list), resolve: net.DefaultResolver.LookupHost,
		onFailed: onFailed, urgent: urgent, hurry: make(chan struct{}, 1)}
}

// shuffled returns a copy of list in random order.
func shuffled(list []string) []string {
	l := slices.Clone(list)
	rand.Shuffle(len(l), func(i, j int) { l[i], l[j] = l[j], l[i] })
	return l
}

// Init implements zk.HostProvider. It does nothing, because newHosts has set the list.
func (h *hosts) Init([]string) error { return nil }

// Len implements zk.HostProvider.
func (h *hosts) Len() int { return len(h.list) }

// Connected implements zk.HostProvider. It makes the next pass start without delay.
func (h *hosts) Connected() { h.connected(time.Now()) }

func (h *hosts) connected(last time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.begun, h.pass, h.last, h.failed = false, nil, last, 0
}

// others returns the addresses of all servers, in the order in which to try them when the current
// server is silent. The current server comes last. A new connection to it helps if only the network
// path of the old one has failed. limit is the time limit for the lookup of names.
func (h *hosts) others(ctx context.Context, limit time.Duration, current string) []string {
	addrs := h.expand(ctx, limit)
	if at := slices.Index(addrs, current); at >= 0 {
		addrs = slices.Concat(addrs[at+1:], addrs[:at])
	}
	return append(addrs, current)
}

// offer makes addr the next address that Next returns.
func (h *hosts) offer(addr string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pass = []string{addr}
}

// reset makes the next pass start without delay, like Connected. It is called when a server
// answered but granted no session, and when a server closed the connection because of a request.
func (h *hosts) reset() { h.connected(time.Time{}) }

// Next implements zk.HostProvider. It returns the next address to try. Next itself pauses between
// passes over the servers, and returns false for retry, because go-zookeeper's own pause always
// takes one second. Once the Link's context has ended, Next returns true for retry: go-zookeeper
// notices only during its pause that it was closed.
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
		end := time.Now().Add(h.limit)
		addrs := h.expand(h.ctx, min(h.limit/2, lookupTimeout))
		h.mu.Lock()
		h.width = len(addrs)
		h.share = min(time.Until(end)/time.Duration(max(h.width, 1)), maxAttempt)
		h.pass = append(addrs, addrs...)
	}
	defer h.mu.Unlock()
	h.short = len(h.pass) > h.width
	server, h.pass = h.pass[0], h.pass[1:]
	return server, h.ctx.Err() != nil
}

// Time limits for one attempt to connect, including ZooKeeper's handshake.
const (
	maxAttempt   = 10 * time.Second
	shortAttempt = 2 * time.Second
)

// attempt returns the time limit for connecting to the address that Next returned last. The lookup of
// the names and all attempts of a pass take at most the limit of the hosts together.
func (h *hosts) attempt() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	short := min(h.share/4, shortAttempt)
	if h.short {
		return short
	}
	return h.share - short
}

// lookupTimeout is the longest time for the lookup of all names in the server list.
const lookupTimeout = 5 * time.Second

// expand resolves all names in the list concurrently, and returns the addresses. If it cannot
// resolve a name, it returns the name itself, so that the dialer reports the reason. limit is the
// time limit for the lookup.
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

// namesOf returns the names that the certificate of the server at addr may contain: the host
// names of the server list that resolved to addr. If there are none, it returns the host in addr.
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
