package zktree

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/zkconn"
)

// Policy says what becomes of a znode that is to be created and is there already.
type Policy int

// The policies.
const (
	Refuse    Policy = iota // it is an error
	Skip                    // it stays as it is
	Overwrite               // it gets the data and the ACL
)

// Counts are how many znodes were written, by what was done.
type Counts struct {
	Created, Skipped, Changed, Deleted int
}

// Total is how many were seen to.
func (c Counts) Total() int { return c.Created + c.Skipped + c.Changed + c.Deleted }

// writeBytes bounds a multi, well below a server's frame limit of 1 MiB. What is longer by
// itself goes alone.
const writeBytes = 256 << 10

// Writer changes znodes in the order in which it is asked to, many at a time: what goes
// into one multi is done as a whole or not at all, and several are in flight. A multi that
// is refused is repeated znode by znode, so that only what cannot be done is left out.
type Writer struct {
	ctx      context.Context
	p        *zkconn.Pipe
	exists   Policy
	progress Progress

	next    []write
	size    int
	air     *flights[[]write, zkconn.Written]
	over    []write // what is there already, to be overwritten
	acls    []grant // new ACLs, which come last: they may shut us out
	later   []write // new data that the old ACL forbids, to be written after the new ACLs
	late    bool    // these are being written
	lastSet string  // path of the last Set
	nobody  bool    // the session is authenticated as nobody

	asked   int
	so      WriteError
	missing map[string]bool // what was refused, and what is below it
}

// write is a znode to be written.
type write struct {
	does    deed
	path    string
	data    []byte
	acl     []zk.ACL
	mode    zkconn.CreateMode
	version int32
	ours    bool // the znode is created with our identity in its ACL, until the end
}

// deed is what a write does.
type deed int

const (
	creates deed = iota
	setsData
	deletes
)

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
	w := &Writer{ctx: ctx, p: p, exists: exists, progress: progress, so: WriteError{Root: root}, missing: map[string]bool{}}
	w.air = inFlight(ctx, graceful, deleteWindow, w.written)
	w.air.lost = func(_ []write, outcome zkconn.Outcome) { w.tally(outcome) }
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

// Create makes a znode, of its kind, but that what was ephemeral becomes persistent. The
// ones above it come first. An ACL that might not let us create what is to be below it is
// the znode's own in the end only. An error ends it all; a refusal Close tells of.
func (w *Writer) Create(z *dump.Znode) error {
	t := write{does: creates, path: z.Path, data: z.Data, acl: z.ACL, ours: ShutsOut(z),
		mode: zkconn.CreateMode{Container: z.Kind == dump.Container}}
	if z.Kind == dump.TTL {
		t.mode.TTL = z.TTL
	}
	if t.acl == nil {
		t.acl = zkconn.OpenACL()
	}
	return w.add(t)
}

// Set writes a znode's data if it has the version; -1 is any.
func (w *Writer) Set(path string, data []byte, version int32) error {
	w.lastSet = path
	return w.add(write{does: setsData, path: path, data: data, version: version})
}

// Delete removes a znode if it has the version; -1 is any. Those below it come first.
func (w *Writer) Delete(path string, version int32) error {
	return w.add(write{does: deletes, path: path, version: version})
}

// change is the request of a write, as it stands now.
func (w *Writer) change(t write) zkconn.Change {
	switch t.does {
	case setsData:
		return zkconn.NewData(t.path, t.data, t.version)
	case deletes:
		return zkconn.Removal(t.path, t.version)
	}
	acl := t.acl
	if t.ours && !w.nobody {
		acl = append(slices.Clone(acl), zk.ACL{Perms: zk.PermCreate | zk.PermAdmin, Scheme: "auth"})
	}
	return zkconn.Creation(t.path, t.data, acl, t.mode)
}

// add takes a write into the next multi.
func (w *Writer) add(t write) error {
	size := 64 + len(t.path) + len(t.data)
	for _, a := range t.acl {
		size += 16 + len(a.Scheme) + len(a.ID)
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

func (w *Writer) send(batch ...write) *zkconn.Pending[zkconn.Written] {
	changes := make([]zkconn.Change, len(batch))
	for i, t := range batch {
		changes[i] = w.change(t)
	}
	return w.p.Multi(changes)
}

// written takes the answer to a multi. One that was refused is repeated one by one.
func (w *Writer) written(batch []write, _ zkconn.Written, refusal error) error {
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

// singly does writes one by one, with many in flight.
func (w *Writer) singly(batch []write) error {
	var f *flights[write, zkconn.Written]
	f = inFlight(w.ctx, graceful, singleWindow, func(t write, _ zkconn.Written, refusal error) error {
		return w.alone(f, t, refusal)
	})
	f.lost = func(_ write, outcome zkconn.Outcome) { w.tally(outcome) }
	defer f.close()
	for _, t := range batch {
		if err := f.add(t, w.send(t)); err != nil {
			return err
		}
	}
	return f.rest()
}

// alone takes the answer to one write.
func (w *Writer) alone(f *flights[write, zkconn.Written], t write, refusal error) error {
	again := func() (err error) {
		var outcome zkconn.Outcome
		if _, refusal, outcome, err = f.wait(w.send(t)); err != nil {
			w.tally(outcome)
		}
		f.slowed = true // what was sent behind it came too early
		return interrupted(w.ctx, err)
	}
	switch {
	case t.ours && !w.nobody && errors.Is(refusal, zkconn.InvalidACL):
		w.nobody = true
		if err := again(); err != nil {
			return err
		}
	case f.slowed && errors.Is(refusal, zkconn.NoNode), f.slowed && errors.Is(refusal, zkconn.NotEmpty):
		if err := again(); err != nil {
			return err
		}
	}
	if t.does == creates && w.exists != Refuse && errors.Is(refusal, zkconn.NoAuth) { // it is refused even if there is nothing to create
		look := w.p.Exists(t.path)
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
	case t.does == deletes && errors.Is(refusal, zkconn.NoNode): // somebody else removed it
		w.tell()
	case t.does == creates && errors.Is(refusal, zkconn.NodeExists) && w.exists != Refuse:
		return w.there(t)
	default:
		return w.refused(t, refusal)
	}
	return nil
}

// there sees to a znode that is there already.
func (w *Writer) there(t write) error {
	if w.exists == Skip {
		w.so.Done.Skipped++
		w.tell()
		return nil
	}
	w.over = append(w.over, write{does: setsData, path: t.path, data: t.data, acl: t.acl, version: -1})
	return nil
}

// refused takes note of what cannot be written. New data is tried once more after all new
// ACLs, one of which may allow it.
func (w *Writer) refused(t write, refusal error) error {
	if t.does == setsData && !w.late && errors.Is(refusal, zkconn.NoAuth) {
		w.later = append(w.later, t)
		return nil
	}
	w.so.Outcome.Rejected++
	below := t.does == creates && w.missing[path.Dir(t.path)] && errors.Is(refusal, zkconn.NoNode)
	if t.does == creates {
		w.missing[t.path] = true
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
func (w *Writer) did(batch ...write) {
	w.so.Outcome.Done += len(batch)
	for _, t := range batch {
		switch t.does {
		case creates:
			w.so.Done.Created++
			if t.ours && !w.nobody {
				w.acls = append(w.acls, grant{path: t.path, acl: t.acl, version: -1, counted: true, ours: true})
			}
		case setsData:
			if w.so.Done.Changed++; t.acl != nil {
				w.acls = append(w.acls, grant{path: t.path, acl: t.acl, version: -1, counted: true})
			}
		case deletes:
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
