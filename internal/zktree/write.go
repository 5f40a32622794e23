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

// Policy says what becomes of a znode that is to be created and is there already. A command
// that compares before it writes needs one, too: others may create znodes meanwhile. cp does not
// compare: it reads only its source, and also overwrites znodes that it may not read.
type Policy int

// The policies.
const (
	Refuse    Policy = iota // it is an error
	Skip                    // it stays as it is
	Overwrite               // it gets the data and the ACL
)

// writeBytes bounds a multi, well below a server's frame limit of 1 MiB. What is longer by
// itself goes alone.
const writeBytes = 256 << 10

// Writer makes edits in the order in which it is asked to, many at a time: what goes
// into one multi is done as a whole or not at all, and several are in flight. A multi that
// is refused is repeated znode by znode, so that only what cannot be done is left out.
type Writer struct {
	ctx      context.Context
	p        *zkconn.Pipe
	exists   Policy
	progress Progress

	next   []Edit
	size   int
	air    *flights[[]Edit, zkconn.Written]
	over   []Edit  // what is there already, to be overwritten
	acls   []grant // new ACLs, which come last: they may shut us out
	later  []Edit  // new data that the old ACL forbids, to be written after the new ACLs
	late   bool    // these are being written
	nobody bool    // the session is authenticated as nobody

	opened  map[string]bool // counted as changed, as their new ACL is written; their new data is not yet
	lastSet string          // the znode whose data was written last
	asked   int
	so      WriteError
	missing map[string]bool // what was refused, and what is below it
}

// WriteError reports that not all could be written.
type WriteError struct {
	Root     string
	Done     Counts
	Outcome  zkconn.Outcome // of the writes that were tried
	Refusals                // each with its path
	Below    int            // number of znodes missing because one above them was rejected
	Open     int            // number of znodes whose ACL still has this session's identity added
	Cause    error          // why the rest was not tried; nil if it was
}

func (e *WriteError) Error() string {
	if e.N == 1 && e.Done == (Counts{}) && e.Outcome.Unknown+e.Open == 0 && e.Cause == nil { // all of it was below that
		return fmt.Sprintf("nothing was written to %s: %s", e.Root, e.Refusals.Error())
	}
	text := fmt.Sprintf("wrote %s to %s", Znodes(e.Done.Total()-e.Done.Skipped), e.Root)
	if e.Outcome.Unknown > 0 {
		text += fmt.Sprintf(", and possibly %d more", e.Outcome.Unknown)
	}
	if e.Below > 0 {
		text += fmt.Sprintf("; %d were not written, because the server rejected one of their ancestors", e.Below)
	}
	if e.Open > 0 {
		text += fmt.Sprintf("; the ACLs of %d still contain an entry for this session, which zksh adds only for the time of the write", e.Open)
	}
	if e.N > 0 {
		text += fmt.Sprintf("; the server rejected %d: %s", e.N, e.Refusals.Error())
	}
	if e.Cause != nil {
		text += ": " + e.Cause.Error()
	}
	return text
}

// nothing tells that there is nothing to tell but the cause.
func (e *WriteError) nothing() bool {
	return e.Done == Counts{} && e.Below+e.Outcome.Unknown+e.Open+e.N == 0
}

// Unwrap gives the cause, and the refusals.
func (e *WriteError) Unwrap() []error {
	if e.Cause == nil {
		return e.First
	}
	return append([]error{e.Cause}, e.First...)
}

// NewWriter writes to the server that c is connected to; root is for its errors. Whoever
// makes one closes it.
func NewWriter(ctx context.Context, c zkconn.Client, root string, exists Policy, progress Progress) (*Writer, error) {
	p, err := c.Pipe(ctx, root)
	if err != nil {
		return nil, err
	}
	w := &Writer{ctx: ctx, p: p, exists: exists, progress: progress, so: WriteError{Root: root}, missing: map[string]bool{}, opened: map[string]bool{}}
	w.air = inFlight(ctx, graceful, deleteWindow, w.written)
	w.air.lost = func(_ []Edit, outcome zkconn.Outcome) { w.tally(outcome) }
	return w, nil
}

