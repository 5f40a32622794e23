package zktree

import (
	"cmp"
	"context"
	"errors"
	"path"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/zkconn"
)

// A Policy determines what Apply does about a znode that is not in the state that its edit requires.
// That can happen even after a comparison, because other clients may change znodes meanwhile.
type Policy int

// Ways to handle a znode that another client has changed or created.
const (
	Refuse     Policy = iota // stop at a znode to be created that exists; like LeaveAlone for the others
	LeaveAlone               // leave the znode as it is, and list it in the error
	Skip                     // leave a znode to be created as it is, without an error; like LeaveAlone for the others
	Overwrite                // read the znode again, and make it equal to the wanted state
)

// A Target is the subtree to which Apply writes.
type Target struct {
	Path string
	Name string // name of the subtree in error messages, which may contain the name of a cluster
	// Recorder records the edits before they are sent. It is nil if nothing is recorded. With a
	// Recorder, even an edit that requires no state takes effect only on the state that was recorded.
	Recorder Recorder
}

// Limits on edits in one request, and on requests in flight.
const (
	// DefaultBatch is the default number of edits in one multi. zkCli uses the same number for
	// deletes.
	DefaultBatch = 1000
	// writeBytes is the maximum size of a multi, in bytes. It is well below a server's frame limit
	// of 1 MiB. A larger edit is sent in a multi of its own.
	writeBytes  = 256 << 10
	multiWindow = 8 // maximum number of multis in flight
	maxRepeats  = 3 // maximum number of repetitions of a single edit
)

// Apply makes edits in their order, and reports how many znodes it created, skipped, changed and
// deleted. It sends them in multis, which are atomic, with several in flight. If the server rejects
// a multi, Apply sends its edits one by one, so that one invalid edit does not prevent the others.
//
// An edit has no effect unless its znode is as e.Old says. The server compares the version of the
// data, or that of the ACL for a new ACL, together with the write. It cannot compare the czxid, and
// for a delete not the version of the ACL. Apply compares these one round trip before the write.
//
// If the connection is lost, Apply reads the znodes of the edits whose outcome is unknown, sends
// those edits again that had no effect, and goes on.
//
// Apply creates persistent znodes in place of ephemeral ones. If the ACL of a new znode might not
// permit the session to create children, Apply adds the session's identity to the ACL until all other
// edits have been made. Edits that are certain to be within the hard quotas of the target are sent in
// multis. For every other edit, Apply waits for the reply, so that the server can decide about each.
//
// If some edits were not made, the error is a *PartialError, or the reason why Apply stopped if there
// is nothing else to report.
func Apply(
	ctx context.Context, c zkconn.Client, edits Edits, target Target, policy Policy, progress Progress,
) (Counts, error) {
	return newApplier(ctx, c, target, policy, progress).run(edits)
}

// An applier is one run of Apply.
type applier struct {
	ctx      context.Context // after it has ended, no more requests are sent
	waiting  context.Context // context for waiting for replies; ends a grace period after ctx
	c        zkconn.Client
	p        *zkconn.Pipe
	target   Target
	policy   Policy
	progress Progress
	batch    int                         // maximum number of edits in one multi
	report   func(*Edit, outcome, error) // called with what became of each edit; may be nil

	quotas     *hardQuotas // nil if there are none, or if the server does not enforce them
	quotasRead bool

	next        []*Edit   // edits that will be sent in the next multi
	settingACLs bool      // whether the latest edits set ACLs
	size        int       // estimated size of next, in bytes
	sent        []*flying // requests in flight, oldest first
	window      int       // current maximum number of multis in flight
	slowed      bool      // whether a request was sent again, and later requests overtook it
	losses      int       // lost connections since the last reply

	changed         []*Edit // edits to be planned anew, because their znodes have changed
	closing         []*Edit // edits that remove the session's identity from new ACLs; made at the end
	late            []*Edit // new data that the old ACLs forbid; written after the new ACLs
	retrying        bool    // whether the edits in late are being made
	unauthenticated bool    // whether the session has no identity that an ACL could contain
	notCreated      map[string]bool

	asked  int // number of edits so far, for the progress report
	result PartialError
}

