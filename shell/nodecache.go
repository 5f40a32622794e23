package shell

import (
	"cmp"
	"context"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/zksh/zksh/internal/zkconn"
)

// A nodeCache caches the children of the znodes whose paths are being completed. It asks the
// server in the background, and only for the paths that the user types. It sets no watches. When a
// new session replaces the old one, the cache drops all its entries.
type nodeCache struct {
	source  nodeSource
	changed func() // called when the completions may have changed
	guard   func() // deferred in each goroutine of the cache, to handle panics
	ctx     context.Context
	stop    context.CancelFunc
	pending sync.WaitGroup

	mu       sync.Mutex                    // guards the fields below
	epoch    string                        // session to which the entries belong, as returned by source.Epoch
	entries  map[string]*nodeEntry         // keyed by path, or by path plus "/" for whether the znode has children
	names    int                           // total number of names in all entries
	inFlight int                           // number of requests in flight
	wanted   struct{ path, prefix string } // path and prefix that are being completed
	lastKey  time.Time                     // time at which wanted last changed because the user typed
}

// A nodeSource answers the requests of a nodeCache.
type nodeSource interface {
	// Epoch returns a string that identifies the session, or an empty string if there is no
	// session.
	Epoch() string
	// Names returns the sorted names of a znode's children.
	Names(ctx context.Context, path string) ([]string, error)
	// HasChildren reports whether a znode has children.
	HasChildren(ctx context.Context, path string) (bool, error)
}

// A nodeEntry caches the answer to one request.
type nodeEntry struct {
	names    []string
	answered bool      // whether an answer has arrived
	lastUsed time.Time // time of the last lookup
	expires  time.Time // time after which a lookup sends a new request
	inFlight bool      // whether a request is in flight
	stale    bool      // whether a command may have changed the znode after the request in flight was sent
}

// Limits of a nodeCache.
const (
	nodeTimeout   = 5 * time.Second  // timeout of a request
	nodeTTL       = 2 * time.Second  // minimum lifetime of an entry
	nodeShare     = 20               // minimum lifetime of an entry, as a multiple of the duration of its request
	typingTimeout = 30 * time.Second // time after the last key at which expired entries are no longer refreshed
	maxAsking     = 4                // maximum number of requests in flight
	maxEntries    = 64
	maxNames      = 500_000 // maximum number of names in all entries
)

// newNodeCache returns an empty cache that sends its requests to source. The cache calls changed
// when the completions may have changed. It defers guard in each of its goroutines, to handle
// panics.
func newNodeCache(source nodeSource, changed, guard func()) *nodeCache {
	c := &nodeCache{source: source, changed: changed, guard: guard, entries: map[string]*nodeEntry{}}
	c.ctx, c.stop = context.WithCancel(context.Background())
	return c
}

// close cancels the requests in flight and waits for their goroutines.
func (c *nodeCache) close() {
	c.stop()
	c.pending.Wait()
}

// children returns the cached names of a znode's children that begin with prefix, without waiting
// for the server. If the names are not cached or have expired, it sends a request. When an answer
// with other names arrives, the cache calls changed. known is false while the request is in
// flight.
func (c *nodeCache) children(path, prefix string) (names []string, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.wanted.path != path || c.wanted.prefix != prefix { // if they are equal, the same line is only being redrawn
		c.wanted.path, c.wanted.prefix, c.lastKey = path, prefix, time.Now()
	}
	e := c.lookup(path, c.source.Names)
	if e == nil {
		return nil, true
	}
	first := sort.SearchStrings(e.names, prefix)
	n := sort.Search(len(e.names)-first, func(i int) bool { return !strings.HasPrefix(e.names[first+i], prefix) })
	return e.names[first : first+n], e.answered && !e.inFlight
}

// has reports whether the cache knows that a znode exists. It sends no request.
func (c *nodeCache) has(path string) bool {
	path = strings.TrimSuffix(path, "/")
	if path == "" { // the root always exists
		return true
	}
	at := strings.LastIndexByte(path, '/')
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[path[:max(at, 1)]]
	if e == nil || c.epoch != c.source.Epoch() {
		return false
	}
	_, found := slices.BinarySearch(e.names, path[at+1:])
	return found
}

// hasChildren reports whether a znode has children, without waiting for the server. known is false
// while an answer of the server is outstanding. The request does not read the names of the
// children, because there may be many.
func (c *nodeCache) hasChildren(path string) (yes, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	// the path of a znode never ends in a slash
	e := c.lookup(path+"/", func(ctx context.Context, _ string) ([]string, error) {
		yes, err := c.source.HasChildren(ctx, path)
		if !yes || err != nil {
			return nil, err
		}
		return []string{""}, nil
	})
	if e == nil {
		return false, true
	}
	return len(e.names) > 0, e.answered && !e.inFlight
}

