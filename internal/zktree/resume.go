package zktree

import (
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
		images, err := readEach(a.ctx, a.p, batch)
		if err != nil {
			return nil, err
		}
		for _, now := range images {
			e := now.Edit
			ends[e] = now.outcome()
			if e.Does == Creates && ends[e] == made {
				e.czxid = now.Znode.Stat.Czxid
			}
		}
	}
	return ends, nil
}

// outcome determines from the present state of a znode, which is that of the image, whether the edit was
// made. The result is rejected if the edit had no effect, or if it is harmless to make it again.
func (image *Image) outcome() outcome {
	e, now := image.Edit, image.Znode
	switch {
	case now == nil && e.Does == Deletes:
		return made
	case now == nil && e.Does == Creates:
		return rejected
	case now == nil || now.Stat == nil:
		return unclear
	}
	old, readable := e.oldStat(), image.Err == nil
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
func (a *applier) read(edits []*Edit) (images []*Image, err error) {
	err = a.repeatedly(func() (err error) {
		images, err = readEach(a.ctx, a.p, edits)
		return err
	})
	return images, err
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
		images, err := a.read(batch)
		if err != nil {
			return nil, err
		}
		for _, now := range images {
			more = append(more, a.editsAnew(now)...)
		}
	}
	return more, nil
}

// editsAnew returns the edits that make a znode as its edit wants it. now is the present state.
func (a *applier) editsAnew(now *Image) (more []*Edit) {
	e := now.Edit
	wanted := *e.New
	if wanted.Kind == dump.Ephemeral {
		wanted.Kind = dump.Persistent
	}
	d := Difference{Path: e.Path, A: now.Znode, B: &wanted}
	if d.Differs(); now.Znode != nil && now.Err != nil { // overwrite it without having read it
		d.A = &dump.Znode{Path: e.Path, Kind: now.Znode.Kind}
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