func newApplier(ctx context.Context, c zkconn.Client, target Target, policy Policy, progress Progress) *applier {
	return &applier{
		ctx: ctx, c: c, target: target, policy: policy, progress: progress, batch: DefaultBatch, window: multiWindow,
		result: PartialError{Root: target.Name}, notCreated: map[string]bool{},
	}
}

// An outcome is the fate of an edit.
type outcome int

// The outcomes of an edit.
const (
	made     outcome = iota
	absent           // nothing was changed, because the znode to be deleted no longer existed
	rejected         // nothing was changed, because the server rejected the edit
	changed          // nothing was changed, because the znode was not as the edit required
	unclear          // the connection was lost, and the znode does not show whether the edit was made
)

func (a *applier) run(edits Edits) (Counts, error) {
	waiting, release := outlive(a.ctx)
	defer release()
	a.waiting = waiting
	err := a.connect()
	if err == nil {
		err = a.all(edits)
	}
	return a.finish(err)
}

func (a *applier) connect() (err error) {
	a.p, err = a.c.Pipe(a.ctx, a.target.Name)
	return err
}

// all makes all edits, and then those that follow from their outcomes.
func (a *applier) all(edits Edits) error {
	for e, err := range edits {
		if err == nil {
			err = a.add(e)
		}
		if err != nil {
			return err
		}
	}
	for {
		if err := a.settle(); err != nil {
			return err
		}
		var more []*Edit
		var err error
		switch {
		case a.changed != nil:
			more, err = a.planAnew()
		case a.closing != nil:
			more, a.closing = reversed(a.closing), nil
		case a.late != nil:
			more, a.late, a.retrying = a.late, nil, true
		default:
			return nil
		}
		for _, e := range more {
			if err == nil {
				err = a.add(e)
			}
		}
		if err != nil {
			return err
		}
	}
}

// add adds an edit to the next request. If there is no room for it, add sends that request first.
func (a *applier) add(e *Edit) error {
	switch e.Does {
	case Leaves:
		return nil
	case Opens: // a server may check later writes against the old ACL until it has replied
		if err := a.settle(); err != nil {
			return err
		}
		a.asked++
		a.next = append(a.next, e)
		return a.settle()
	}
	size := 64 + len(e.Path)
	if z := e.New; z != nil {
		size += len(z.Data)
		for _, entry := range z.ACL {
			size += 16 + len(entry.Scheme) + len(entry.ID)
		}
	}
	var err error
	switch n := len(a.next); {
	case e.setsACL() != a.settingACLs: // a new ACL might forbid edits that have to be sent again
		err = a.settle()
		a.settingACLs = e.setsACL()
	case n == a.batch, n > 0 && a.size+size > writeBytes:
		err = a.flush()
	}
	if err != nil {
		return err
	}
	a.next = append(a.next, e)
	a.size += size
	a.asked++
	return nil
}

// settle sends the edits that were added, and waits for all replies.
func (a *applier) settle() error {
	if err := a.flush(); err != nil {
		return err
	}
	return a.drain(0)
}

// flush sends the edits that were added, unless their znodes have changed.
func (a *applier) flush() error {
	batch := a.next
	a.next, a.size = nil, 0
	if len(batch) == 0 {
		return nil
	}
	if err := a.readQuotas(); err != nil {
		return err
	}
	batch, err := a.verify(batch)
	if err == nil && a.target.Recorder != nil {
		batch, err = a.record(batch)
	}
	switch {
	case err != nil || len(batch) == 0:
		return err
	case !batch[0].setsACL():
		return a.sendWithinQuotas(batch)
	}
	for _, e := range batch { // a multi cannot contain a new ACL
		a.transmit(e)
		if err := a.drain(singleWindow*a.window/multiWindow - 1); err != nil {
			return err
		}
	}
	return nil
}

