package queue

import (
	"context"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
)

// unknown is the state of a contender, and of a queue, of which zksh does not know the recipe.
const unknown = "unknown"

// Kinds of contenders whose recipe zksh does not know.
const (
	// singleZnode is the kind of a lock that is one ephemeral znode, such as Kafka's /controller.
	// The session that owns the znode holds the lock. Clients that wait for it create no znodes.
	singleZnode = "ephemeral znode"
	// stranger is the kind of an ephemeral sequential znode whose name belongs to no known recipe.
	stranger = "unknown recipe"
)

// sequenceNumber matches the sequence number at the end of a sequential znode's name.
var sequenceNumber = regexp.MustCompile(`\d{10}$`)

// readUnknown adds to c the znodes that may be a lock although their names belong to no known
// recipe: the one at dir if it is ephemeral, and its children that are ephemeral and sequential.
func (r *reader) readUnknown(ctx context.Context, dir string, c *contents) error {
	if c.childless { // znodes with children are not ephemeral
		return r.readSingle(ctx, dir, c)
	}
	return r.readStrangers(ctx, dir, c)
}

// readSingle sets c.single if the znode at dir is ephemeral.
func (r *reader) readSingle(ctx context.Context, dir string, c *contents) error {
	got, err := r.e.Nodes(ctx, []string{dir})
	if err != nil {
		return err
	}
	if stat := got[0].Stat; stat != nil && isSession(stat.EphemeralOwner) {
		c.single = &node{Node: got[0], path: dir}
		c.single.Kind = singleZnode
	}
	return nil
}

// readStrangers sets c.strangers to the sequential znodes in c.ignored that are ephemeral. It
// includes those whose Stat is unreadable, because they may be ephemeral.
func (r *reader) readStrangers(ctx context.Context, dir string, c *contents) error {
	paths, err := r.ephemeral(ctx, dir, c.ignored)
	if err != nil || len(paths) == 0 {
		return err
	}
	got, err := r.e.Nodes(ctx, paths)
	if err != nil {
		return err
	}
	for i, p := range paths {
		if got[i].Stat == nil { // deleted meanwhile
			continue
		}
		n := &node{Node: got[i], path: p}
		n.Kind = stranger
		n.Number, _ = strconv.ParseInt(sequenceNumber.FindString(p), 10, 64) // ten digits are always a number
		c.strangers = append(c.strangers, n)
	}
	c.strangers = sortByArrival(c.strangers)
	return nil
}

// ephemeral returns the paths of those children of dir whose names end in a sequence number and
// that are ephemeral. It first reads only their Stats, because a queue of messages can have any
// number of large children that are persistent.
func (r *reader) ephemeral(ctx context.Context, dir string, names []string) (found []string, err error) {
	var paths []string
	for _, name := range names {
		if sequenceNumber.MatchString(name) {
			paths = append(paths, path.Join(dir, name))
		}
	}
	if len(paths) == 0 {
		return nil, nil
	}
	stats, err := r.e.Stats(ctx, paths)
	for i, stat := range stats {
		if stat != nil && (stat.Czxid == 0 || isSession(stat.EphemeralOwner)) {
			found = append(found, paths[i])
		}
	}
	return found, err
}

// addUnknown adds what readUnknown has found. If the queue has contenders of known recipes, it only
// counts the strangers: they belong to something else that uses the same path.
func (q *Queue) addUnknown(c contents) {
	switch {
	case c.single != nil:
		holder := newContender(c.single)
		holder.State, holder.Node = holds, c.single.path
		q.State, q.Contenders = held, append(q.Contenders, holder)
	case len(q.Contenders) > 0:
		q.strangers = len(c.strangers)
	case len(c.strangers) > 0:
		q.State = unknown
		for _, n := range c.strangers {
			who := newContender(n)
			who.State = unknown // whether it holds the lock depends on the recipe
			q.Contenders = append(q.Contenders, who)
		}
		q.Ignored = slices.DeleteFunc(q.Ignored, func(name string) bool { return q.Contender(name) != nil })
	}
}

// unknownRemark returns the remark about what readUnknown has found, or an empty string.
func (q *Queue) unknownRemark() string {
	if q.State == held && q.Contenders[0].Kind == singleZnode {
		return q.Path + " is itself ephemeral: the session that owns it holds the lock until it ends or deletes the znode; " +
			"clients that wait for it create no znodes"
	}
	return ""
}

// ZnodePath returns the path of the contender's znode.
func (c *Contender) ZnodePath() string { return c.node.path }

// Known reports whether zksh knows the recipe of the contender.
func (c *Contender) Known() bool { return c.Kind != singleZnode && c.Kind != stranger }

// unknownTitle returns the line above the table of n strangers.
func unknownTitle(n int) string {
	znodes := "1 ephemeral znode"
	if n > 1 {
		znodes = fmt.Sprintf("%d ephemeral znodes", n)
	}
	return "unknown: " + znodes + " of a recipe that zksh does not know; the lowest number usually holds the lock"
}
