// Package queue observes the queues of locks for zksh's lock commands. It finds out which client
// holds a lock and which clients wait for it, which recipes ignore each other, and which
// sessions wait for each other. It knows the locks of Curator, kazoo, go-zookeeper, ZooKeeper's
// recipes, HBase and Accumulo.
//
// Begin reading with Queue and Contender, and with Read, which reads one queue. LookAll reads
// all queues below a path and names possible deadlocks, and Follow reports the changes of one queue.
// Wait.Deadlock searches for a deadlock that blocks a wait of this client. LookTwice also finds
// orphans.
//
// This package is part of the program zksh and may change at any time.
package queue

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// States of a contender in the queue of a lock.
const (
	holds = "holds"
	waits = "waits"
)

// States of a queue, besides unknown.
const (
	held = "held"
	free = "free"
)

// A Queue contains the clients that hold the lock at one path, and those that wait for it.
type Queue struct {
	Path       string       `json:"path"`
	Missing    bool         `json:"missing,omitempty"`   // true if there is no znode at Path
	State      string       `json:"state"`               // "held", "free" or "unknown"
	MaxLeases  int          `json:"maxLeases,omitempty"` // number of leases of a semaphore; 0 if unknown
	Contenders []*Contender `json:"contenders"`          // holders and waiters, in order of arrival
	Ignored    []string     `json:"ignored,omitempty"`   // children that are not contenders
	Warnings   []string     `json:"warnings,omitempty"`
	NoClients  string       `json:"noClients,omitempty"` // why client addresses are missing

	strangers int // number of ignored children that are ephemeral and sequential
}

// A Contender is one client that holds the lock or waits for it.
type Contender struct {
	Place   int         `json:"place"` // position in the queue, from 1
	Kind    string      `json:"kind"`  // name of the lock recipe, such as "Curator mutex"
	Mode    zklock.Mode `json:"mode"`
	State   string      `json:"state"`            // "holds", "waits" or "unknown"
	Session string      `json:"session"`          // hexadecimal session id, or empty if the znode is not ephemeral
	Client  string      `json:"client,omitempty"` // address of the client, or "no connection"
	Since   string      `json:"since,omitempty"`  // creation time of the znode, RFC 3339 in UTC
	Age     string      `json:"age,omitempty"`    // age of the contender's znode, such as "3m12s"
	Who     string      `json:"who,omitempty"`    // client's description from its znode's data
	Data    render.Data `json:"data"`
	Leases  int         `json:"leases,omitempty"` // number of leases of the semaphore that the client assumes; 0 if unknown
	Node    string      `json:"node"`             // name of the contender's znode

	// Owner is the name of the owner if the lock belongs to an owner and not to a session. It is
	// "unknown" if the note in the znode is unreadable. While the owner waits, Persistent is
	// false.
	Owner      string `json:"owner,omitempty"`
	Persistent bool   `json:"persistent,omitempty"` // the znode belongs to no session

	Orphan *Orphan `json:"orphan,omitempty"` // nil unless the contender is an orphan

	node        *node
	stat        *zk.Stat
	age         time.Duration // the duration that Age contains
	group       *lockGroup    // nil if the recipe belongs to no group
	waitsForAll bool          // the client is zksh, which waits for the locks of all families
}

func newContender(n *node) *Contender {
	c := &Contender{
		Kind: n.Kind, Mode: n.Mode, Data: n.Data, Node: n.name(), node: n, stat: n.Stat,
		group: groupOf(n.Kind),
	}
	if c.statKnown() {
		c.Since = render.Time(time.UnixMilli(n.Stat.Ctime))
	}
	if isSession(n.Stat.EphemeralOwner) {
		c.Session = render.Hex(n.Stat.EphemeralOwner)
	}
	c.Who, c.waitsForAll = decode(n.Data)
	if n.Hidden {
		c.Who = "unreadable"
	}
	c.addOwner(n)
	c.Leases = noteIn(n.Data).Leases
	return c
}

// addOwner sets the fields about the owner of the lock, if it has one.
func (c *Contender) addOwner(n *node) {
	c.Persistent = c.statKnown() && c.Session == ""
	if n.Owner == "" {
		return
	}
	if c.Owner = noteIn(n.Data).Owner; !zklock.OwnedBy(n.name(), c.Owner) {
		c.Owner = "unknown"
	}
	if n.Permanent {
		c.Persistent, c.waitsForAll = true, true
		c.Who = "owned by " + strings.TrimPrefix(c.Who, "owner ")
	}
}