// verify compares the znodes with the states that the edits require, and returns the edits whose
// znodes are in these states. It handles the others. It does not compare znodes whose creation the
// edit does not name.
func (a *applier) verify(batch []*Edit) ([]*Edit, error) {
	var paths []string
	for _, e := range batch {
		// The Recorder is given the present state, so that record compares it.
		if e.oldStat().Czxid != 0 && (a.target.Recorder == nil || !e.readsBefore()) {
			paths = append(paths, e.Path)
		}
	}
	if paths == nil {
		return batch, nil
	}
	stats := map[string]*zk.Stat{}
	err := a.repeatedly(func() error {
		at := 0
		return zkconn.AddEach(a.p, paths, zkconn.Exists).Each(a.ctx, func(st *zk.Stat, refusal error) {
			if refusal == nil {
				stats[paths[at]] = st
			}
			at++
		})
	})
	if err != nil {
		return nil, err
	}
	same := batch[:0:0]
	for _, e := range batch {
		if st := stats[e.Path]; st == nil || e.requires(st) {
			same = append(same, e)
		} else if err := a.handleChanged(e, &ChangedError{Path: e.Path}); err != nil {
			return nil, err
		}
	}
	return same, nil
}

// repeatedly calls ask, which reads with a.p, until the connection is not lost.
func (a *applier) repeatedly(ask func() error) error {
	for {
		err := ask()
		if err == nil {
			return nil
		}
		if err := a.resume(err); err != nil {
			return err
		}
	}
}

// readQuotas reads the hard quotas of the target before the first edits.
func (a *applier) readQuotas() error {
	if a.quotasRead {
		return nil
	}
	a.quotasRead = true
	return a.repeatedly(func() (err error) {
		a.quotas, err = readQuotas(a.ctx, a.c, a.target.Path)
		return err
	})
}

// sendWithinQuotas sends as many edits together as are certain to be within the hard quotas. It
// sends each of the other edits alone.
func (a *applier) sendWithinQuotas(batch []*Edit) error {
	for len(batch) > 0 {
		n := 0
		for n < len(batch) && (a.quotas == nil || a.quotas.take(a.change(batch[n]))) {
			n++
		}
		var err error
		if n == 0 {
			n, err = 1, a.sendAlone(batch[0])
		} else {
			a.transmit(batch[:n]...)
			err = a.drain(a.window - 1)
		}
		if err != nil {
			return err
		}
		batch = batch[n:]
	}
	return nil
}

// sendAlone sends an edit that might exceed a hard quota, while no other request is in flight. If
// the server accepts edits although the quota is used up, it does not enforce quotas, and Apply
// ignores them from then on.
func (a *applier) sendAlone(e *Edit) error {
	if err := a.drain(0); err != nil {
		return err
	}
	quota := a.quotas.of(e.Path)
	refresh := func() error {
		return a.repeatedly(func() error {
			_, err := a.quotas.refresh(a.ctx, quota)
			return err
		})
	}
	if err := refresh(); err != nil {
		return err
	}
	before, count := *quota, a.result.Outcome.Done
	a.transmit(e)
	if err := a.drain(0); err != nil || a.result.Outcome.Done == count {
		return err
	}
	if err := refresh(); err != nil {
		return err
	}
	if quota.znodes.ignoredSince(before.znodes) || quota.bytes.ignoredSince(before.bytes) {
		a.quotas = nil
	}
	return nil
}

// A flying is a request in flight, with the edits that it makes.
type flying struct {
	edits []*Edit
	reply reply
	err   error // result of wait
	known bool  // whether wait was called
}

// A reply is the part of a zkconn.Pending that an applier uses.
type reply interface {
	wait(ctx context.Context) error
	Outcome() zkconn.Outcome
	Slowed() bool
	Answered() bool
}

// multiReply is the reply to a multi.
type multiReply struct {
	*zkconn.Pending[zkconn.Written]
	edits []*Edit
}

func (r multiReply) wait(ctx context.Context) error {
	written, err := r.Wait(ctx)
	for _, e := range r.edits {
		if err == nil && e.Does == Creates {
			e.czxid = written.Zxid
		}
	}
	return err
}

// aclReply is the reply to a request that sets an ACL.
type aclReply struct {
	*zkconn.Pending[*zk.Stat]
	edit *Edit
}

func (r aclReply) wait(ctx context.Context) (err error) {
	r.edit.now, err = r.Wait(ctx)
	return err
}

