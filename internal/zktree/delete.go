package zktree

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/zkconn"
)

// DefaultBatch is how many deletes go into one multi, as in zkCli.
const DefaultBatch = 1000

const (
	deleteWindow = 8 // multis in flight
	rounds       = 5 // how often nodes that appear meanwhile are gone after
)

// Failure is one node that an operation on a subtree did not reach, and why.
type Failure struct {
	Path string
	Err  error
}

// PartialError says that an operation on a subtree reached only part of it.
type PartialError struct {
	Verb     string // past participle: deleted, changed
	Root     string
	Done     int
	Total    int
	Failures []Failure // what was refused
	Cause    error     // why the rest was not tried, if it was not
}

// namedFailures is how many failures the message spells out.
const namedFailures = 20

func (e *PartialError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %d of %d znodes of %s", e.Verb, e.Done, e.Total, e.Root)
	if e.Cause != nil {
		fmt.Fprintf(&b, ": %v", e.Cause)
	}
	sep := ": "
	for i, f := range e.Failures {
		if i == namedFailures {
			fmt.Fprintf(&b, "; and %d more", len(e.Failures)-i)
			break
		}
		b.WriteString(sep + f.Err.Error())
		sep = "; "
	}
	return b.String()
}

// Unwrap gives the cause, and the refusals.
func (e *PartialError) Unwrap() []error {
	var all []error
	if e.Cause != nil {
		all = append(all, e.Cause)
	}
	for _, f := range e.Failures {
		all = append(all, f.Err)
	}
	return all
}

// Delete removes a subtree, leaves first, in multis of at most batch deletes
// (one by one if batch is below 1), and returns how many znodes it removed.
// Nodes that vanish meanwhile do not matter; nodes that appear are removed too.
// When something remains the error is a *PartialError; when the
// subtree could not even be listed, nothing was deleted.
func Delete(ctx context.Context, c zkconn.Client, root string, batch int, progress Progress) (int, error) {
	d := &deleter{ctx: ctx, c: c, root: root, batch: batch, progress: progress}
	for round := 1; ; round++ {
		again, err := d.round(round)
		if err != nil || !again {
			return d.done, err
		}
	}
}

type deleter struct {
	ctx      context.Context
	c        zkconn.Client
	root     string
	batch    int
	progress Progress
	p        *zkconn.Pipe
	done     int
	total    int
}

// round lists the subtree and deletes it once. It wants another round when nodes
// appeared meanwhile.
func (d *deleter) round(n int) (again bool, err error) {
	tree, count, err := List(d.ctx, d.c, d.root, Options{})
	switch {
	case err == nil:
	case n > 1 && errors.Is(err, zkconn.NoNode):
		return false, nil
	case n > 1:
		return false, d.partial(nil, err)
	default:
		return false, err
	}
	d.total = d.done + count
	if d.p, err = d.c.Pipe(d.ctx, d.root); err != nil {
		return false, d.partial(nil, err)
	}
	failed, err := d.remove(leavesFirst(tree, count))
	if err != nil {
		return false, d.partial(nil, err)
	}
	var refused []Failure
	for _, f := range failed {
		if !errors.Is(f.Err, zkconn.NotEmpty) {
			refused = append(refused, f)
		}
	}
	switch {
	case len(refused) > 0: // the parents of what was refused are not empty because of it
		return false, d.partial(refused, nil)
	case len(failed) > 0 && n < rounds:
		return true, nil
	case len(failed) > 0:
		return false, d.partial(failed, nil)
	}
	return false, nil
}

func (d *deleter) partial(failures []Failure, cause error) error {
	return &PartialError{Verb: "deleted", Root: d.root, Done: d.done, Total: d.total, Failures: failures, Cause: cause}
}

// leavesFirst is the tree's paths, each after all that is below it.
func leavesFirst(tree *Node, count int) []string {
	paths := make([]string, 0, count)
	level := []*Node{tree}
	for len(level) > 0 { // breadth first, turned round below
		var next []*Node
		for _, n := range level {
			if n.Gone() {
				continue
			}
			paths = append(paths, n.Path)
			next = append(next, n.Children...)
		}
		level = next
	}
	slices.Reverse(paths)
	return paths
}

// remove deletes paths in order, in multis while they succeed. The server keeps
// a session's order, so batches in flight never overtake the children's.
func (d *deleter) remove(paths []string) ([]Failure, error) {
	if d.batch < 1 {
		return d.oneByOne(paths)
	}
	var broken []string // the paths of batches that were refused as a whole
	err := inFlight(d.ctx, graceful, deleteWindow,
		func() ([]string, *zkconn.Pending[zkconn.Written]) {
			n := d.cut(paths)
			batch := paths[:n]
			paths = paths[n:]
			if n == 0 {
				return nil, nil
			}
			return batch, d.p.MultiDelete(batch)
		},
		func(batch []string, _ zkconn.Written, err error) error {
			if err != nil {
				broken = append(broken, batch...)
			} else {
				d.count(len(batch))
			}
			return nil
		})
	if err != nil {
		return nil, err
	}
	return d.oneByOne(broken)
}

// cut says how many of the paths fit into one multi.
func (d *deleter) cut(paths []string) int {
	bytes := 0
	for i, p := range paths {
		if bytes += len(p) + 16; i == d.batch || i > 0 && bytes > batchBytes {
			return i
		}
	}
	return len(paths)
}

func (d *deleter) count(n int) {
	d.done += n
	if d.progress != nil {
		d.progress(d.done, d.total)
	}
}

// oneByOne deletes paths by single requests, many in flight.
func (d *deleter) oneByOne(paths []string) (failed []Failure, err error) {
	err = each(d.ctx, graceful, paths, d.p.Delete, func(path string, _ zkconn.Written, err error) {
		switch {
		case err == nil:
			d.count(1)
		case errors.Is(err, zkconn.NoNode):
			d.total-- // somebody else removed it
		default:
			failed = append(failed, Failure{path, err})
		}
	})
	return failed, err
}

// SetACL writes the access control list of every node of a subtree, parents
// last, so that a list which shuts its writer out does not cut it off from what
// is below, and returns how many it wrote. version is each node's ACL version;
// -1 is any. When something remains the error is a *PartialError.
func SetACL(ctx context.Context, c zkconn.Client, root string, acl []zk.ACL, version int32, progress Progress) (int, error) {
	tree, count, err := List(ctx, c, root, Options{})
	if err != nil {
		return 0, err
	}
	p, err := c.Pipe(ctx, root)
	if err != nil {
		return 0, err
	}
	res := &PartialError{Verb: "changed the ACL of", Root: root, Total: count}
	send := func(path string) *zkconn.Pending[*zk.Stat] { return p.SetACL(path, acl, version) }
	res.Cause = each(ctx, graceful, leavesFirst(tree, count), send, func(path string, _ *zk.Stat, err error) {
		switch {
		case err == nil:
			res.Done++
		case errors.Is(err, zkconn.NoNode):
			res.Total--
		default:
			res.Failures = append(res.Failures, Failure{path, err})
		}
		if progress != nil {
			progress(res.Done+len(res.Failures), res.Total)
		}
	})
	if res.Cause != nil || len(res.Failures) > 0 {
		return res.Done, res
	}
	return res.Done, nil
}
