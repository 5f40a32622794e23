package zktree

import (
	"context"

	"github.com/zksh/zksh/internal/zkconn"
)

// Together makes all edits in one transaction, or none of them. The edits must not set ACLs, and must
// fit into one request. Like Apply, it compares the znodes with the states that the edits require.
// After a lost connection, it finds out whether the transaction took effect, and otherwise sends it
// again.
//
// maybe is true if the transaction may have taken effect although there is an error. If the error is
// a *QuotaError, the transaction would exceed a hard quota without the server noticing.
func Together(ctx context.Context, c zkconn.Client, edits []*Edit, target Target) (maybe bool, err error) {
	waiting, release := outlive(ctx)
	defer release()
	a := newApplier(ctx, c, target, LeaveAlone, nil)
	a.waiting = waiting
	if err := a.connect(); err != nil {
		return false, err
	}
	changes := make([]zkconn.Change, len(edits))
	for i, e := range edits {
		changes[i] = a.change(e)
	}
	if err := a.repeatedly(func() error { return CheckQuotas(ctx, c, changes) }); err != nil {
		return false, err
	}
	ready, err := a.verify(edits)
	if err == nil && target.Recorder != nil {
		ready, err = a.record(edits)
	}
	if err == nil {
		err = a.result.Changed.orNil()
	}
	if err == nil && len(ready) < len(edits) { // another client has deleted one of the znodes
		err = &ChangedError{Path: target.Path}
	}
	if err == nil {
		maybe, err = a.sendTogether(edits)
	}
	if !maybe {
		for _, e := range edits {
			a.after(e, err == nil)
		}
	}
	return maybe, err
}

// sendTogether sends the edits as one transaction, until it is known whether it took effect.
func (a *applier) sendTogether(edits []*Edit) (maybe bool, err error) {
	for {
		f := a.start(edits)
		err := a.wait(f)
		if err == nil || a.mayResume(err) != nil {
			return f.reply.Outcome().Unknown > 0, err
		}
		took, err := a.tookEffect(f, err)
		if err != nil || took {
			return err != nil, err
		}
	}
}

// tookEffect finds out whether a transaction took effect, after the connection was lost because of
// why.
func (a *applier) tookEffect(f *flying, why error) (bool, error) {
	if err := a.mayResume(why); err != nil {
		return false, err
	}
	a.losses++
	if err := a.connect(); err != nil || f.reply.Outcome().Unknown == 0 {
		return false, err
	}
	lost := map[*Edit]bool{}
	for _, e := range f.edits {
		lost[e] = true
	}
	ends, err := a.outcomes([]*flying{f}, lost)
	if err != nil {
		return a.tookEffect(f, err)
	}
	took, tookNot := 0, 0
	for _, end := range ends {
		switch end {
		case made:
			took++
		case rejected:
			tookNot++
		}
	}
	if took > 0 == (tookNot > 0) { // other clients have changed the znodes since
		return false, why
	}
	return took > 0, nil
}
