package zktree

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/zkconn"
)

// resume continues on the next connection after a request has failed because the connection was
// lost. It finds out which of the edits in flight were made, and sends the others again, one by one.
// It returns an error if Apply must stop.
func (a *applier) resume(why error) error {
	if err := a.mayResume(why); err != nil {
		return err
	}
	a.losses++
	var open []*flying
	lost := map[*Edit]bool{}
	for _, f := range a.sent {
		switch err := a.wait(f); {
		case err == nil:
			a.countDone(f.edits...)
			continue
		case f.reply.Outcome().Unknown > 0:
			for _, e := range f.edits {
				lost[e] = true
			}
		}
		open = append(open, f)
	}
	a.sent = open
	if err := a.connect(); err != nil {
		return err
	}
	ends, err := a.outcomes(open, lost)
	if err != nil {
		return a.resume(err)
	}
	a.sent = nil
	for _, f := range open {
		for _, e := range f.edits {
			switch end, looked := ends[e]; {
			case !looked || end == rejected:
				a.transmit(e)
			case !lost[e]:
				if err := a.handleChanged(e, &ChangedError{Path: e.Path}); err != nil {
					return err
				}
			case end == made:
				a.countDone(e)
			default:
				a.result.Outcome.Unknown++
				a.result.Lost.Add(&zkconn.Error{Code: zkconn.ConnectionLoss, Path: e.Path})
				a.tell(e, unclear, why)
			}
		}
	}
	return nil
}

// mayResume returns nil if Apply can continue on the next connection after a request has failed.
// Otherwise, it returns the error with which Apply stops.
func (a *applier) mayResume(why error) error {
	if mayGoOn(a.ctx, why, a.losses) {
		return nil
	}
	return interrupted(a.ctx, why)
}

// outcomes finds out what became of edits that were in flight when the connection was lost. It
// leaves out edits that were not sent and require no certain state. The outcome is rejected for an
// edit that had no effect, and may be sent again.
func (a *applier) outcomes(open []*flying, lost map[*Edit]bool) (map[*Edit]outcome, error) {
	var edits []*Edit
	for _, f := range open {
		for _, e := range f.edits {
			if lost[e] || e.oldStat().Czxid != 0 {
				edits = append(edits, e)
			}
		}
	}
	if edits == nil {
		return nil, nil
	}
	err := zkconn.Exec(a.ctx, a.c, zkconn.Sync(a.target.Path))
	if err != nil && !errors.Is(err, zkconn.NoNode) {
		return nil, err
	}
	ends := map[*Edit]outcome{}
	for batch := range slices.Chunk(edits, readBatch) {
		znodes, err := readEach(a.ctx, a.p, batch)
		if err != nil {
			return nil, err
		}
		for i, e := range batch {
			ends[e] = e.outcome(znodes[i])
			if e.Does == Creates && ends[e] == made {
				e.czxid = znodes[i].Stat.Czxid
			}
		}
	}
	return ends, nil
}

// readBatch is the number of znodes that readEach reads at once. The data of this many znodes fits
// into memory, even if each has several megabytes.
const readBatch = 16

// A present is the present state of a znode.
type present struct {
	*dump.Znode       // nil if the znode does not exist
	refusal     error // reason why only the Stat could be read, or not even that; nil if everything was read
}

// readEach reads the znodes of some edits.
func readEach(ctx context.Context, p *zkconn.Pipe, edits []*Edit) ([]present, error) {
	found := make([]present, len(edits))
	paths := make([]string, len(edits))
	for i, e := range edits {
		paths[i] = e.Path
		found[i].Znode = &dump.Znode{Path: e.Path}
	}
	at := 0
	next := func(refusal error) *present {
		z := &found[at]
		at++
		switch {
		case errors.Is(refusal, zkconn.NoNode):
			z.Znode = nil
		case refusal != nil:
			z.refusal = refusal
		}
		return z
	}
	access, data := zkconn.AddEach(p, paths, zkconn.GetACL), zkconn.AddEach(p, paths, zkconn.GetData)
	err := access.Each(ctx, func(a zkconn.Access, refusal error) {
		if z := next(refusal); refusal == nil {
			z.ACL, z.Stat = a.ACL, a.Stat
		}
	})
	if err != nil {
		return nil, err
	}
	at = 0
	err = data.Each(ctx, func(n zkconn.Node, refusal error) {
		if z := next(refusal); refusal == nil && z.Znode != nil {
			z.Data, z.Stat, z.Kind = n.Data, n.Stat, dump.KindOf(n.Stat)
		}
	})
	if err != nil {
		return nil, err
	}
	for i := range found {
		z := &found[i]
		if z.Znode == nil || z.refusal == nil && isHidden(z.Znode) == nil {
			continue
		}
		z.refusal = cmp.Or(z.refusal, isHidden(z.Znode))
		st, err := zkconn.Add(p, zkconn.Exists(z.Path)).Wait(ctx)
		switch {
		case err == nil:
			z.Stat, z.Kind = st, dump.KindOf(st)
		case errors.Is(err, zkconn.NoNode):
			z.Znode = nil
		case !errors.Is(err, zkconn.NoAuth):
			return nil, err
		}
	}
	return found, nil
}