// Write has do write below root, and ends that as Close does.
func Write(ctx context.Context, c zkconn.Client, root string, exists Policy, progress Progress, do func(*Writer) error) (Counts, error) {
	w, err := NewWriter(ctx, c, root, exists, progress)
	if err != nil {
		return Counts{}, err
	}
	return w.Close(do(w))
}

// Do makes edits, in their order, some time until Close returns. A znode that is created gets
// the kind of the model, but that what was ephemeral becomes persistent. An ACL that might not
// let us create what is to be below a znode is that znode's in the end only. An error ends it
// all; Close reports what the server rejects.
func (w *Writer) Do(edits ...Edit) error {
	for _, e := range edits {
		err := error(nil)
		switch e.Does {
		case Creates, Sets, Deletes:
			err = w.add(e)
		case Opens:
			err = w.open(e)
		case SetsACL:
			w.acls = append(w.acls, grant{path: e.Path, acl: e.acl(), version: e.Version, counted: e.Also})
			w.asked++
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Apply makes edits, except those that delete, which it returns: they come last, and somebody
// may have to be asked before.
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

// change is the request of an edit, as it stands now.
func (w *Writer) change(t Edit) zkconn.Change {
	switch t.Does {
	case Sets, replaces:
		return zkconn.NewData(t.Path, t.Znode.Data, t.Version)
	case Deletes:
		return zkconn.Removal(t.Path, t.Version)
	}
	acl := t.acl()
	if w.ours(t) {
		acl = append(slices.Clone(acl), zk.ACL{Perms: zk.PermCreate | zk.PermAdmin, Scheme: "auth"})
	}
	mode := zkconn.CreateMode{Container: t.Znode.Kind == dump.Container}
	if t.Znode.Kind == dump.TTL {
		mode.TTL = t.Znode.TTL
	}
	return zkconn.Creation(t.Path, t.Znode.Data, acl, mode)
}

// ours reports whether a znode is created with our identity in its ACL, until the end.
func (w *Writer) ours(t Edit) bool { return t.Does == Creates && !w.nobody && ShutsOut(t.Znode) }

// add takes an edit into the next multi.
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
	if len(w.next) == 0 {
		return nil
	}
	batch := w.next
	w.next, w.size = nil, 0
	return w.air.add(batch, w.send(batch...))
}

func (w *Writer) send(batch ...Edit) *zkconn.Pending[zkconn.Written] {
	changes := make([]zkconn.Change, len(batch))
	for i, t := range batch {
		changes[i] = w.change(t)
	}
	return zkconn.Add(w.p, zkconn.Multi(changes))
}

// written takes the answer to a multi. One that was refused is repeated one by one.
func (w *Writer) written(batch []Edit, _ zkconn.Written, refusal error) error {
	if refusal == nil {
		w.did(batch...)
		return nil
	}
	if err := w.singly(batch); err != nil {
		return err
	}
	over := w.over
	w.over = nil
	return w.singly(over)
}

// singly makes edits one by one, with many in flight.
func (w *Writer) singly(batch []Edit) error {
	var f *flights[Edit, zkconn.Written]
	f = inFlight(w.ctx, graceful, singleWindow, func(t Edit, _ zkconn.Written, refusal error) error {
		return w.alone(f, t, refusal)
	})
	f.lost = func(_ Edit, outcome zkconn.Outcome) { w.tally(outcome) }
	defer f.close()
	for _, t := range batch {
		if err := f.add(t, w.send(t)); err != nil {
			return err
		}
	}
	return f.rest()
}

// alone takes the answer to one edit.
func (w *Writer) alone(f *flights[Edit, zkconn.Written], t Edit, refusal error) error {
	again := func() (err error) {
		var outcome zkconn.Outcome
		if _, refusal, outcome, err = f.wait(w.send(t)); err != nil {
			w.tally(outcome)
		}
		f.slowed = true // what was sent behind it came too early
		return interrupted(w.ctx, err)
	}
	switch {
	case w.ours(t) && errors.Is(refusal, zkconn.InvalidACL):
		w.nobody = true
		if err := again(); err != nil {
			return err
		}
	case f.slowed && errors.Is(refusal, zkconn.NoNode), f.slowed && errors.Is(refusal, zkconn.NotEmpty):
		if err := again(); err != nil {
			return err
		}
	}
	if t.Does == Creates && w.exists != Refuse && errors.Is(refusal, zkconn.NoAuth) { // it is refused even if there is nothing to create
		look := zkconn.Add(w.p, zkconn.Exists(t.Path))
		switch _, err := look.Wait(f.waiting); {
		case err == nil:
			return w.there(t)
		case !look.Answered():
			return interrupted(w.ctx, err)
		}
	}
	switch {
	case refusal == nil:
		w.did(t)
	case t.Does == Deletes && errors.Is(refusal, zkconn.NoNode): // somebody else removed it
		w.tell()
	case t.Does == Creates && errors.Is(refusal, zkconn.NodeExists) && w.exists != Refuse:
		return w.there(t)
	default:
		return w.refused(t, refusal)
	}
	return nil
}

// there sees to a znode that is there already.
func (w *Writer) there(t Edit) error {
	if w.exists == Skip {
		w.so.Done.Skipped++
		w.tell()
		return nil
	}
	w.over = append(w.over, Edit{Does: replaces, Path: t.Path, Znode: t.Znode, Version: -1})
	return nil
}

// refused takes note of what cannot be written. New data is tried once more after all new
// ACLs, one of which may allow it.
func (w *Writer) refused(t Edit, refusal error) error {
	if (t.Does == Sets || t.Does == replaces) && !w.late && errors.Is(refusal, zkconn.NoAuth) {
		w.later = append(w.later, t)
		return nil
	}
	w.so.Outcome.Rejected++
	below := t.Does == Creates && w.missing[path.Dir(t.Path)] && errors.Is(refusal, zkconn.NoNode)
	if t.Does == Creates {
		w.missing[t.Path] = true
	}
	if below {
		w.so.Below++
	} else {
		w.so.Add(refusal)
	}
	if w.exists == Refuse && errors.Is(refusal, zkconn.NodeExists) {
		return refusal // what is below it would get among somebody else's
	}
	return nil
}

// did counts what was written.
func (w *Writer) did(batch ...Edit) {
	w.so.Outcome.Done += len(batch)
	for _, t := range batch {
		switch t.Does {
		case Creates:
			w.so.Done.Created++
			if w.ours(t) {
				w.acls = append(w.acls, grant{path: t.Path, acl: t.acl(), version: -1, counted: true, ours: true})
			}
		case Sets:
			if !w.opened[t.Path] {
				w.so.Done.Changed++
			}
			delete(w.opened, t.Path)
			w.lastSet = t.Path
		case replaces:
			w.so.Done.Changed++
			w.acls = append(w.acls, grant{path: t.Path, acl: t.acl(), version: -1, counted: true})
		case Deletes:
			w.so.Done.Deleted++
		}
	}
	w.tell()
}

// tally counts writes without a conclusive answer.
func (w *Writer) tally(outcome zkconn.Outcome) { w.so.Outcome = w.so.Outcome.Plus(outcome) }

// setLate writes the data that waited for the new ACLs.
func (w *Writer) setLate() error {
	w.late = true
	return w.singly(w.later)
}

func (w *Writer) tell() { w.progress.tell(w.so.Done.Total(), w.asked) }

// Close does what is left to be done, and waits for it. If something was not, the error
// is a *WriteError, or the cause if nothing was. cause is why there is no more to come, if
// that is not all.
func (w *Writer) Close(cause error) (Counts, error) {
	defer w.air.close()
	err := cause
	for _, do := range []func() error{w.flush, w.air.rest, w.setACLs, w.setLate} {
		if err == nil {
			err = do()
		}
	}
	w.air.abandonRest()
	for _, t := range w.acls {
		if t.ours {
			w.so.Open++
		}
	}
	if err != nil && w.so.nothing() {
		return w.so.Done, err
	}
	if w.so.Cause = err; err != nil || w.so.N > 0 || w.so.Below > 0 || w.so.Open > 0 {
		return w.so.Done, &w.so
	}
	return w.so.Done, nil
}
