package zktree

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

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
	for i, j := 0, len(paths)-1; i < j; i, j = i+1, j-1 {
		paths[i], paths[j] = paths[j], paths[i]
	}
	return paths
}

// remove deletes paths in order, in multis while they succeed. The server keeps
// a session's order, so batches in flight never overtake the children's.
func (d *deleter) remove(paths []string) ([]Failure, error) {
	if d.batch < 1 {
		return d.oneByOne(paths)
	}
	type flight struct {
		paths []string
		reply *zkconn.Pending[struct{}]
	}
	var air []flight
	var broken [][]string // batches that were refused as a whole
	waiting, done := grace(d.ctx)
	defer done()
	for len(paths) > 0 && d.ctx.Err() == nil || len(air) > 0 {
		for len(paths) > 0 && len(air) < deleteWindow && d.ctx.Err() == nil {
			n := d.cut(paths)
			air = append(air, flight{paths[:n], d.p.MultiDelete(paths[:n])})
			paths = paths[n:]
		}
		first := air[0]
		air = air[1:]
		_, err := first.reply.Wait(waiting) // what was sent is counted, also after Ctrl-C
		switch {
		case err == nil:
			d.count(len(first.paths))
		case errors.As(err, new(*zkconn.Error)):
			broken = append(broken, first.paths)
		default:
			return nil, err
		}
	}
	if d.ctx.Err() != nil && len(paths)+len(broken) > 0 {
		return nil, context.Cause(d.ctx)
	}
	var failed []Failure
	for _, b := range broken {
		f, err := d.oneByOne(b)
		failed = append(failed, f...)
		if err != nil {
			return failed, err
		}
	}
	return failed, nil
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
func (d *deleter) oneByOne(paths []string) ([]Failure, error) {
	var failed []Failure
	err := pipeline(d.ctx, paths, d.p.Delete, func(path string, _ struct{}, err error) {
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

// gracePeriod is how long answers to what was sent are waited for after a
// cancellation.
const gracePeriod = 3 * time.Second

// grace gives a context that ends some time after ctx, with its cause.
func grace(ctx context.Context) (context.Context, func()) {
	late, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	var timer *time.Timer
	var mu sync.Mutex
	stop := context.AfterFunc(ctx, func() {
		mu.Lock()
		defer mu.Unlock()
		timer = time.AfterFunc(gracePeriod, func() { cancel(context.Cause(ctx)) })
	})
	return late, func() {
		stop()
		mu.Lock()
		defer mu.Unlock()
		if timer != nil {
			timer.Stop()
		}
		cancel(nil)
	}
}

// pipeline sends one request for each path, many in flight, and reports each
// answer in order. It stops sending when ctx ends and still takes the answers to
// what was sent. An error is what broke it off.
func pipeline[T any](ctx context.Context, paths []string, send func(string) *zkconn.Pending[T], each func(string, T, error)) error {
	type flight struct {
		path  string
		reply *zkconn.Pending[T]
	}
	var air []flight
	waiting, done := grace(ctx)
	defer done()
	for len(paths) > 0 && ctx.Err() == nil || len(air) > 0 {
		for len(paths) > 0 && len(air) < singleWindow && ctx.Err() == nil {
			air = append(air, flight{paths[0], send(paths[0])})
			paths = paths[1:]
		}
		first := air[0]
		air = air[1:]
		v, err := first.reply.Wait(waiting)
		if err != nil && !errors.As(err, new(*zkconn.Error)) {
			return err
		}
		each(first.path, v, err)
	}
	if len(paths) > 0 {
		return context.Cause(ctx)
	}
	return nil
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
	res.Cause = pipeline(ctx, leavesFirst(tree, count), send, func(path string, _ *zk.Stat, err error) {
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
