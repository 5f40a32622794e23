package zktree

import (
	"cmp"
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/zkconn"
)

// maxRounds is the maximum number of passes over a subtree while other clients keep creating znodes.
const maxRounds = 5

// A subtreeJob is an operation on every znode of a subtree, together with its result so far.
type subtreeJob struct {
	ctx        context.Context
	c          zkconn.Client
	rec        Recorder // nil if nothing is recorded
	progress   Progress
	batch      int // maximum number of edits in one multi
	result     PartialError
	doneBefore int      // number of znodes done in earlier rounds
	found      int      // number of znodes found in this round
	vanished   int      // number of found znodes that another client deleted first
	notEmpty   Refusals // errors of deletes that were rejected because the znode still had children
}

// leavesFirst makes an edit of each znode of the subtree, children before their parents. It does not
// depend on the states of the znodes.
func (j *subtreeJob) leavesFirst(edit func(path string) *Edit) error {
	j.result.Whole = false
	if j.rec != nil {
		edits, whole, err := j.record(edit)
		if err != nil {
			j.found = 0 // nothing of this round was tried
			return unrecorded(j.ctx, err)
		}
		if whole {
			j.result.Whole = true
			return j.apply(Seq(reversed(edits)))
		}
		j.rec = nil // the user goes on although nothing is recorded
	}
	all, err := Walk(j.ctx, j.c, j.result.Root, Options{Progress: func(_, total int) { j.found = total }})
	if err != nil {
		return err
	}
	return j.apply(func(yield func(*Edit, error) bool) {
		for z, refusal := range ChildrenFirst(all) {
			if z == nil {
				yield(nil, refusal)
				return
			}
			e := edit(z.Path)
			if e.hidden = refusal; !yield(e, nil) {
				return
			}
		}
		j.result.Whole = true
	})
}

// record records all znodes of the subtree before the first one is changed. It returns an edit of
// each, parents before their children. whole is false if the Recorder has not recorded all of them.
func (j *subtreeJob) record(edit func(path string) *Edit) (edits []*Edit, whole bool, err error) {
	err = zkconn.Exec(j.ctx, j.c, zkconn.Sync(j.result.Root)) // wait for the latest writes of other clients
	if err != nil {
		return nil, false, err
	}
	j.found = 0
	err = j.rec.Before(j.ctx, func(yield func(*Image, error) bool) {
		for z, err := range ServerTree(j.ctx, j.c, j.result.Root, nil).Nodes {
			if z == nil {
				yield(nil, err)
				return
			}
			e := edit(z.Path)
			if z.Stat != nil && (e.version() < 0 || e.requires(z.Stat)) { // otherwise, the server rejects it
				e.pin(z.Stat)
			}
			e.hidden, e.saved = err, true
			edits = append(edits, e)
			j.found++
			if !yield(&Image{Edit: e, Znode: z, Err: cmp.Or(err, isHidden(z))}, nil) {
				return
			}
		}
		whole = true
	})
	return edits, whole, err
}

// apply makes the edits, and counts what became of them.
func (j *subtreeJob) apply(edits Edits) error {
	a := newApplier(j.ctx, j.c, Target{Path: j.result.Root, Name: j.result.Root, Recorder: j.rec}, LeaveAlone, nil)
	a.report, a.batch = j.count, j.batch
	_, err := a.run(edits)
	j.result.Outcome.Unknown += a.result.Outcome.Unknown
	if stopped, is := errors.AsType[*PartialError](err); is {
		return stopped.Cause // count has counted the edits that were not made
	}
	return err
}

