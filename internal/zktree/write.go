package zktree

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/zkconn"
)

// A Policy determines what a Writer does if a znode to be created already exists. It matters even
// to commands that compare the trees first, because other clients may create znodes meanwhile.
type Policy int

// Ways to handle an existing znode.
const (
	Refuse    Policy = iota // fail
	Skip                    // leave the existing znode unchanged
	Overwrite               // replace the data and the ACL of the existing znode
)

// writeBytes is the maximum size of a multi, in bytes. It is well below a server's frame limit of
// 1 MiB. A larger edit is sent in a multi of its own.
const writeBytes = 256 << 10

// A Writer applies edits to a subtree on a server, in the order of the calls of Do. It sends them
// in multis, which are atomic, with several in flight. If the server rejects a multi, the Writer
// sends its edits one by one, so that one invalid edit does not prevent the others.
//
// It sends edits that are certain to be within the hard quotas of the subtree in multis, and waits
// for the reply to every other edit, so that the server can decide about each of them.
type Writer struct {
	ctx        context.Context
	p          *zkconn.Pipe
	c          zkconn.Client
	target     Target
	quotas     *hardQuotas // nil if there are none, or if the server does not enforce them
	quotasRead bool
	onExisting Policy
	progress   Progress

	next            []Edit // edits that will be sent in the next multi
	size            int    // estimated size of next, in bytes
	pending         *flights[[]Edit, zkconn.Written]
	overwrites      []Edit  // edits that replace existing znodes; sent after the current multi
	deferredACLs    []grant // new ACLs; they are set last, because they may deny the session access
	deferredData    []Edit  // new data that the old ACLs forbid; written after the new ACLs
	retrying        bool    // whether deferredData is being written
	unauthenticated bool    // whether the session has no identity that an ACL could contain

	countedByACL map[string]bool // paths that were counted when their ACL was set, before their data
	lastSet      string          // path of the znode whose data was set last
	asked        int             // number of edits passed to Do so far, for the progress report
	result       WriteError
	notCreated   map[string]bool // paths of znodes that were rejected, and of their descendants
}

// A WriteError reports that a Writer could not apply all edits.
type WriteError struct {
	Root     string
	Done     Counts
	Outcome  zkconn.Outcome // outcomes of all writes that were tried
	Refusals                // rejected edits with their paths, except those counted in Below
	Below    int            // number of znodes not created because an ancestor was rejected
	Open     int            // number of znodes to whose ACL the session's identity is still added
	Cause    error          // reason why the Writer stopped early, or nil if it tried every edit
}

func (e *WriteError) Error() string {
	if e.N == 1 && e.Done == (Counts{}) && e.Outcome.Unknown+e.Open == 0 && e.Cause == nil { // all other znodes are descendants of the rejected one
		return fmt.Sprintf("nothing was written to %s: %s", e.Root, e.Refusals.Error())
	}
	text := fmt.Sprintf("wrote %s to %s", Znodes(e.Done.Total()-e.Done.Skipped), e.Root)
	if e.Outcome.Unknown > 0 {
		text += fmt.Sprintf(", and possibly %d more", e.Outcome.Unknown)
	}
	if e.Below > 0 {
		text += fmt.Sprintf("; %d were not written, because one of their ancestors was rejected", e.Below)
	}
	if e.Open > 0 {
		text += fmt.Sprintf("; the ACLs of %d still contain an entry for this session, which zksh adds only for the time of the write", e.Open)
	}
	if e.N > 0 {
		text += fmt.Sprintf("; %s: %s", e.count(), e.Refusals.Error())
	}
	if e.Cause != nil {
		text += ": " + e.Cause.Error()
	}
	return text
}

// isEmpty reports whether the error contains no information except for its cause.
func (e *WriteError) isEmpty() bool {
	return e.Done == Counts{} && e.Below+e.Outcome.Unknown+e.Open+e.N == 0
}

// Unwrap returns the cause, if there is one, followed by the rejections.
func (e *WriteError) Unwrap() []error {
	if e.Cause == nil {
		return e.First
	}
	return append([]error{e.Cause}, e.First...)
}

// A Target is the subtree to which a Writer writes.
type Target struct {
	Path string
	Name string // name of the subtree in error messages, which may contain the name of a cluster
}

