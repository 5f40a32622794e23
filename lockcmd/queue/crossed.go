package queue

import (
	"path"
	"slices"

	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// String names a contender for a line of text.
func (c *Contender) String() string {
	if c.Who == "" {
		return render.Safe(c.Nodes[0])
	}
	return render.Safe(c.Who + " (" + c.Nodes[0] + ")")
}

// Excludes tells whether who holds, or is to hold, in a mode cannot do so beside this one.
func (c *Contender) Excludes(mode zklock.Mode) bool {
	return zklock.Conflicts(c.Mode, mode)
}

// Contender finds one by the name of a node of its; nil if there is none.
func (q *Queue) Contender(name string) *Contender {
	i := slices.IndexFunc(q.Contenders, func(c *Contender) bool { return slices.Contains(c.Nodes, name) })
	if i < 0 {
		return nil
	}
	return q.Contenders[i]
}

// Ahead lists those whom the contender of a node waits for.
func (q *Queue) Ahead(name string) (ahead []*Contender) {
	own := q.Contender(name)
	if own == nil {
		return nil
	}
	for _, c := range q.Contenders[:own.Place-1] {
		if c.Excludes(own.Mode) {
			ahead = append(ahead, c)
		}
	}
	return ahead
}

// Waits finds a contender that waits for the one of a node, and stands for another,
// which contends below dir: it has the same session, or runs under that one's lock,
// as its data tell. dir is a path on the server. It is nil if there is none.
func (q *Queue) Waits(name string, other *Contender, dir string) *Contender {
	for _, c := range q.Contenders {
		if c.standsFor(other, dir) && slices.ContainsFunc(q.Ahead(c.Nodes[0]), func(a *Contender) bool { return slices.Contains(a.Nodes, name) }) {
			return c
		}
	}
	return nil
}

func (c *Contender) standsFor(other *Contender, dir string) bool {
	if c.Session != "" && c.Session == other.Session {
		return true
	}
	n, _ := parseNote(c.Data)
	return slices.ContainsFunc(other.Nodes, func(name string) bool { return slices.Contains(n.Held, path.Join(dir, name)) })
}