var (
	_ reply = multiReply{}
	_ reply = aclReply{}
)

// transmit sends edits as one request.
func (a *applier) transmit(edits ...*Edit) {
	a.sent = append(a.sent, a.start(edits))
}

func (a *applier) start(edits []*Edit) *flying {
	if e := edits[0]; e.setsACL() {
		r := zkconn.Add(a.p, zkconn.SetACL(e.Path, e.acl(), e.version()))
		return &flying{edits: edits, reply: aclReply{r, e}}
	}
	changes := make([]zkconn.Change, len(edits))
	for i, e := range edits {
		changes[i] = a.change(e)
	}
	return &flying{edits: edits, reply: multiReply{zkconn.Add(a.p, zkconn.Multi(changes)), edits}}
}

// change returns the Change for an edit. It depends on the outcomes of earlier edits.
func (a *applier) change(e *Edit) zkconn.Change {
	switch e.Does {
	case Sets:
		return zkconn.NewData(e.Path, e.New.Data, e.version())
	case Deletes:
		return zkconn.Removal(e.Path, e.version())
	}
	acl := e.acl()
	if a.addsIdentity(e) {
		acl = append(slices.Clone(acl), zk.ACL{Perms: zk.PermCreate | zk.PermAdmin, Scheme: "auth"})
	}
	mode := zkconn.CreateMode{Container: e.New.Kind == dump.Container}
	if e.New.Kind == dump.TTL {
		mode.TTL = e.New.TTL
	}
	return zkconn.Creation(e.Path, e.New.Data, acl, mode)
}

// addsIdentity reports whether Apply adds the session's identity to a new ACL for some time.
func (a *applier) addsIdentity(e *Edit) bool {
	return e.Does == Creates && !a.unauthenticated && ShutsOut(e.New)
}

// drain waits for replies and handles them, until at most limit requests are in flight.
func (a *applier) drain(limit int) error {
	for len(a.sent) > limit {
		first := a.sent[0]
		a.sent = a.sent[1:]
		if err := a.handle(first); err != nil {
			return err
		}
	}
	return nil
}

// wait waits for the reply to a request.
func (a *applier) wait(f *flying) error {
	if !f.known {
		f.err, f.known = f.reply.wait(a.waiting), true
		a.window = adjustWindow(a.window, multiWindow, f.reply.Slowed())
		a.slowed = a.slowed || f.reply.Slowed()
	}
	return f.err
}

// handle waits for the reply to a request that is no longer in a.sent, and handles the reply.
func (a *applier) handle(f *flying) error {
	err := a.wait(f)
	switch {
	case err == nil:
		a.losses = 0
		a.countDone(f.edits...)
		return nil
	case !f.reply.Answered() || f.reply.Outcome().Rejected == 0:
		a.sent = append([]*flying{f}, a.sent...)
		return a.resume(err)
	case len(f.edits) == 1:
		a.losses = 0
		return a.handleRefusal(f.edits[0], err)
	}
	a.losses = 0
	for _, e := range f.edits {
		a.transmit(e)
	}
	return nil
}

// sendAgain sends an edit again, and waits for the reply. All requests before it were answered.
func (a *applier) sendAgain(e *Edit) error {
	e.repeats++
	return a.handle(a.start([]*Edit{e}))
}

// handleRefusal handles an edit that the server rejected.
func (a *applier) handleRefusal(e *Edit, refusal error) error {
	switch {
	case a.addsIdentity(e) && errors.Is(refusal, zkconn.InvalidACL):
		a.unauthenticated = true
		return a.sendAgain(e)
	case a.slowed && e.repeats < maxRepeats && (errors.Is(refusal, zkconn.NoNode) || errors.Is(refusal, zkconn.NotEmpty)):
		return a.sendAgain(e)
	case e.Does == Deletes && errors.Is(refusal, zkconn.NoNode): // another client deleted the znode first
		a.tell(e, absent, refusal)
		return nil
	case errors.Is(refusal, zkconn.BadVersion),
		e.Does != Creates && errors.Is(refusal, zkconn.NoNode),
		e.Does == Creates && errors.Is(refusal, zkconn.NodeExists):
		return a.handleChanged(e, refusal)
	case e.Does == Creates && a.policy != Refuse && errors.Is(refusal, zkconn.NoAuth):
		// The server checks the permission before it checks whether the znode exists.
		exists := false
		err := a.repeatedly(func() error {
			_, err := zkconn.Add(a.p, zkconn.Exists(e.Path)).Wait(a.ctx)
			if exists = err == nil; errors.As(err, new(*zkconn.Error)) && !errors.Is(err, zkconn.ConnectionLoss) {
				return nil
			}
			return err
		})
		if err != nil || exists {
			return cmp.Or(err, a.handleChanged(e, refusal))
		}
	case e.Does == Sets && !a.retrying && errors.Is(refusal, zkconn.NoAuth):
		// One of the new ACLs may grant the permission.
		a.late = append(a.late, e)
		return nil
	}
	a.reject(e, refusal)
	return nil
}