// count counts what became of an edit. If the znode has children that the session has no permission
// to list, it stores the error from listing them.
func (j *subtreeJob) count(e *Edit, end outcome, why error) {
	switch {
	case end == made:
		j.result.Outcome.Done++
		if e.hidden != nil && e.now != nil && e.now.NumChildren > 0 {
			j.result.Add(e.hidden)
		}
	case end == unclear: // leavesFirst counts these
	case end == absent, errors.Is(why, zkconn.NoNode): // another client deleted the znode first
		j.vanished++
	case e.Does == Deletes && (end == changed || errors.Is(why, zkconn.NotEmpty) && e.hidden == nil):
		j.notEmpty.Add(why) // it is deleted in the next round
	case errors.Is(why, zkconn.NotEmpty):
		j.countRejected(e.hidden)
	default:
		j.countRejected(why)
	}
	j.progress.report(j.result.Outcome.Done, j.total())
}

// countRejected counts a znode that the server did not change, and stores the reason.
func (j *subtreeJob) countRejected(why error) {
	j.result.Outcome.Rejected++
	j.result.Add(why)
}

func (j *subtreeJob) total() int { return j.doneBefore + j.found - j.vanished }

// finish returns nil if the operation succeeded for every znode. Otherwise it returns the result as
// an error. cause is the error that stopped the operation early, or nil.
func (j *subtreeJob) finish(cause error) error {
	j.result.Total = j.total()
	if j.result.Cause = cause; cause == nil && j.result.N+j.result.Outcome.Unknown == 0 {
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
//
// With a Recorder, Delete records the whole subtree before it deletes anything, and deletes each znode
// only in the state that was recorded.
func Delete(
	ctx context.Context, c zkconn.Client, root string, batch int, rec Recorder, progress Progress,
) (int, error) {
	j := &subtreeJob{ctx: ctx, c: c, rec: rec, progress: progress, batch: max(1, batch)}
	j.result.Verb, j.result.Root = "deleted", root
	for round := 1; ; round++ {
		again, err := j.deleteRound(round)
		if err != nil || !again {
			return j.result.Outcome.Done, err
		}
	}
}

// deleteRound reads and deletes the subtree once. n is the number of the round, counted from 1.
// again is true if another round is needed, because other clients created znodes during this one.
func (j *subtreeJob) deleteRound(n int) (again bool, err error) {
	j.doneBefore, j.found, j.vanished, j.notEmpty = j.result.Outcome.Done, 0, 0, Refusals{}
	err = j.leavesFirst(func(path string) *Edit { return &Edit{Does: Deletes, Path: path, Old: &dump.Znode{}} })
	switch {
	case n > 1 && j.found == 0 && errors.Is(err, zkconn.NoNode):
		return false, nil
	case n == 1 && j.found == 0 && err != nil: // the root could not be read
		return false, err
	case err != nil, j.result.N > 0: // these errors explain why the parents are not empty
		return false, j.finish(err)
	case j.notEmpty.N > 0 && n < maxRounds:
		return true, nil
	}
	j.result.Refusals = j.notEmpty
	return false, j.finish(nil)
}

// SetACL sets the ACL of every znode of a subtree, children before their parents, and returns the
// number of znodes that it changed. With this order, an ACL that denies the session access to a
// parent does not prevent the changes below it.
//
// version is the ACL version that each znode must have, or -1 for any. If some znode was not
// changed, the error is a *PartialError, unless the root itself could not be read.
func SetACL(
	ctx context.Context, c zkconn.Client, root string, acl []zk.ACL, version int32, rec Recorder, progress Progress,
) (int, error) {
	j := &subtreeJob{ctx: ctx, c: c, rec: rec, progress: progress, batch: DefaultBatch}
	j.result.Verb, j.result.Root = "changed the ACL of", root
	old, wanted := &dump.Znode{}, &dump.Znode{ACL: acl}
	if version >= 0 {
		old.Stat = &zk.Stat{Aversion: version}
	}
	err := j.leavesFirst(func(path string) *Edit { return &Edit{Does: SetsACL, Path: path, Old: old, New: wanted} })
	if err != nil && j.found == 0 {
		return 0, err
	}
	return j.result.Outcome.Done, j.finish(err)
}
