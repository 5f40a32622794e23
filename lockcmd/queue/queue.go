// Package queue observes the queues of locks: who holds a lock and who waits for it, which
// recipes ignore each other, and which sessions wait for each other. It knows the locks of
// Curator, kazoo, go-zookeeper, ZooKeeper's recipes, HBase and Accumulo.
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

// What a contender does.
const (
	holds = "holds"
	waits = "waits"
)

// Queue is who contends for a lock.
type Queue struct {
	Path       string       `json:"path"`
	Missing    bool         `json:"missing,omitempty"`   // there is no such znode
	State      string       `json:"state"`               // held or free
	MaxLeases  int          `json:"maxLeases,omitempty"` // of a kazoo semaphore
	Contenders []*Contender `json:"contenders"`          // first come first
	Ignored    []string     `json:"ignored,omitempty"`   // children that take no part
	Warnings   []string     `json:"warnings,omitempty"`
	NoClients  string       `json:"noClients,omitempty"` // why addresses of clients are missing
}

// Contender is one client that holds the lock or waits for it.
type Contender struct {
	Place   int         `json:"place"` // from 1
	Kind    string      `json:"kind"`  // whose recipe made its node
	Mode    zklock.Mode `json:"mode"`
	State   string      `json:"state"`            // holds or waits
	Session string      `json:"session"`          // in hexadecimal; empty: it outlives sessions
	Client  string      `json:"client,omitempty"` // its address, or "no connection"
	Since   string      `json:"since,omitempty"`  // when its node was made, RFC 3339 in UTC
	Age     string      `json:"age,omitempty"`    // by the server's clock as far as it is known
	Who     string      `json:"who,omitempty"`    // what its data tells, for a person
	Data    render.Data `json:"data"`
	Nodes   []string    `json:"nodes"` // several when it contends in several families

	nodes   []*node
	stat    *zk.Stat
	groups  []*lockGroup
	liberal bool // made by zksh, which waits for every family
}

func newContender(n *node) *Contender {
	c := &Contender{
		Kind: n.Kind, Mode: n.Mode, Data: n.Data, Nodes: []string{n.name()}, nodes: []*node{n}, stat: n.Stat,
		groups: []*lockGroup{groupOf(n.Kind)},
	}
	if c.known() {
		c.Since = render.Time(time.UnixMilli(n.Stat.Ctime))
	}
	if isSession(n.Stat.EphemeralOwner) {
		c.Session = render.Hex(n.Stat.EphemeralOwner)
	}
	c.Who, c.liberal = decode(n.Data)
	if n.Hidden {
		c.Who = "unreadable"
	}
	return c
}

// known reports whether the servers say when a contender came, and whose it is. From
// 3.9.2 on, and 3.8.4, they do not where its node may not be read.
func (c *Contender) known() bool { return c.stat.Czxid != 0 }

// isSession tells a session from the marks of container and TTL nodes.
func isSession(owner int64) bool { return owner != 0 && owner != -1<<63 && uint64(owner)>>56 != 0xff }

// add gives a contender one more name.
func (c *Contender) add(n *node) {
	c.Nodes, c.nodes = append(c.Nodes, n.name()), append(c.nodes, n)
	c.groups = append(c.groups, groupOf(n.Kind))
	c.Kind, c.liberal = "all families", true
}

// word is the mode as a person calls it.
func (c *Contender) word() string {
	for _, w := range []string{"semaphore", "latch", "read", "write"} {
		if strings.Contains(c.Kind, w) {
			return w
		}
	}
	if c.Mode == zklock.Shared {
		return "read"
	}
	return "lock"
}

// newQueue puts together what was read.
func newQueue(path string, c contents) *Queue {
	q := &Queue{Path: path, Missing: c.missing, State: "free", MaxLeases: c.max, Ignored: c.ignored, Contenders: []*Contender{}}
	switch {
	case len(c.leases)+len(c.guard) == 0:
		q.Contenders = append(q.Contenders, contenders(c.nodes)...)
	case len(c.leases) == 0 && len(c.nodes) > 0: // kazoo keeps leases at the path itself
		q.Contenders = semaphore(c.nodes, c.guard)
	default:
		q.Contenders = append(contenders(c.nodes), semaphore(c.leases, c.guard)...)
	}
	for i, c := range q.Contenders {
		c.Place = i + 1
		q.State = "held"
	}
	q.Warnings = warnings(q.Contenders)
	return q
}

// Free reports whether nobody holds the lock or waits for it.
func (q *Queue) Free() bool { return len(q.Contenders) == 0 }

// Holders lists who holds the lock by what Find knows: of each the node that its
// client looks at, the first one.
func (q *Queue) Holders() (nodes []string) {
	for _, c := range q.holding() {
		nodes = append(nodes, c.Nodes[0])
	}
	return nodes
}

// holding are the contenders that hold the lock.
func (q *Queue) holding() []*Contender {
	return slices.DeleteFunc(slices.Clone(q.Contenders), func(c *Contender) bool { return c.State != holds })
}

// setAges tells how long each has been there by now, which is by the server's clock.
func (q *Queue) setAges(now time.Time) {
	for _, c := range q.Contenders {
		if !c.known() {
			continue
		}
		c.Age = age(now.Sub(time.UnixMilli(c.stat.Ctime)))
	}
}

// age is a duration of two units at most: 3m12s, 5h4m, 12d3h.
func age(d time.Duration) string {
	d = max(d, 0)
	unit := func(n time.Duration, name string) string { return strconv.FormatInt(int64(d/n), 10) + name }
	switch day := 24 * time.Hour; {
	case d < time.Minute:
		return unit(time.Second, "s")
	case d < time.Hour:
		return unit(time.Minute, "m") + age(d%time.Minute)
	case d < day:
		return unit(time.Hour, "h") + strconv.FormatInt(int64(d%time.Hour/time.Minute), 10) + "m"
	default:
		return unit(day, "d") + strconv.FormatInt(int64(d%day/time.Hour), 10) + "h"
	}
}
