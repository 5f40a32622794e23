package zktree

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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

// Refusals are what a server has refused: how often, and the first of them.
type Refusals struct {
	First []error
	N     int
}

// namedRefusals is how many refusals are kept and spelt out.
const namedRefusals = 20

// Add takes note of one.
func (r *Refusals) Add(err error) {
	if r.N++; r.N <= namedRefusals {
		r.First = append(r.First, err)
	}
}

// Error names them.
func (r *Refusals) Error() string {
	var b strings.Builder
	for i, f := range r.First {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(f.Error())
	}
	if more := r.N - len(r.First); more > 0 {
		fmt.Fprintf(&b, "; and %d more errors", more)
	}
	return b.String()
}

// Unwrap gives those that are kept.
func (r *Refusals) Unwrap() []error { return r.First }

// PartialError reports that an operation on a subtree reached only part of it.
type PartialError struct {
	Verb string // past participle: deleted, changed
	Root string
	zkconn.Outcome
	Total    int  // that were found
	Whole    bool // there are no more than that
	Failures Refusals
	Cause    error // why the rest was not tried, if it was not
}

func (e *PartialError) Error() string {
	text := fmt.Sprintf("%s %d of %d znodes of %s", e.Verb, e.Done, e.Total, e.Root)
	if !e.Whole {
		text = fmt.Sprintf("%s %d znodes of %s; the subtree contains more znodes", e.Verb, e.Done, e.Root)
	}
	if e.Unknown > 0 {
		text += fmt.Sprintf("; the outcome for %d znodes is unknown", e.Unknown)
	}
	if e.Cause != nil {
		text += ": " + e.Cause.Error()
	}
	if e.Failures.N > 0 {
		text += ": " + e.Failures.Error()
	}
	return text
}

// Unwrap gives the cause, and the refusals.
func (e *PartialError) Unwrap() []error {
	if e.Cause == nil {
		return e.Failures.First
	}
	return append([]error{e.Cause}, e.Failures.First...)
}

// job is an operation on a subtree, and what it has come to so far.
type job struct {
	ctx      context.Context
	c        zkconn.Client
	p        *zkconn.Pipe
	progress Progress
	so       PartialError
	before   int      // done in rounds before this one
	found    int      // in this round
	gone     int      // of those, by somebody else
	busy     Refusals // of znodes that were not empty
}

// target is a znode to be done something to.
type target struct {
	path string
	shut error // why what is below it could not be read
}

// leavesFirst goes over the subtree, each znode after all that is below it.
func (j *job) leavesFirst(do func(target) error) error {
	j.so.Whole = false
	src, err := OnServer(j.ctx, j.c, j.so.Root, false)
	if err != nil {
		return err
	}
	if j.p, err = j.c.Pipe(j.ctx, j.so.Root); err != nil {
		return err
	}
	w, err := Begin(j.ctx, src, j.so.Root, Options{Progress: func(_, total int) { j.found = total }})
	if err != nil {
		return err
	}
	for s, err := range w.Steps() {
		if err == nil && (s.Kind == Leave || s.Kind == Enter && len(s.Names) == 0) {
			err = do(target{s.Path(), s.Err})
		}
		if err != nil {
			return err
		}
	}
	j.so.Whole = true
	return nil
}

func (j *job) tell() { j.progress.tell(j.so.Done, j.total()) }

func (j *job) total() int { return j.before + j.found - j.gone }

// end is an error if anything remains.
func (j *job) end(cause error) error {
	j.so.Total = j.total()
	if j.so.Cause = cause; cause == nil && j.so.Failures.N == 0 {
		return nil
	}
	return &j.so
}

// Delete removes a subtree, leaves first and while it is still being read, in multis
// of at most batch deletes (one by one if batch is below 1), and returns how many
// znodes it removed. Nodes that vanish meanwhile do not matter; nodes that appear are
// removed too. When something remains the error is a *PartialError, unless
// the root itself could not be read.
func Delete(ctx context.Context, c zkconn.Client, root string, batch int, progress Progress) (int, error) {
	j := &job{ctx: ctx, c: c, progress: progress, so: PartialError{Verb: "deleted", Root: root}}
	for round := 1; ; round++ {
		again, err := j.deleteRound(round, batch)
		if err != nil || !again {
			return j.so.Done, err
		}
	}
}

// deleteRound goes over the subtree once. It wants another round when nodes appeared
// meanwhile.
func (j *job) deleteRound(n, batch int) (again bool, err error) {
	j.before, j.found, j.gone, j.busy = j.so.Done, 0, 0, Refusals{}
	err = j.remove(batch)
	switch {
	case n > 1 && j.found == 0 && errors.Is(err, zkconn.NoNode):
		return false, nil
	case n == 1 && j.found == 0 && err != nil: // not even the root
		return false, err
	case err != nil, j.so.Failures.N > 0: // the parents of what was refused are not empty because of it
		return false, j.end(err)
	case j.busy.N > 0 && n < rounds:
		return true, nil
	}
	j.so.Failures = j.busy
	return false, j.end(nil)
}

