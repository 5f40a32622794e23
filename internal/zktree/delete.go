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

// DefaultBatch is the default number of deletes in one multi. zkCli uses the same number.
const DefaultBatch = 1000

const (
	deleteWindow = 8 // maximum number of multis in flight
	maxRounds    = 5 // maximum number of passes while other clients keep creating znodes
)

// Refusals collects the errors of requests that were rejected: by the server or, if they were too
// large to be sent, by zksh. It stores the first few errors and counts all of them.
type Refusals struct {
	First    []error // the first errors; at most namedRefusals
	N        int
	TooLarge int // number of errors that are a *zkconn.TooLargeError
}

// namedRefusals is the maximum number of errors that a Refusals stores and prints.
const namedRefusals = 20

// Add counts an error, and stores it if it is one of the first namedRefusals errors.
func (r *Refusals) Add(err error) {
	if r.N++; r.N <= namedRefusals {
		r.First = append(r.First, err)
	}
	if errors.As(err, new(*zkconn.TooLargeError)) {
		r.TooLarge++
	}
}

// count returns the number of rejected requests as text, and says who rejected them.
func (r *Refusals) count() string {
	switch byServer := r.N - r.TooLarge; {
	case r.TooLarge == 0:
		return fmt.Sprintf("the server rejected %d", byServer)
	case byServer == 0:
		return fmt.Sprintf("zksh rejected %d", r.TooLarge)
	default:
		return fmt.Sprintf("the server rejected %d and zksh %d", byServer, r.TooLarge)
	}
}

// Error lists the stored errors, and states the number of further errors.
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

// Unwrap returns the stored errors.
func (r *Refusals) Unwrap() []error { return r.First }

