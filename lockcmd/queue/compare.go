package queue

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/render"
)

// A Comparison is the result of reading one queue from each member of an ensemble.
type Comparison struct {
	Path        string       `json:"path"`
	Agree       bool         `json:"agree"`  // all members could be read, and there is no difference
	Znodes      int          `json:"znodes"` // number of different znodes that the members have
	Members     []*Member    `json:"members"`
	Differences []Difference `json:"differences"`
}

// A Member is the state of a queue as one server of the ensemble stores it.
type Member struct {
	Server  string `json:"server"`
	Znodes  int    `json:"znodes"`            // number of znodes: the lock path itself, and its children
	Problem string `json:"problem,omitempty"` // why the member could not be read

	facts map[string]facts // by path; nil if the member could not be read
}

// A Difference is a property of a znode in which the members differ.
type Difference struct {
	Node   string  `json:"node"`   // path
	Field  string  `json:"field"`  // "exists", "czxid", "ephemeralOwner" or "data"
	Values []Value `json:"values"` // in the order in which the members were asked
}

// A Value is a value of a property, and the servers that have it.
type Value struct {
	Value   string   `json:"value"`
	Servers []string `json:"servers"`
}

// facts are the properties of an existing znode that a server reported: values by field.
type facts map[string]string

// existsField is the name of the property whose value is "yes" or "no".
const existsField = "exists"

// ReadMember reads the znode at dir and its children from the server to which e is connected.
func ReadMember(ctx context.Context, e Ensemble, server, dir string) (*Member, error) {
	if err := e.Sync(ctx, dir); err != nil {
		return nil, err
	}
	names, err := e.Children(ctx, dir)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return nil, err
	}
	paths := []string{dir}
	for _, name := range names {
		paths = append(paths, path.Join(dir, name))
	}
	nodes, err := readNodes(ctx, e, paths)
	if err != nil {
		return nil, err
	}
	m := &Member{Server: server, facts: map[string]facts{}}
	for p, n := range nodes {
		if n.Stat != nil {
			m.facts[p] = n.facts()
		}
	}
	m.Znodes = len(m.facts)
	return m, nil
}

// facts returns the properties of n, which must exist.
func (n Node) facts() facts {
	known := facts{existsField: "yes"}
	if n.Stat.Czxid != 0 {
		owner := "none"
		if isSession(n.Stat.EphemeralOwner) {
			owner = render.Hex(n.Stat.EphemeralOwner)
		}
		known["czxid"], known["ephemeralOwner"] = render.Hex(n.Stat.Czxid), owner
	}
	if !n.Hidden {
		known["data"] = fmt.Sprintf("%d bytes, SHA-256 %x", len(n.Data), sha256.Sum256(n.Data))
	}
	return known
}

// CompareMembers compares the state of the queue at dir between the members that could be read.
func CompareMembers(dir string, members []*Member) *Comparison {
	c := &Comparison{Path: dir, Members: members, Differences: []Difference{}}
	paths := map[string]bool{}
	for _, m := range members {
		for p := range m.facts {
			paths[p] = true
		}
	}
	c.Znodes = len(paths)
	for p := range paths {
		c.Differences = append(c.Differences, differences(p, members)...)
	}
	slices.SortFunc(c.Differences, func(a, b Difference) int {
		return cmp.Or(strings.Compare(a.Node, b.Node), cmp.Compare(slices.Index(fields, a.Field), slices.Index(fields, b.Field)))
	})
	c.updateAgree()
	return c
}

// updateAgree sets c.Agree.
func (c *Comparison) updateAgree() { c.Agree = len(c.Differences) == 0 && c.unread() == 0 }

// fields lists the properties of znodes in the order in which differences are shown.
var fields = []string{existsField, "czxid", "ephemeralOwner", "data"}

// differences returns the properties of the znode at path p in which the members differ. A member
// that does not have the znode, or does not report a property, has no value for it.
func differences(p string, members []*Member) (list []Difference) {
	for _, field := range fields {
		d := Difference{Node: p, Field: field}
		for _, m := range members {
			if m.facts == nil {
				continue
			}
			value, known := m.facts[p][field]
			switch {
			case known:
				d.add(value, m.Server)
			case field == existsField:
				d.add("no", m.Server)
			}
		}
		if len(d.Values) > 1 {
			list = append(list, d)
		}
	}
	return list
}

// add records that a server has this value.
func (d *Difference) add(value, server string) {
	i := slices.IndexFunc(d.Values, func(v Value) bool { return v.Value == value })
	if i < 0 {
		i = len(d.Values)
		d.Values = append(d.Values, Value{Value: value})
	}
	d.Values[i].Servers = append(d.Values[i].Servers, server)
}

// Confirm removes the differences that an earlier comparison did not find with the same values.
// Most of these are not real: the queue changed after one member was read and before the next.
func (c *Comparison) Confirm(earlier *Comparison) {
	c.Differences = slices.DeleteFunc(c.Differences, func(d Difference) bool {
		return !slices.ContainsFunc(earlier.Differences, d.equal)
	})
	c.updateAgree()
}

func (d Difference) equal(other Difference) bool {
	return d.Node == other.Node && d.Field == other.Field && slices.EqualFunc(d.Values, other.Values, func(a, b Value) bool {
		return a.Value == b.Value && slices.Equal(a.Servers, b.Servers)
	})
}

// unread returns the number of members that could not be read.
func (c *Comparison) unread() (n int) {
	for _, m := range c.Members {
		if m.facts == nil {
			n++
		}
	}
	return n
}