// outcome determines from the present state of a znode whether the edit was made. The result is
// rejected if the edit had no effect, or if it is harmless to make it again.
func (e *Edit) outcome(now present) outcome {
	switch {
	case now.Znode == nil && e.Does == Deletes:
		return made
	case now.Znode == nil && e.Does == Creates:
		return rejected
	case now.Znode == nil || now.Stat == nil:
		return unclear
	}
	old, readable := e.oldStat(), now.refusal == nil
	switch {
	case e.Does == Creates && readable && now.Stat.Version == 0 && SameData(now.Data, e.New.Data):
		return made
	case e.Does == Creates:
		return unclear
	case e.version() < 0 && e.setsACL() && readable && SameACL(now.ACL, e.acl()):
		return made
	case e.version() < 0 && e.setsACL() && slices.ContainsFunc(e.acl(), isAuth):
		return unclear // instead of auth, the server has stored the identities of the session, if it did
	case e.version() < 0, e.requires(now.Stat):
		return rejected
	case e.Does == Deletes, old.Czxid != 0 && old.Czxid != now.Stat.Czxid:
		return unclear
	case e.setsACL() && now.Stat.Aversion == old.Aversion+1 && (!readable || FitsACL(now.ACL, e.acl())),
		e.Does == Sets && now.Stat.Version == old.Version+1 && (!readable || SameData(now.Data, e.New.Data)):
		return made
	}
	return unclear
}

// FitsACL reports whether a server may have stored the ACL now after a client has written the given
// ACL. In place of an entry auth, servers store one entry for each identity of the session.
func FitsACL(now, written []zk.ACL) bool {
	var auth, plain []zk.ACL
	for _, entry := range written {
		if isAuth(entry) {
			auth = append(auth, entry)
		} else {
			plain = append(plain, entry)
		}
	}
	if auth == nil {
		return SameACL(now, written)
	}
	left := slices.DeleteFunc(slices.Clone(now), func(entry zk.ACL) bool { return slices.Contains(plain, entry) })
	others := slices.DeleteFunc(slices.Clone(left), func(entry zk.ACL) bool {
		return slices.ContainsFunc(auth, func(a zk.ACL) bool { return a.Perms == entry.Perms })
	})
	return len(left) > 0 && len(others) == 0
}

// isAuth reports whether an entry of an ACL stands for the identities of the session.
func isAuth(entry zk.ACL) bool { return entry.Scheme == "auth" }

// read reads the present states of the znodes of some edits. After a lost connection, it reads again.
func (a *applier) read(edits []*Edit) (znodes []present, err error) {
	err = a.repeatedly(func() (err error) {
		znodes, err = readEach(a.ctx, a.p, edits)
		return err
	})
	return znodes, err
}

// planAnew reads the znodes of the edits in a.changed, and returns edits that make the znodes as
// wanted. It counts znodes as skipped that are as wanted already.
func (a *applier) planAnew() (more []*Edit, err error) {
	edits := a.changed
	a.changed = nil
	edits = slices.DeleteFunc(edits, func(e *Edit) bool { // those that are simply made again
		if e.anyState {
			more = append(more, &Edit{Does: e.Does, Path: e.Path, Old: &dump.Znode{}, New: e.New,
				pair: e.pair, repeats: e.repeats, hidden: e.hidden})
		}
		return e.anyState
	})
	for batch := range slices.Chunk(edits, readBatch) {
		znodes, err := a.read(batch)
		if err != nil {
			return nil, err
		}
		for i, e := range batch {
			more = append(more, a.editsAnew(e, znodes[i])...)
		}
	}
	return more, nil
}

// editsAnew returns the edits that make a znode as e wants it. now is the present state.
func (a *applier) editsAnew(e *Edit, now present) (more []*Edit) {
	wanted := *e.New
	if wanted.Kind == dump.Ephemeral {
		wanted.Kind = dump.Persistent
	}
	d := Difference{Path: e.Path, A: now.Znode, B: &wanted}
	if d.Differs(); now.Znode != nil && now.refusal != nil { // overwrite it without having read it
		d.A = &dump.Znode{Path: e.Path, Kind: now.Kind}
		d.Aspect = DataDiffers | ACLDiffers
	}
	switch {
	case e.setsACL():
		d.Aspect &^= DataDiffers
	case e.Does == Sets:
		d.Aspect &^= ACLDiffers
	}
	if now.Znode != nil && d.Aspect == 0 {
		a.result.Done.Skipped++
		a.reportProgress()
		return nil
	}
	p := planner{}
	for _, again := range append(p.next(d), p.acls...) {
		if again.Does == Leaves {
			a.reject(e, again.Why)
			continue
		}
		again.repeats = e.repeats
		more = append(more, again)
	}
	return more
}