// lookup returns the entry with the given key. If there is none, or if it has expired, lookup sends
// a request by calling ask in the background. It returns nil if there is no session, or if the path
// is invalid. The caller must hold mu.
func (c *nodeCache) lookup(key string, ask listFunc) *nodeEntry {
	if epoch := c.source.Epoch(); epoch != c.epoch {
		c.epoch, c.entries, c.names = epoch, map[string]*nodeEntry{}, 0
	}
	path := cmp.Or(strings.TrimSuffix(key, "/"), "/")
	if c.epoch == "" || c.ctx.Err() != nil || zkconn.ValidatePath(path, false) != nil {
		return nil
	}
	e := c.entries[key]
	if e == nil {
		c.evict()
		e = &nodeEntry{}
		c.entries[key] = e
	}
	e.lastUsed = time.Now()
	if !e.inFlight && c.inFlight < maxAsking && e.lastUsed.After(e.expires) {
		c.refresh(key, e, ask)
	}
	return e
}

// expireAll makes all entries expire. It is called after a command that may have changed znodes.
func (c *nodeCache) expireAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.entries {
		e.expires, e.stale = time.Time{}, e.inFlight
	}
}

// evict removes the least recently used entries until the cache is within its limits. The caller
// must hold mu.
func (c *nodeCache) evict() {
	for len(c.entries) >= maxEntries || c.names > maxNames && len(c.entries) > 0 {
		var oldest string
		for path, e := range c.entries {
			if oldest == "" || e.lastUsed.Before(c.entries[oldest].lastUsed) {
				oldest = path
			}
		}
		c.names -= len(c.entries[oldest].names)
		delete(c.entries, oldest)
	}
}

// refresh sends the request for an entry in a goroutine. The goroutine returns when the answer has
// arrived, after nodeTimeout, or when the cache is closed; close waits for it. The caller must
// hold mu.
func (c *nodeCache) refresh(key string, e *nodeEntry, ask listFunc) {
	e.inFlight = true
	c.inFlight++
	epoch := c.epoch
	c.pending.Go(func() {
		defer c.guard()
		ctx, cancel := context.WithTimeout(c.ctx, nodeTimeout)
		defer cancel()
		start := time.Now()
		names, err := ask(ctx, key)
		if c.store(key, e, epoch, names, err, time.Since(start)) {
			c.changed()
		}
	})
}

// store saves an answer in its entry, and reports whether completions may have changed. The first
// answer always counts as a change. A znode that cannot be listed counts as a znode without
// children.
func (c *nodeCache) store(key string, e *nodeEntry, epoch string, names []string, err error,
	took time.Duration) (changed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inFlight--
	e.inFlight = false
	if c.ctx.Err() != nil {
		return false
	}
	if c.epoch != epoch || c.source.Epoch() != epoch || c.entries[key] != e {
		return true // the entry was removed, so the completer must look it up again
	}
	if err != nil {
		names = nil
	}
	changed = !e.answered || !slices.Equal(names, e.names)
	e.answered = true
	c.names += len(names) - len(e.names)
	e.names = names
	// the entry must expire while the user still counts as typing
	ttl := min(max(nodeTTL, nodeShare*took), typingTimeout/2)
	e.expires = time.Now().Add(ttl)
	if e.stale {
		e.stale, e.expires, changed = false, time.Time{}, true
	}
	c.pending.Go(func() {
		defer c.guard()
		c.refreshLater(ttl)
	})
	return changed
}

// refreshLater calls changed once the entry has expired. If the entry is still needed, the
// completer then looks it up again. refreshLater does nothing if the user has not typed for
// typingTimeout.
func (c *nodeCache) refreshLater(after time.Duration) {
	select {
	case <-time.After(after + time.Millisecond):
		if c.typedRecently() {
			c.changed()
		}
	case <-c.ctx.Done():
	}
}

// typedRecently reports whether the user has typed within typingTimeout.
func (c *nodeCache) typedRecently() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Since(c.lastKey) < typingTimeout
}

// sessionNodes is a nodeSource that sends its requests to the server of a session.
type sessionNodes struct{ s *zkconn.Session }

// Epoch returns the connect string and the ID of the session, or an empty string if the session is
// closed or authentication has failed.
func (n sessionNodes) Epoch() string {
	if !n.s.Live() {
		return ""
	}
	return n.s.Servers().Spec + " " + strconv.FormatInt(n.s.Info().ID, 16)
}

// Names returns the sorted names of a znode's children.
func (n sessionNodes) Names(ctx context.Context, path string) ([]string, error) {
	list, err := zkconn.Do(ctx, n.s, zkconn.List(path))
	slices.Sort(list.Names)
	return list.Names, err
}

// HasChildren reports whether a znode has children. It reads only the Stat of the znode, not the
// names of the children.
func (n sessionNodes) HasChildren(ctx context.Context, path string) (bool, error) {
	stat, err := zkconn.Do(ctx, n.s, zkconn.Exists(path))
	return err == nil && stat.NumChildren > 0, err
}

// A listFunc is a function that lists the children of a znode. It can be used as a nodeSource.
type listFunc func(ctx context.Context, path string) ([]string, error)

// Epoch always returns the same value, because a listFunc has no sessions.
func (listFunc) Epoch() string { return "1" }

// Names returns the names of a znode's children.
func (n listFunc) Names(ctx context.Context, path string) ([]string, error) { return n(ctx, path) }

// HasChildren reports whether the list of the znode's children has any names.
func (n listFunc) HasChildren(ctx context.Context, path string) (bool, error) {
	names, err := n(ctx, path)
	return len(names) > 0, err
}