// A PartialError reports that an operation on a subtree affected only some of its znodes.
type PartialError struct {
	Verb string // past participle of the operation, such as "deleted"
	Root string
	zkconn.Outcome
	Total    int  // number of znodes found in the subtree
	Whole    bool // whether the subtree was read completely, so that Total counts all of its znodes
	Failures Refusals
	Cause    error // reason why the operation stopped early, or nil if it tried every znode
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

// Unwrap returns the cause, if there is one, followed by the failures.
func (e *PartialError) Unwrap() []error {
	if e.Cause == nil {
		return e.Failures.First
	}
	return append([]error{e.Cause}, e.Failures.First...)
}

// A subtreeJob is an operation on every znode of a subtree, together with its result so far.
type subtreeJob struct {
	ctx        context.Context
	c          zkconn.Client
	p          *zkconn.Pipe
	progress   Progress
	result     PartialError
	doneBefore int      // number of znodes done in earlier rounds
	found      int      // number of znodes found in this round
	vanished   int      // number of found znodes that another client deleted first
	notEmpty   Refusals // errors of deletes that were rejected because the znode still had children
}

// A target is a znode to be deleted or changed.
type target struct {
	path       string
	unreadable error // error from listing the children of the znode, or nil
}

// leavesFirst calls visit for each znode of the subtree. It calls visit for a znode after all
// descendants of that znode.
func (j *subtreeJob) leavesFirst(visit func(target) error) error {
	j.result.Whole = false
	src, err := OnServer(j.ctx, j.c, j.result.Root, false)
	if err != nil {
		return err
	}
	if j.p, err = j.c.Pipe(j.ctx, j.result.Root); err != nil {
		return err
	}
	w, err := Begin(j.ctx, src, j.result.Root, Options{Progress: func(_, total int) { j.found = total }})
	if err != nil {
		return err
	}
	for s, err := range w.Steps() {
		if err == nil && (s.Kind == Leave || s.Kind == Enter && len(s.Names) == 0) {
			err = visit(target{s.Path(), s.Err})
		}
		if err != nil {
			return err
		}
	}
	j.result.Whole = true
	return nil
}

func (j *subtreeJob) reportProgress() { j.progress.report(j.result.Done, j.total()) }

func (j *subtreeJob) total() int { return j.doneBefore + j.found - j.vanished }

// finish returns nil if the operation succeeded for every znode. Otherwise it returns the result as
// an error. cause is the error that stopped the operation early, or nil.
func (j *subtreeJob) finish(cause error) error {
	j.result.Total = j.total()
	if j.result.Cause = cause; cause == nil && j.result.Failures.N == 0 {
		return nil
	}
	return &j.result
}

// Delete deletes a subtree, leaves first, and returns the number of znodes that it deleted. It
// sends multis of at most batch deletes, or single deletes if batch is below 1. The first deletes
// are sent while the rest of the subtree is still being read.
//
// Other clients may change the subtree at the same time. Delete ignores znodes that they delete
// first, and also deletes znodes that they create. If any znode remains, the error is a
// *PartialError, unless the root itself could not be read.
func Delete(ctx context.Context, c zkconn.Client, root string, batch int, progress Progress) (int, error) {
	j := &subtreeJob{ctx: ctx, c: c, progress: progress, result: PartialError{Verb: "deleted", Root: root}}
	for round := 1; ; round++ {
		again, err := j.deleteRound(round, batch)
		if err != nil || !again {
			return j.result.Done, err
		}
	}
}

// deleteRound reads and deletes the subtree once. n is the number of the round, counted from 1.
// again is true if another round is needed, because other clients created znodes during this one.
func (j *subtreeJob) deleteRound(n, batch int) (again bool, err error) {
	j.doneBefore, j.found, j.vanished, j.notEmpty = j.result.Done, 0, 0, Refusals{}
	err = j.deleteOnce(batch)
	switch {
	case n > 1 && j.found == 0 && errors.Is(err, zkconn.NoNode):
		return false, nil
	case n == 1 && j.found == 0 && err != nil: // the root could not be read
		return false, err
	case err != nil, j.result.Failures.N > 0: // these errors explain why the parents are not empty
		return false, j.finish(err)
	case j.notEmpty.N > 0 && n < maxRounds:
		return true, nil
	}
	j.result.Failures = j.notEmpty
	return false, j.finish(nil)
}

// deleteOnce deletes the subtree in multis. If a multi fails, its znodes are deleted one by one.
//
// The server executes a session's requests in order, so it deletes children before their parents.
// There is one exception. If an overloaded server rejects a multi, zksh sends it again. Meanwhile,
// later multis overtake it and fail, and their znodes are then deleted one by one.
func (j *subtreeJob) deleteOnce(batch int) error {
	size := 0
	var next []target
	pending := newFlights(j.ctx, writeGrace, deleteWindow, j.handleBatch)
	pending.onLost = func(_ []target, outcome zkconn.Outcome) { j.addOutcome(outcome) }
	defer pending.close()
	flush := func() error {
		if len(next) == 0 {
			return nil
		}
		paths := make([]string, len(next))
		for i, t := range next {
			paths[i] = t.path
		}
		err := pending.add(next, zkconn.Add(j.p, zkconn.MultiDelete(paths)))
		next, size = nil, 0
		return err
	}
	if batch < 1 {
		single := j.singleDeletes()
		defer single.close()
		err := j.leavesFirst(func(t target) error { return single.add(t, zkconn.Add(j.p, zkconn.Delete(t.path, -1))) })
		return cmp.Or(err, single.drain())
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
	return cmp.Or(err, pending.drain())
}

// handleBatch handles the reply to a multi of deletes. If the multi failed, it deletes the znodes
// one by one.
func (j *subtreeJob) handleBatch(batch []target, _ zkconn.Written, err error) error {
	if err == nil {
		j.result.Done += len(batch)
		j.reportProgress()
		return nil
	}
	single := j.singleDeletes()
	defer single.close()
	for _, t := range batch {
		if err := single.add(t, zkconn.Add(j.p, zkconn.Delete(t.path, -1))); err != nil {
			return err
		}
	}
	return single.drain()
}

// singleDeletes returns a queue for requests that delete one znode each. If an overloaded server
// rejects the delete of a child, zksh sends that delete again. Meanwhile, the delete of the parent
// fails because the parent is not empty. In that case, the delete of the parent is sent again, too.
func (j *subtreeJob) singleDeletes() *flights[target, zkconn.Written] {
	var f *flights[target, zkconn.Written]
	f = newFlights(j.ctx, writeGrace, singleWindow, func(t target, _ zkconn.Written, refusal error) error {
		if f.slowed && errors.Is(refusal, zkconn.NotEmpty) {
			var err error
			var outcome zkconn.Outcome
			if _, refusal, outcome, err = f.wait(zkconn.Add(j.p, zkconn.Delete(t.path, -1))); err != nil {
				j.addOutcome(outcome)
				return interrupted(j.ctx, err)
			}
		}
		j.countDelete(t, refusal)
		return nil
	})
	f.onLost = func(_ target, outcome zkconn.Outcome) { j.addOutcome(outcome) }
	return f
}

// addOutcome counts changes that were sent but neither confirmed nor rejected by the server.
func (j *subtreeJob) addOutcome(outcome zkconn.Outcome) {
	j.result.Outcome = j.result.Outcome.Plus(outcome)
}

// countDelete counts the result of deleting one znode. If the znode has children that the session
// has no permission to list, countDelete stores the error from listing them.
func (j *subtreeJob) countDelete(t target, err error) {
	switch {
	case err == nil:
		j.result.Done++
	case errors.Is(err, zkconn.NoNode): // another client deleted the znode first
		j.vanished++
	case errors.Is(err, zkconn.NotEmpty) && t.unreadable == nil:
		j.notEmpty.Add(err)
	case errors.Is(err, zkconn.NotEmpty):
		j.countRejected(t.unreadable)
	default:
		j.countRejected(err)
	}
	j.reportProgress()
}

// countRejected counts a znode that the server did not change, and stores the reason.
func (j *subtreeJob) countRejected(why error) {
	j.result.Rejected++
	j.result.Failures.Add(why)
}

// SetACL sets the ACL of every znode of a subtree, children before their parents, and returns the
// number of znodes that it changed. With this order, an ACL that denies the session access to a
// parent does not prevent the changes below it.
//
// version is the ACL version that each znode must have, or -1 for any. If some znode was not
// changed, the error is a *PartialError, unless the root itself could not be read.
func SetACL(ctx context.Context, c zkconn.Client, root string, acl []zk.ACL, version int32, progress Progress) (int, error) {
	j := &subtreeJob{ctx: ctx, c: c, progress: progress, result: PartialError{Verb: "changed the ACL of", Root: root}}
	pending := newFlights(ctx, writeGrace, singleWindow, j.handleACL)
	pending.onLost = func(_ target, outcome zkconn.Outcome) { j.addOutcome(outcome) }
	defer pending.close()
	err := j.leavesFirst(func(t target) error { return pending.add(t, zkconn.Add(j.p, zkconn.SetACL(t.path, acl, version))) })
	if err != nil && j.found == 0 {
		return 0, err
	}
	return j.result.Done, j.finish(cmp.Or(err, pending.drain()))
}

// handleACL handles the reply to a request that sets the ACL of one znode. If the children of the
// znode could not be listed, their ACLs are unchanged, which counts as a failure.
func (j *subtreeJob) handleACL(t target, st *zk.Stat, err error) error {
	switch {
	case err == nil:
		if j.result.Done++; t.unreadable != nil && st.NumChildren > 0 {
			j.result.Failures.Add(t.unreadable)
		}
	case errors.Is(err, zkconn.NoNode):
		j.vanished++
	default:
		j.countRejected(err)
	}
	j.reportProgress()
	return nil
}

// An UnreadError reports that some znodes of a subtree could not be read.
type UnreadError struct {
	Root string
	Refusals
}

func (e *UnreadError) Error() string {
	return fmt.Sprintf("%s of %s could not be read: %s", Znodes(e.N), e.Root, e.Refusals.Error())
}

// OrNil returns e, or nil if every znode could be read.
func (e *UnreadError) OrNil() error {
	if e.N == 0 {
		return nil
	}
	return e
}
