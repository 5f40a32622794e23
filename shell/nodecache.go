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

// nodeCache knows the children of the znodes whose paths are being completed. It
// asks the server in the background and only for what is being typed, leaves no
// watches, and forgets all when the session becomes another one.
type nodeCache struct {
	source  nodeSource
	changed func() // there is something new to complete with
	guard   func()
	ctx     context.Context
	stop    context.CancelFunc
	pending sync.WaitGroup

	mu      sync.Mutex
	epoch   string // the session that all of it belongs to
	entries map[string]*nodeEntry
	names   int // in all entries
	asking  int
	wanted  struct{ path, prefix string } // what is being completed
	since   time.Time                     // when that began: the last key
}

// nodeSource is where a cache asks.
type nodeSource interface {
	// Epoch names the session; it is empty when there is none to ask.
	Epoch() string
	// Names returns the children's names, sorted.
	Names(ctx context.Context, path string) ([]string, error)
	// Parent reports whether a znode has children.
	Parent(ctx context.Context, path string) (bool, error)
}

// nodeEntry is what is known of one znode.
type nodeEntry struct {
	names   []string
	known   bool      // the names are an answer
	asked   time.Time // when it was last asked for, by a person
	expires time.Time
	asking  bool
	doubted bool // since it was asked for: the answer may be older than the doubt
}

// Bounds of a cache.
const (
	nodeTimeout = 5 * time.Second // of one request
	nodeTTL     = 2 * time.Second
	nodeShare   = 20               // a request may take this part of the time between two
	nodeFollow  = 30 * time.Second // after the last key
	maxAsking   = 4
	maxEntries  = 64
	maxNames    = 500_000
)

// newNodeCache makes an empty cache. guard is deferred in its goroutines.
func newNodeCache(source nodeSource, changed, guard func()) *nodeCache {
	c := &nodeCache{source: source, changed: changed, guard: guard, entries: map[string]*nodeEntry{}}
	c.ctx, c.stop = context.WithCancel(context.Background())
	return c
}

// close ends what is under way, and waits for it.
func (c *nodeCache) close() {
	c.stop()
	c.pending.Wait()
}

// children returns the names below a path that begin with a prefix, and whether no
// answer is awaited that may have others: it does not wait. What it does not know, or no longer for sure, it
// asks for, and tells by changed.
func (c *nodeCache) children(path, prefix string) (names []string, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.wanted.path != path || c.wanted.prefix != prefix { // else the same line is drawn anew
		c.wanted.path, c.wanted.prefix, c.since = path, prefix, time.Now()
	}
	e := c.look(path, c.source.Names)
	if e == nil {
		return nil, true
	}
	first := sort.SearchStrings(e.names, prefix)
	n := sort.Search(len(e.names)-first, func(i int) bool { return !strings.HasPrefix(e.names[first+i], prefix) })
	return e.names[first : first+n], e.known && !e.asking
}

// parent reports whether a znode has children, and whether this is known: no request for it
// is in flight. It does not read the names of the children, of which there may be many.
func (c *nodeCache) parent(path string) (yes, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.look(path+"/", func(ctx context.Context, _ string) ([]string, error) { // no znode's path ends in that
		yes, err := c.source.Parent(ctx, path)
		if !yes || err != nil {
			return nil, err
		}
		return []string{""}, nil
	})
	if e == nil {
		return false, true
	}
	return len(e.names) > 0, e.known && !e.asking
}

// look returns what is known under a key, and has it asked for if need be; nil if there is
// nobody to ask.
func (c *nodeCache) look(key string, ask namesOf) *nodeEntry {
	if epoch := c.source.Epoch(); epoch != c.epoch {
		c.epoch, c.entries, c.names = epoch, map[string]*nodeEntry{}, 0
	}
	if c.epoch == "" || c.ctx.Err() != nil || zkconn.ValidatePath(cmp.Or(strings.TrimSuffix(key, "/"), "/"), false) != nil {
		return nil
	}
	e := c.entries[key]
	if e == nil {
		c.makeRoom()
		e = &nodeEntry{}
		c.entries[key] = e
	}
	e.asked = time.Now()
	if !e.asking && c.asking < maxAsking && e.asked.After(e.expires) {
		c.refresh(key, e, ask)
	}
	return e
}

