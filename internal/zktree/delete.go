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

// PartialError says that an operation on a subtree reached only part of it.
type PartialError struct {
	Verb     string // past participle: deleted, changed
	Root     string
	Done     int
	Total    int
	Failures []error // what was refused
	Cause    error   // why the rest was not tried, if it was not
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
		b.WriteString(sep + f.Error())
		sep = "; "
	}
	return b.String()
}

// Unwrap gives the cause, and the refusals.
func (e *PartialError) Unwrap() []error {
	if e.Cause == nil {
		return e.Failures
	}
	return append([]error{e.Cause}, e.Failures...)
}

// job is an operation on a subtree, and what it has come to so far.
type job struct {
	ctx      context.Context
	c        zkconn.Client
	p        *zkconn.Pipe
	progress Progress
	so       PartialError
}

// list finds what there is to do, leaves first.
func (j *job) list() (paths []string, err error) {
	tree, count, err := List(j.ctx, j.c, j.so.Root, Options{})
	if err != nil {
		return nil, err
	}
	j.so.Total = j.so.Done + count
	j.p, err = j.c.Pipe(j.ctx, j.so.Root)
	return leavesFirst(tree, count), err
}

// end is an error if anything remains.
func (j *job) end(cause error) error {
	if j.so.Cause = cause; cause == nil && len(j.so.Failures) == 0 {
		return nil
	}
	return &j.so
}

// Delete removes a subtree, leaves first, in multis of at most batch deletes
// (one by one if batch is below 1), and returns how many znodes it removed.
// Nodes that vanish meanwhile do not matter; nodes that appear are removed too.
// When something remains the error is a *PartialError; when the
// subtree could not even be listed, nothing was deleted.
func Delete(ctx context.Context, c zkconn.Client, root string, batch int, progress Progress) (int, error) {
	j := &job{ctx: ctx, c: c, progress: progress, so: PartialError{Verb: "deleted", Root: root}}
	for round := 1; ; round++ {
		again, err := j.deleteRound(round, batch)
		if err != nil || !again {
			return j.so.Done, err
		}
	}
}

// deleteRound lists the subtree and deletes it once. It wants another round when
// nodes appeared meanwhile.
func (j *job) deleteRound(n, batch int) (again bool, err error) {
	j.so.Failures = nil
	paths, err := j.list()
	switch {
	case n > 1 && errors.Is(err, zkconn.NoNode):
		return false, nil
	case n > 1 && err != nil:
		return false, j.end(err)
	case err != nil:
		return false, err
	}
	if err := j.remove(paths, batch); err != nil {
		j.so.Failures = nil
		return false, j.end(err)
	}
	refused := slices.DeleteFunc(slices.Clone(j.so.Failures), func(err error) bool { return errors.Is(err, zkconn.NotEmpty) })
	switch {
	case len(refused) > 0: // the parents of what was refused are not empty because of it
		j.so.Failures = refused
	case len(j.so.Failures) > 0 && n < rounds:
		return true, nil
	}
	return false, j.end(nil)
}

// leavesFirst is the tree's paths, each after all that is below it.
func leavesFirst(tree *Node, count int) []string {
	paths := make([]string, 0, count)
	level := []*Node{tree}
	for len(level) > 0 { // breadth first, turned round below
		var next []*Node
		for _, n := range level {
			if n.gone() {
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
func (j *job) remove(paths []string, batch int) error {
	if batch < 1 {
		return j.deleteEach(paths)
	}
	var broken []string // the paths of batches that were refused as a whole
	err := inFlight(j.ctx, graceful, deleteWindow,
		func() ([]string, *zkconn.Pending[zkconn.Written]) {
			n := cut(paths, batch)
			first := paths[:n]
			paths = paths[n:]
			if n == 0 {
				return nil, nil
			}
			return first, j.p.MultiDelete(first)
		},
		func(paths []string, _ zkconn.Written, err error) error {
			if err != nil {
				broken = append(broken, paths...)
				return nil
			}
			j.so.Done += len(paths)
			j.progress.tell(j.so.Done, j.so.Total)
			return nil
		})
	if err != nil {
		return err
	}
	return j.deleteEach(broken)
}

// deleteEach deletes paths one by one. One whose delete has overtaken that of a child,
// which a busy server has refused at first, is deleted once more, in its turn.
func (j *job) deleteEach(paths []string) error {
	if err := oneByOne(j, singleWindow, paths, j.p.Delete); err != nil {
		return err
	}
	var early []string
	j.so.Failures = slices.DeleteFunc(j.so.Failures, func(err error) bool {
		refused, ok := errors.AsType[*zkconn.Error](err)
		ok = ok && refused.Code == zkconn.NotEmpty
		if ok {
			early = append(early, refused.Path)
		}
		return ok
	})
	return oneByOne(j, 1, early, j.p.Delete)
}

// cut says how many of the paths fit into one multi.
func cut(paths []string, batch int) int {
	bytes := 0
	for i, p := range paths {
		if bytes += len(p) + 16; i == batch || i > 0 && bytes > batchBytes {
			return i
		}
	}
	return len(paths)
}

// oneByOne sends a request for each path, many in flight, and keeps the count.
func oneByOne[T any](j *job, window int, paths []string, send func(string) *zkconn.Pending[T]) error {
	return each(j.ctx, graceful, window, paths, send, func(_ T, err error) {
		switch {
		case err == nil:
			j.so.Done++
		case errors.Is(err, zkconn.NoNode):
			j.so.Total-- // somebody else removed it
		default:
			j.so.Failures = append(j.so.Failures, err)
		}
		j.progress.tell(j.so.Done, j.so.Total)
	})
}

// SetACL writes the access control list of every node of a subtree, parents
// last, so that a list which shuts its writer out does not cut it off from what
// is below, and returns how many it wrote. version is each node's ACL version;
// -1 is any. When something remains the error is a *PartialError.
func SetACL(ctx context.Context, c zkconn.Client, root string, acl []zk.ACL, version int32, progress Progress) (int, error) {
	j := &job{ctx: ctx, c: c, progress: progress, so: PartialError{Verb: "changed the ACL of", Root: root}}
	paths, err := j.list()
	if err != nil {
		return 0, err
	}
	cause := oneByOne(j, singleWindow, paths, func(path string) *zkconn.Pending[*zk.Stat] { return j.p.SetACL(path, acl, version) })
	return j.so.Done, j.end(cause)
}