// remove deletes the subtree, in multis while they succeed. The server keeps a
// session's order, so batches in flight never overtake the children's, but for those
// that a busy server has refused at first: what overtakes them is refused and goes one by
// one.
func (j *job) remove(batch int) error {
	size := 0
	var next []target
	air := inFlight(j.ctx, graceful, deleteWindow, j.removed)
	air.lost = func(_ []target, outcome zkconn.Outcome) { j.tally(outcome) }
	defer air.close()
	flush := func() error {
		if len(next) == 0 {
			return nil
		}
		paths := make([]string, len(next))
		for i, t := range next {
			paths[i] = t.path
		}
		err := air.add(next, zkconn.Add(j.p, zkconn.MultiDelete(paths)))
		next, size = nil, 0
		return err
	}
	if batch < 1 {
		single := j.oneByOne()
		defer single.close()
		err := j.leavesFirst(func(t target) error { return single.add(t, zkconn.Add(j.p, zkconn.Delete(t.path, -1))) })
		return cmp.Or(err, single.rest())
	}
	err := j.leavesFirst(func(t target) error {
		if size += len(t.path) + 16; len(next) == batch || len(next) > 0 && size > batchBytes {
			if err := flush(); err != nil {
				return err
			}
			size = len(t.path) + 16
		}
		next = append(next, t)
		return nil
	})
	if err == nil {
		err = flush()
	}
	return cmp.Or(err, air.rest())
}

// removed takes the answer to a multi. Those of one that was refused go one by one.
func (j *job) removed(batch []target, _ zkconn.Written, err error) error {
	if err == nil {
		j.so.Done += len(batch)
		j.tell()
		return nil
	}
	single := j.oneByOne()
	defer single.close()
	for _, t := range batch {
		if err := single.add(t, zkconn.Add(j.p, zkconn.Delete(t.path, -1))); err != nil {
			return err
		}
	}
	return single.rest()
}

// oneByOne is a window for deletes of one znode each. One whose delete may have overtaken
// that of a child, which a busy server has refused at first, is deleted once more, in its
// turn.
func (j *job) oneByOne() *flights[target, zkconn.Written] {
	var f *flights[target, zkconn.Written]
	f = inFlight(j.ctx, graceful, singleWindow, func(t target, _ zkconn.Written, refusal error) error {
		if f.slowed && errors.Is(refusal, zkconn.NotEmpty) {
			var err error
			var outcome zkconn.Outcome
			if _, refusal, outcome, err = f.wait(zkconn.Add(j.p, zkconn.Delete(t.path, -1))); err != nil {
				j.tally(outcome)
				return interrupted(j.ctx, err)
			}
		}
		j.one(t, refusal)
		return nil
	})
	f.lost = func(_ target, outcome zkconn.Outcome) { j.tally(outcome) }
	return f
}

// tally counts changes without a conclusive answer.
func (j *job) tally(outcome zkconn.Outcome) { j.so.Outcome = j.so.Outcome.Plus(outcome) }

// one takes note of what has become of the delete of one znode. One that is not empty
// because nobody may see what is below it is refused for that.
func (j *job) one(t target, err error) {
	switch {
	case err == nil:
		j.so.Done++
	case errors.Is(err, zkconn.NoNode): // somebody else removed it
		j.gone++
	case errors.Is(err, zkconn.NotEmpty) && t.shut == nil:
		j.busy.Add(err)
	case errors.Is(err, zkconn.NotEmpty):
		j.refused(t.shut)
	default:
		j.refused(err)
	}
	j.tell()
}

// refused counts a znode that stays as it is.
func (j *job) refused(why error) {
	j.so.Rejected++
	j.so.Failures.Add(why)
}

// SetACL writes the access control list of every node of a subtree, parents
// last, so that a list which shuts its writer out does not cut it off from what
// is below, and returns how many it wrote. version is each node's ACL version;
// -1 is any. When something remains the error is a *PartialError, unless the root
// itself could not be read.
func SetACL(ctx context.Context, c zkconn.Client, root string, acl []zk.ACL, version int32, progress Progress) (int, error) {
	j := &job{ctx: ctx, c: c, progress: progress, so: PartialError{Verb: "changed the ACL of", Root: root}}
	air := inFlight(ctx, graceful, singleWindow, j.changed)
	air.lost = func(_ target, outcome zkconn.Outcome) { j.tally(outcome) }
	defer air.close()
	err := j.leavesFirst(func(t target) error { return air.add(t, zkconn.Add(j.p, zkconn.SetACL(t.path, acl, version))) })
	if err != nil && j.found == 0 {
		return 0, err
	}
	return j.so.Done, j.end(cmp.Or(err, air.rest()))
}

// changed takes the answer to a new ACL of one znode. If nobody could see what is below
// it, that has not been changed.
func (j *job) changed(t target, st *zk.Stat, err error) error {
	switch {
	case err == nil:
		if j.so.Done++; t.shut != nil && st.NumChildren > 0 {
			j.so.Failures.Add(t.shut)
		}
	case errors.Is(err, zkconn.NoNode):
		j.gone++
	default:
		j.refused(err)
	}
	j.tell()
	return nil
}

// UnreadError says that some znodes of a subtree may not be read.
type UnreadError struct {
	Root string
	Refusals
}

func (e *UnreadError) Error() string {
	return fmt.Sprintf("%s of %s could not be read: %s", Znodes(e.N), e.Root, e.Refusals.Error())
}

// OrNil is the error, if there is something that could not be read.
func (e *UnreadError) OrNil() error {
	if e.N == 0 {
		return nil
	}
	return e
}