// Holds reports whether the contender holds the lock or a lease.
func (c *Contender) Holds() bool { return c.State == holds }

// statKnown reports whether the server returned the Stat of the contender's znode. From ZooKeeper
// 3.8.4 and 3.9.2 on, a server does not return it to clients without permission to read the
// znode.
func (c *Contender) statKnown() bool { return c.stat.Czxid != 0 }

// isSession reports whether owner, the ephemeralOwner in a znode's Stat, is a session id. For
// containers and TTL znodes, ZooKeeper stores special values in this field.
func isSession(owner int64) bool { return owner != 0 && owner != -1<<63 && uint64(owner)>>56 != 0xff }

// modeName returns the name that tables show for the contender's lock mode, such as "read".
func (c *Contender) modeName() string {
	for _, w := range []string{"semaphore", "latch", "read", "write"} {
		if strings.Contains(c.Kind, w) {
			return w
		}
	}
	switch c.Mode {
	case zklock.Shared:
		return "read"
	case "": // the recipe is unknown
		return ""
	}
	return "lock"
}

// newQueue returns the queue of the lock at path. c contains the znodes that were read below
// path.
func newQueue(path string, c contents) *Queue {
	q := &Queue{Path: path, Missing: c.missing, State: free, Ignored: c.ignored, Contenders: []*Contender{}}
	q.addKnown(c)
	q.addUnknown(c)
	for i, c := range q.Contenders {
		c.Place = i + 1
	}
	q.Warnings = append(warnings(q.Contenders), leaseWarnings(q.Contenders)...)
	return q
}

// addKnown adds the contenders of known recipes.
func (q *Queue) addKnown(c contents) {
	q.MaxLeases = c.maxLeases
	switch {
	case len(c.leases)+len(c.guard) == 0:
		q.Contenders = append(q.Contenders, contenders(c.nodes)...)
	case len(c.leases) == 0 && c.kazoo: // the leases of a kazoo semaphore are children of path
		q.Contenders = semaphore(c.nodes, c.guard, c.maxLeases)
	default:
		q.MaxLeases = recordedLeases(c.leases, c.guard)
		q.Contenders = append(contenders(c.nodes), semaphore(c.leases, c.guard, q.MaxLeases)...)
	}
	if len(q.Contenders) > 0 {
		q.State = held
	}
}

// Free reports whether zksh is sure that no client holds the lock or waits for it.
func (q *Queue) Free() bool { return len(q.Contenders) == 0 }

// Holders returns the znode name of each client that holds the lock.
func (q *Queue) Holders() (nodes []string) {
	for _, c := range q.holders() {
		nodes = append(nodes, c.Node)
	}
	return nodes
}

// holders returns the contenders that hold the lock now.
func (q *Queue) holders() []*Contender {
	return slices.DeleteFunc(slices.Clone(q.Contenders), func(c *Contender) bool { return c.State != holds })
}

// setAges sets the age of each contender. now is the current time according to the server's
// clock.
func (q *Queue) setAges(now time.Time) {
	for _, c := range q.Contenders {
		if !c.statKnown() {
			continue
		}
		c.age = max(0, now.Sub(time.UnixMilli(c.stat.Ctime)))
		c.Age = formatAge(c.age)
	}
}

// formatAge formats a duration with at most two units, such as 3m12s, 5h4m or 12d3h.
func formatAge(d time.Duration) string {
	d = max(d, 0)
	unit := func(n time.Duration, name string) string { return strconv.FormatInt(int64(d/n), 10) + name }
	switch day := 24 * time.Hour; {
	case d < time.Minute:
		return unit(time.Second, "s")
	case d < time.Hour:
		return unit(time.Minute, "m") + formatAge(d%time.Minute)
	case d < day:
		return unit(time.Hour, "h") + strconv.FormatInt(int64(d%time.Hour/time.Minute), 10) + "m"
	default:
		return unit(day, "d") + strconv.FormatInt(int64(d%day/time.Hour), 10) + "h"
	}
}