// handleChanged handles an edit whose znode is not as the edit requires. What happens then depends on
// the Policy.
func (a *applier) handleChanged(e *Edit, why error) error {
	exists := e.Does == Creates
	if e.pair != nil {
		e.pair.before = nil
	}
	switch {
	case exists && a.policy == Skip:
		a.result.Done.Skipped++
		a.after(e, false)
		a.reportProgress()
	case (a.policy == Overwrite || e.anyState) && e.Does != Deletes && !e.closes && e.repeats < maxRepeats:
		e.repeats++
		a.after(e, false)
		a.changed = append(a.changed, e)
	case exists && a.policy == Refuse:
		a.reject(e, why)
		return why // do not mix new znodes into an existing subtree
	default:
		a.result.Outcome.Rejected++
		a.result.Changed.Add(why)
		a.tell(e, changed, why)
	}
	return nil
}

// reject counts an edit that the server rejected.
func (a *applier) reject(e *Edit, refusal error) {
	a.result.Outcome.Rejected++
	below := e.Does == Creates && a.notCreated[path.Dir(e.Path)] && errors.Is(refusal, zkconn.NoNode)
	if e.Does == Creates {
		a.notCreated[e.Path] = true
	}
	if below {
		a.result.Below++
	} else {
		a.result.Add(refusal)
	}
	a.tell(e, rejected, refusal)
}

// countDone counts edits that were made.
func (a *applier) countDone(edits ...*Edit) {
	a.result.Outcome.Done += len(edits)
	for _, e := range edits {
		switch e.Does {
		case Creates:
			a.result.Done.Created++
			if a.addsIdentity(e) {
				a.result.Open++
				a.closing = append(a.closing, &Edit{
					Does: SetsACL, Path: e.Path, Old: &dump.Znode{Stat: &zk.Stat{}}, New: &dump.Znode{ACL: e.acl()}, closes: true,
				})
			}
		case Sets, Opens, SetsACL:
			if e.closes {
				a.result.Open--
			} else if e.firstOfZnode() {
				a.result.Done.Changed++
			}
		case Deletes:
			a.result.Done.Deleted++
		}
		a.after(e, true)
		if a.report != nil {
			a.report(e, made, nil)
		}
	}
	a.reportProgress()
}

// tell reports what became of an edit that was not made.
func (a *applier) tell(e *Edit, end outcome, why error) {
	if end != unclear {
		a.after(e, false)
	}
	if a.report != nil {
		a.report(e, end, why)
	}
	a.reportProgress()
}

func (a *applier) reportProgress() { a.progress.report(a.result.Done.Total(), a.asked) }

// finish counts the replies that still arrive after Apply has stopped. cause is the reason why it has
// stopped, or nil if it has tried all edits.
func (a *applier) finish(cause error) (Counts, error) {
	for _, f := range a.sent {
		switch err := a.wait(f); {
		case err == nil:
			a.countDone(f.edits...)
		case f.reply.Outcome().Unknown > 0:
			a.result.Outcome.Unknown += len(f.edits)
		}
	}
	r := &a.result
	if !r.incomplete() && (cause == nil || r.Done == Counts{}) { // there is nothing to add to the cause
		return r.Done, cause
	}
	r.Cause = cause
	return r.Done, r
}
