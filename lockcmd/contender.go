package lockcmd

import (
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

// queue is the answer of locks PATH.
type queue struct {
	Path       string       `json:"path"`
	Missing    bool         `json:"missing,omitempty"`   // there is no such znode
	State      string       `json:"state"`               // held or free
	MaxLeases  int          `json:"maxLeases,omitempty"` // of a kazoo semaphore
	Contenders []*contender `json:"contenders"`          // first come first
	Ignored    []string     `json:"ignored,omitempty"`   // children that take no part
	Warnings   []string     `json:"warnings,omitempty"`
	NoClients  string       `json:"noClients,omitempty"` // why addresses of clients are missing

	columns int // of the terminal; 0: none
}

// contender is one client that holds the lock or waits for it.
type contender struct {
	Place   int         `json:"place"` // from 1
	Kind    string      `json:"kind"`  // whose recipe made its node
	Mode    zklock.Mode `json:"mode"`
	State   string      `json:"state"`            // holds or waits
	Session string      `json:"session"`          // in hexadecimal; empty: it outlives sessions
	Client  string      `json:"client,omitempty"` // its address, or "no connection"
	Since   string      `json:"since"`            // when its node was made, RFC 3339 in UTC
	Age     string      `json:"age"`              // by the server's clock as far as it is known
	Who     string      `json:"who,omitempty"`    // what its data tells, for a person
	Data    render.Data `json:"data"`
	Nodes   []string    `json:"nodes"` // several when it contends in several families

	stat    *zk.Stat
	groups  []*lockGroup
	liberal bool // made by zksh, which waits for every family
}

func newContender(n *node) *contender {
	c := &contender{
		Kind: n.Kind, Mode: n.Mode, Data: n.data, Nodes: []string{n.name}, stat: n.stat,
		Since: time.UnixMilli(n.stat.Ctime).UTC().Format(isoMillis),
	}
	if isSession(n.stat.EphemeralOwner) {
		c.Session = sessionText(n.stat.EphemeralOwner)
	}
	c.Who, c.liberal = decodeWho(n.data)
	if n.hidden {
		c.Who = "not readable"
	}
	c.groups = append(c.groups, groupOf(n.Kind))
	return c
}

const isoMillis = "2006-01-02T15:04:05.000Z07:00"

// add gives a contender one more name.
func (c *contender) add(n *node) {
	c.Nodes = append(c.Nodes, n.name)
	c.groups = append(c.groups, groupOf(n.Kind))
	c.Kind, c.liberal = "all families", true
}

// word is the mode as a person calls it.
func (c *contender) word() string {
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
func newQueue(path string, c contents) *queue {
	q := &queue{Path: path, Missing: c.missing, State: "free", MaxLeases: c.max, Ignored: c.ignored, Contenders: []*contender{}}
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

// setAges tells how long each has been there by now, which is by the server's clock.
func (q *queue) setAges(now time.Time) {
	for _, c := range q.Contenders {
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

// isSession tells a session from the marks of container and TTL nodes.
func isSession(owner int64) bool { return owner != 0 && owner != -1<<63 && uint64(owner)>>56 != 0xff }

// sessionText is a session as zkCli does.
func sessionText(v int64) string { return "0x" + strconv.FormatUint(uint64(v), 16) }
