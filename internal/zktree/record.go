package zktree

import (
	"cmp"
	"context"
	"errors"
	"iter"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/zkconn"
)

// A Recorder records what edits change, so that undo can revert it.
type Recorder interface {
	// Before records the states of znodes before their edits are sent. If it returns an error, none of
	// these edits are sent.
	Before(ctx context.Context, images iter.Seq2[*Image, error]) error
	// After records what became of an edit. It is not called for an edit whose outcome is unknown.
	After(e *Edit, result Result)
}

// A Result is the outcome of an edit, if it is known.
type Result struct {
	Made  bool
	Path  string // path of the created znode, which for a sequential one is longer than that of the edit
	Czxid int64  // czxid of the created znode, or 0
}

// An Image is an edit that is about to be sent, together with the state of its znode.
type Image struct {
	*Edit
	Znode *dump.Znode // nil if the znode does not exist, or if Apply itself has just created it
	Err   error       // reason why the Znode is incomplete, or nil

	Alone      bool // whether the command consists of this single edit
	Sequential bool // whether the server appends a sequence number to the path of the new znode
}

// readsBefore reports whether the znode of an edit must be read for a Recorder.
func (e *Edit) readsBefore() bool { return e.Does != Creates && !e.closes && !e.follows && !e.saved }

// pin makes the edit require a certain state of its znode, which is the one that was recorded.
func (e *Edit) pin(st *zk.Stat) {
	if e.oldStat().Czxid == 0 {
		e.anyState = e.version() < 0
		e.Old = &dump.Znode{Path: e.Path, Stat: st}
	}
}

// record passes the edits of a batch to the Recorder, together with the present states of their
// znodes. It returns the edits whose znodes are in the states that the edits require, and handles the
// others.
func (a *applier) record(batch []*Edit) (ready []*Edit, err error) {
	var failed error
	take := func(yield func(*Image, error) bool) {
		for more := true; more && len(batch) > 0; {
			chunk := batch[:min(len(batch), readBatch)]
			batch = batch[len(chunk):]
			images, err := a.images(chunk)
			if err != nil {
				failed = err
				yield(nil, err)
				return
			}
			for _, image := range images {
				ready = append(ready, image.Edit)
				more = more && (image.saved || yield(image, nil))
			}
		}
	}
	if err = a.target.Recorder.Before(a.ctx, take); err == nil { // it may have taken only a part
		take(func(*Image, error) bool { return true })
	}
	if err = cmp.Or(failed, err); err != nil {
		return nil, err
	}
	for _, e := range ready {
		e.saved = true
	}
	return ready, nil
}

// images reads the znodes of some edits. It leaves out the edits whose znodes are not as required.
func (a *applier) images(batch []*Edit) (all []*Image, err error) {
	var reading []*Edit
	for _, e := range batch {
		if e.pair != nil && e.pair.before != nil && !e.saved { // the other edit may have made the znode unreadable
			e.pin(e.pair.before)
			e.follows = true
		}
		if e.readsBefore() {
			reading = append(reading, e)
		}
	}
	var read []*Image
	if reading != nil {
		if read, err = a.read(reading); err != nil {
			return nil, err
		}
	}
	for _, e := range batch {
		image := &Image{Edit: e}
		if e.readsBefore() {
			image, err = a.imageAsRequired(read[0])
			read = read[1:]
		}
		if err != nil {
			return nil, err
		}
		if image != nil {
			all = append(all, image)
		}
	}
	return all, nil
}

// imageAsRequired returns the image. If the znode is not as the edit requires, it handles the edit and
// returns nil.
func (a *applier) imageAsRequired(image *Image) (*Image, error) {
	e, z := image.Edit, image.Znode
	switch {
	case z == nil && e.Does == Deletes: // another client deleted the znode first
		a.tell(e, absent, &zkconn.Error{Code: zkconn.NoNode, Path: e.Path})
		return nil, nil
	case z == nil:
		return nil, a.handleChanged(e, &zkconn.Error{Code: zkconn.NoNode, Path: e.Path})
	case z.Stat != nil && e.version() >= 0 && !e.requires(z.Stat):
		return nil, a.handleChanged(e, &ChangedError{Path: e.Path})
	case z.Stat != nil:
		e.pin(z.Stat)
	}
	if e.pair != nil && image.Err == nil {
		e.pair.before = z.Stat
	}
	return image, nil
}

// after tells the Recorder what became of an edit.
func (a *applier) after(e *Edit, made bool) {
	if a.target.Recorder != nil {
		a.target.Recorder.After(e, Result{Made: made, Path: e.Path, Czxid: e.czxid})
	}
}