// doubt has everything asked for anew, after a command that may have changed it.
func (c *nodeCache) doubt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.entries {
		e.expires, e.doubted = time.Time{}, e.asking
	}
}

// makeRoom forgets what was not asked for the longest.
func (c *nodeCache) makeRoom() {
	for len(c.entries) >= maxEntries || c.names > maxNames && len(c.entries) > 0 {
		var oldest string
		for path, e := range c.entries {
			if oldest == "" || e.asked.Before(c.entries[oldest].asked) {
				oldest = path
			}
		}
		c.names -= len(c.entries[oldest].names)
		delete(c.entries, oldest)
	}
}

// refresh asks the server. The goroutine ends by its timeout, or with close, which
// waits for it.
func (c *nodeCache) refresh(key string, e *nodeEntry, ask namesOf) {
	e.asking = true
	c.asking++
	epoch := c.epoch
	c.pending.Go(func() {
		defer c.guard()
		ctx, cancel := context.WithTimeout(c.ctx, nodeTimeout)
		defer cancel()
		start := time.Now()
		names, err := ask(ctx, key)
		if c.learn(key, e, epoch, names, err, time.Since(start)) {
			c.changed()
		}
	})
}

// learn files an answer, and reports whether it says something new, as the first one does. A znode that
// cannot be listed has no children to propose.
func (c *nodeCache) learn(key string, e *nodeEntry, epoch string, names []string, err error, took time.Duration) (news bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asking--
	e.asking = false
	if c.ctx.Err() != nil {
		return false
	}
	if c.epoch != epoch || c.source.Epoch() != epoch || c.entries[key] != e {
		return true // whoever shows it asks again
	}
	if err != nil {
		names = nil
	}
	news = !e.known || !slices.Equal(names, e.names)
	e.known = true
	c.names += len(names) - len(e.names)
	e.names = names
	ttl := min(max(nodeTTL, nodeShare*took), nodeFollow/2) // or nobody would look again
	e.expires = time.Now().Add(ttl)
	if e.doubted {
		e.doubted, e.expires, news = false, time.Time{}, true
	}
	c.pending.Go(func() {
		defer c.guard()
		c.lookAgain(ttl)
	})
	return news
}

// lookAgain has whoever shows the entry ask again when it has expired; nobody
// asks if it is shown no more, or nobody has typed for long.
func (c *nodeCache) lookAgain(after time.Duration) {
	select {
	case <-time.After(after + time.Millisecond):
		if c.followed() {
			c.changed()
		}
	case <-c.ctx.Done():
	}
}

// followed reports whether somebody has typed lately.
func (c *nodeCache) followed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Since(c.since) < nodeFollow
}

// sessionNodes asks a session.
type sessionNodes struct{ s *zkconn.Session }

// Epoch is the connect string with the session's number.
func (n sessionNodes) Epoch() string {
	if !n.s.Live() {
		return ""
	}
	return n.s.Servers().Spec + " " + strconv.FormatInt(n.s.Info().ID, 16)
}

// Names lists a znode.
func (n sessionNodes) Names(ctx context.Context, path string) ([]string, error) {
	list, err := zkconn.Do(ctx, n.s, zkconn.List(path))
	slices.Sort(list.Names)
	return list.Names, err
}

// Parent looks at a znode's Stat.
func (n sessionNodes) Parent(ctx context.Context, path string) (bool, error) {
	stat, err := zkconn.Do(ctx, n.s, zkconn.Exists(path))
	return err == nil && stat.NumChildren > 0, err
}

// namesOf is a source in one session, which it begins when it is asked.
type namesOf func(ctx context.Context, path string) ([]string, error)

// Epoch is always the same.
func (namesOf) Epoch() string { return "1" }

// Names lists a znode.
func (n namesOf) Names(ctx context.Context, path string) ([]string, error) { return n(ctx, path) }

// Parent lists a znode.
func (n namesOf) Parent(ctx context.Context, path string) (bool, error) {
	names, err := n(ctx, path)
	return len(names) > 0, err
}