// NewWriter returns a Writer for the server of c. All edits must be at or below the target. The
// caller must call Close.
func NewWriter(
	ctx context.Context, c zkconn.Client, target Target, onExisting Policy, progress Progress,
) (*Writer, error) {
	p, err := c.Pipe(ctx, target.Name)
	if err != nil {
		return nil, err
	}
	w := &Writer{
		ctx: ctx, p: p, c: c, target: target, onExisting: onExisting, progress: progress,
		result: WriteError{Root: target.Name}, notCreated: map[string]bool{}, countedByACL: map[string]bool{},
	}
	w.pending = newFlights(ctx, writeGrace, deleteWindow, w.handleMulti)
	w.pending.onLost = func(_ []Edit, outcome zkconn.Outcome) { w.addOutcome(outcome) }
	return w, nil
}

// Write calls apply with a new Writer. It then closes the Writer and returns the result of Close.
func Write(
	ctx context.Context, c zkconn.Client, target Target, onExisting Policy, progress Progress,
	apply func(*Writer) error,
) (Counts, error) {
	w, err := NewWriter(ctx, c, target, onExisting, progress)
	if err != nil {
		return Counts{}, err
	}
	return w.Close(apply(w))
}

// Do applies edits in order, and may delay them until Close. It creates persistent znodes in place
// of ephemeral ones. If the ACL of a new znode might not permit the session to create children, Do
// temporarily adds the session's identity to the ACL. Close removes the identity. If Do returns an
// error, the caller must pass it to Close, which also reports rejections by the server.
func (w *Writer) Do(edits ...Edit) error {
	for _, e := range edits {
		err := error(nil)
		switch e.Does {
		case Creates, Sets, Deletes:
			err = w.add(e)
		case Opens:
			err = w.setACLNow(e)
		case SetsACL:
			w.deferredACLs = append(w.deferredACLs, grant{path: e.Path, acl: e.acl(), version: e.Version, counted: e.Also})
			w.asked++
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Apply applies all edits except for deletions. It returns the deletions, so that the user can
// confirm them before they are applied.
func (w *Writer) Apply(edits iter.Seq2[Edit, error]) (deletions []Edit, err error) {
	for e, err := range edits {
		switch {
		case err != nil:
		case e.Does == Deletes:
			deletions = append(deletions, e)
		default:
			err = w.Do(e)
		}
		if err != nil {
			return nil, err
		}
	}
	return deletions, nil
}

// change returns the Change for an edit. It depends on the results of earlier edits.
func (w *Writer) change(t Edit) zkconn.Change {
	switch t.Does {
	case Sets, replaces:
		return zkconn.NewData(t.Path, t.Znode.Data, t.Version)
	case Deletes:
		return zkconn.Removal(t.Path, t.Version)
	}
	acl := t.acl()
	if w.addsIdentity(t) {
		acl = append(slices.Clone(acl), zk.ACL{Perms: zk.PermCreate | zk.PermAdmin, Scheme: "auth"})
	}
	mode := zkconn.CreateMode{Container: t.Znode.Kind == dump.Container}
	if t.Znode.Kind == dump.TTL {
		mode.TTL = t.Znode.TTL
	}
	return zkconn.Creation(t.Path, t.Znode.Data, acl, mode)
}

// addsIdentity reports whether the Writer temporarily adds the session's identity to a new ACL.
func (w *Writer) addsIdentity(t Edit) bool {
	return t.Does == Creates && !w.unauthenticated && ShutsOut(t.Znode)
}

// add adds an edit to the next multi. If there is no room for it in that multi, add sends the multi
// first.
func (w *Writer) add(t Edit) error {
	size := 64 + len(t.Path)
	if z := t.Znode; z != nil {
		size += len(z.Data)
		for _, a := range z.ACL {
			size += 16 + len(a.Scheme) + len(a.ID)
		}
	}
	if len(w.next) == DefaultBatch || len(w.next) > 0 && w.size+size > writeBytes {
		if err := w.flush(); err != nil {
			return err
		}
	}
	w.next = append(w.next, t)
	w.size += size
	w.asked++
	return nil
}

func (w *Writer) flush() error {
	batch := w.next
	w.next, w.size = nil, 0
	return w.sendWithinQuotas(batch, func(batch []Edit) error { return w.pending.add(batch, w.send(batch...)) })
}

// sendWithinQuotas calls send with as many edits as are certain to be within the hard quotas. It
// sends each of the other edits alone.
func (w *Writer) sendWithinQuotas(batch []Edit, send func([]Edit) error) (err error) {
	if !w.quotasRead && len(batch) > 0 {
		if w.quotas, err = readQuotas(w.ctx, w.c, w.target.Path); err != nil {
			return err
		}
		w.quotasRead = true
	}
	for len(batch) > 0 && err == nil {
		n := 0
		for n < len(batch) && (w.quotas == nil || w.quotas.take(w.change(batch[n]))) {
			n++
		}
		if n == 0 {
			err, n = w.sendAlone(batch[0]), 1
		} else {
			err = send(batch[:n])
		}
		batch = batch[n:]
	}
	return err
}

// sendAlone sends an edit that might exceed a hard quota, while no other request is in flight. If
// the server accepts edits although the quota is used up, it does not enforce quotas, and the Writer
// ignores them from then on.
func (w *Writer) sendAlone(t Edit) error {
	if err := w.pending.drain(); err != nil {
		return err
	}
	quota := w.quotas.of(t.Path)
	if _, err := w.quotas.refresh(w.ctx, quota); err != nil {
		return err
	}
	before, done := *quota, w.result.Outcome.Done
	if err := w.applySingly([]Edit{t}); err != nil || w.result.Outcome.Done == done {
		return err
	}
	if _, err := w.quotas.refresh(w.ctx, quota); err != nil {
		return err
	}
	if quota.znodes.ignoredSince(before.znodes) || quota.bytes.ignoredSince(before.bytes) {
		w.quotas = nil
	}
	return nil
}

func (w *Writer) send(batch ...Edit) *zkconn.Pending[zkconn.Written] {
	changes := make([]zkconn.Change, len(batch))
	for i, t := range batch {
		changes[i] = w.change(t)
	}
	return zkconn.Add(w.p, zkconn.Multi(changes))
}

// handleMulti handles the reply to a multi. It sends the edits of a rejected multi one by one.
func (w *Writer) handleMulti(batch []Edit, _ zkconn.Written, refusal error) error {
	if refusal == nil {
		w.countDone(batch...)
		return nil
	}
	return w.applySingly(batch)
}

// applySingly applies edits one by one, and then those that replace existing znodes instead.
func (w *Writer) applySingly(batch []Edit) error {
	if err := w.sendSingly(batch); err != nil {
		return err
	}
	over := w.overwrites
	w.overwrites = nil
	return w.sendSingly(over)
}

// sendSingly sends edits one by one, with many requests in flight.
func (w *Writer) sendSingly(batch []Edit) error {
	var f *flights[Edit, zkconn.Written]
	f = newFlights(w.ctx, writeGrace, singleWindow, func(t Edit, _ zkconn.Written, refusal error) error {
		return w.handleSingle(f, t, refusal)
	})
	f.onLost = func(_ Edit, outcome zkconn.Outcome) { w.addOutcome(outcome) }
	defer f.close()
	for _, t := range batch {
		if err := f.add(t, w.send(t)); err != nil {
			return err
		}
	}
	return f.drain()
}

// handleSingle handles the reply to a request with a single edit.
func (w *Writer) handleSingle(f *flights[Edit, zkconn.Written], t Edit, refusal error) error {
	again := func() (err error) {
		var outcome zkconn.Outcome
		if _, refusal, outcome, err = f.wait(w.send(t)); err != nil {
			w.addOutcome(outcome)
		}
		f.slowed = true // requests that were sent later have overtaken this one
		return interrupted(w.ctx, err)
	}
	switch {
	case w.addsIdentity(t) && errors.Is(refusal, zkconn.InvalidACL):
		w.unauthenticated = true
		if err := again(); err != nil {
			return err
		}
	case f.slowed && errors.Is(refusal, zkconn.NoNode), f.slowed && errors.Is(refusal, zkconn.NotEmpty):
		if err := again(); err != nil {
			return err
		}
	}
	if t.Does == Creates && w.onExisting != Refuse && errors.Is(refusal, zkconn.NoAuth) { // the server checks the permission before it checks whether the znode exists
		look := zkconn.Add(w.p, zkconn.Exists(t.Path))
		switch _, err := look.Wait(f.waiting); {
		case err == nil:
			return w.handleExisting(t)
		case !look.Answered():
			return interrupted(w.ctx, err)
		}
	}
	switch {
	case refusal == nil:
		w.countDone(t)
	case t.Does == Deletes && errors.Is(refusal, zkconn.NoNode): // another client deleted the znode first
		w.reportProgress()
	case t.Does == Creates && errors.Is(refusal, zkconn.NodeExists) && w.onExisting != Refuse:
		return w.handleExisting(t)
	default:
		return w.handleRejection(t, refusal)
	}
	return nil
}

// handleExisting skips or overwrites a znode that already exists, depending on the Policy.
func (w *Writer) handleExisting(t Edit) error {
	if w.onExisting == Skip {
		w.result.Done.Skipped++
		w.reportProgress()
		return nil
	}
	w.overwrites = append(w.overwrites, Edit{Does: replaces, Path: t.Path, Znode: t.Znode, Version: -1})
	return nil
}

// handleRejection counts an edit that the server rejected. If the session had no permission to
// write data, the edit is tried again after all new ACLs have been set, because one of them may
// grant the permission.
func (w *Writer) handleRejection(t Edit, refusal error) error {
	if (t.Does == Sets || t.Does == replaces) && !w.retrying && errors.Is(refusal, zkconn.NoAuth) {
		w.deferredData = append(w.deferredData, t)
		return nil
	}
	w.result.Outcome.Rejected++
	below := t.Does == Creates && w.notCreated[path.Dir(t.Path)] && errors.Is(refusal, zkconn.NoNode)
	if t.Does == Creates {
		w.notCreated[t.Path] = true
	}
	if below {
		w.result.Below++
	} else {
		w.result.Add(refusal)
	}
	if w.onExisting == Refuse && errors.Is(refusal, zkconn.NodeExists) {
		return refusal // do not mix new znodes into an existing subtree
	}
	return nil
}

// countDone counts edits that succeeded.
func (w *Writer) countDone(batch ...Edit) {
	w.result.Outcome.Done += len(batch)
	for _, t := range batch {
		switch t.Does {
		case Creates:
			w.result.Done.Created++
			if w.addsIdentity(t) {
				w.deferredACLs = append(w.deferredACLs, grant{path: t.Path, acl: t.acl(), version: -1, counted: true, removesIdentity: true})
			}
		case Sets:
			if !w.countedByACL[t.Path] {
				w.result.Done.Changed++
			}
			delete(w.countedByACL, t.Path)
			w.lastSet = t.Path
		case replaces:
			w.result.Done.Changed++
			w.deferredACLs = append(w.deferredACLs, grant{path: t.Path, acl: t.acl(), version: -1, counted: true})
		case Deletes:
			w.result.Done.Deleted++
		}
	}
	w.reportProgress()
}

// addOutcome counts writes that were sent but neither confirmed nor rejected by the server.
func (w *Writer) addOutcome(outcome zkconn.Outcome) {
	w.result.Outcome = w.result.Outcome.Plus(outcome)
}

// writeDeferredData writes the data that the session was not permitted to write under the old ACLs.
func (w *Writer) writeDeferredData() error {
	w.retrying = true
	return w.sendWithinQuotas(w.deferredData, w.sendSingly)
}

func (w *Writer) reportProgress() { w.progress.report(w.result.Done.Total(), w.asked) }

// Close applies the remaining edits and waits for the replies. cause is the error that ended the
// edits early, or nil. If some edits were not applied, the error is a *WriteError, or the cause
// alone if there is nothing else to report.
func (w *Writer) Close(cause error) (Counts, error) {
	defer w.pending.close()
	err := cause
	for _, do := range []func() error{w.flush, w.pending.drain, w.writeDeferredACLs, w.writeDeferredData} {
		if err == nil {
			err = do()
		}
	}
	w.pending.abandonRest()
	for _, t := range w.deferredACLs {
		if t.removesIdentity {
			w.result.Open++
		}
	}
	if err != nil && w.result.isEmpty() {
		return w.result.Done, err
	}
	if w.result.Cause = err; err != nil || w.result.N > 0 || w.result.Below > 0 || w.result.Open > 0 {
		return w.result.Done, &w.result
	}
	return w.result.Done, nil
}