// Single makes a single edit of an existing znode. It calls send with the version that the edit
// requires. With a Recorder, this is the version that was recorded: if another client changes the
// znode in between, and the edit itself requires no version, Single records the znode again and
// repeats send.
func Single(
	ctx context.Context, s *zkconn.Session, rec Recorder, e *Edit, send func(ctx context.Context, version int32) error,
) error {
	required := e.version()
	if rec == nil {
		return send(ctx, required)
	}
	for synced := false; ; {
		image, err := imageOf(ctx, s, e)
		if err == nil {
			err = Alone(ctx, rec, image, func(ctx context.Context) (Result, error) {
				return Result{}, send(ctx, cmpVersion(image, required))
			})
			if required >= 0 || !errors.Is(err, zkconn.BadVersion) {
				return err
			}
			continue
		}
		stale := errors.Is(err, zkconn.NoNode) || errors.Is(err, zkconn.BadVersion)
		if !stale || synced { // otherwise, the server may only lag behind the leader
			return unrecorded(ctx, err)
		}
		if err := zkconn.Exec(ctx, s, zkconn.Sync(e.Path)); err != nil {
			return unrecorded(ctx, err)
		}
		synced = true
	}
}

// cmpVersion returns the version that a request must require: that of the image, unless it is unknown.
func cmpVersion(image *Image, required int32) int32 {
	switch {
	case image.Znode.Stat == nil:
		return required
	case image.setsACL():
		return image.Znode.Stat.Aversion
	}
	return image.Znode.Stat.Version
}

// imageOf reads the znode of a single edit.
func imageOf(ctx context.Context, s *zkconn.Session, e *Edit) (*Image, error) {
	images, err := readAgain(ctx, s.Client, []*Edit{e})
	if err != nil {
		return nil, err
	}
	image := images[0]
	image.Alone = true
	if image.Znode == nil {
		return nil, &zkconn.Error{Code: zkconn.NoNode, Path: e.Path}
	}
	if v := e.version(); v >= 0 && image.Znode.Stat != nil && cmpVersion(image, v) != v {
		of := zkconn.DataVersion
		if e.setsACL() {
			of = zkconn.ACLVersion
		}
		return nil, &zkconn.Error{Code: zkconn.BadVersion, Path: e.Path, Versions: &zkconn.Versions{
			Of: of, Expected: int64(v), Actual: int64(cmpVersion(image, v)), Known: true,
		}}
	}
	return image, nil
}

// An UnrecordedError reports that a command was interrupted while it read znodes in order to record
// them. It has changed nothing yet.
type UnrecordedError struct{ Err error }

// unrecorded returns the error of reading znodes in order to record them.
func unrecorded(ctx context.Context, err error) error {
	if err == nil || context.Cause(ctx) == nil {
		return err
	}
	return &UnrecordedError{err}
}

func (e *UnrecordedError) Error() string { return e.Err.Error() }

// Unwrap returns the error.
func (e *UnrecordedError) Unwrap() error { return e.Err }

// Alone records an edit, calls send, which makes it with a request of its own, and records what became
// of it.
func Alone(ctx context.Context, rec Recorder, image *Image, send func(context.Context) (Result, error)) error {
	if rec == nil {
		_, err := send(ctx)
		return err
	}
	if err := rec.Before(ctx, Seq([]*Image{image})); err != nil {
		return err
	}
	var outcome zkconn.Recorder
	result, err := send(outcome.Context(ctx))
	if result.Made = outcome.Written().Done > 0; result.Made || !outcome.Written().MayHaveHappened() {
		rec.After(image.Edit, result)
	}
	return err
}

// Sent records the edits of one transaction, calls send, which sends them, and records what became of
// them. send returns the path and the czxid of each created znode.
func Sent(
	ctx context.Context, rec Recorder, s *zkconn.Session, edits []*Edit,
	send func() (zkconn.Outcome, []Result, error),
) error {
	if rec == nil {
		_, _, err := send()
		return err
	}
	touched := map[string]bool{}
	for _, e := range edits {
		e.follows = touched[e.Path]
		touched[e.Path] = true
	}
	a := newApplier(ctx, s.Client, Target{Recorder: rec}, LeaveAlone, nil)
	err := a.connect()
	if err == nil {
		_, err = a.record(edits)
	}
	if err != nil {
		return err
	}
	outcome, results, err := send()
	if outcome.Unknown > 0 {
		return err
	}
	for i, e := range edits {
		results[i].Made = outcome.Done > 0
		rec.After(e, results[i])
	}
	return err
}
