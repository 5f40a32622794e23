package undo

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktree"
)

// Keeper saves what commands destroy: in the user's undo log, or in a file.
type Keeper struct {
	shelf shelf
	queue func(name string) bool // names of the znodes of lock queues
	by    By

	parts parts
}

// shelf is where a Keeper puts operations.
type shelf interface {
	begin() (draft, error)
	update(e *entry) error // what has become of it
	remove(n int) error    // it has destroyed nothing
	whole() bool           // all of each znode is to be kept, as the shelf is for import
}

// draft is an operation that is being kept. It ends with keep or drop.
type draft interface {
	Write(p []byte) (int, error)
	keep(e *entry) error
	drop() error
}

// Around is part of commands.Keeper. A single znode is destroyed in the version that was
// kept: when somebody else is quicker it is read again, unless the command demands a
// version of its own. A subtree is kept as it was read.
func (k *Keeper) Around(ctx context.Context, env *commands.Env, l commands.Loss, destroy commands.Destroy) error {
	for synced := false; ; {
		e, version, err := k.keep(ctx, env, l)
		if stale, is := errors.AsType[*staleError](err); is && !synced {
			if err := zkconn.Exec(ctx, env.Session, zkconn.Sync(l.Path)); err != nil {
				return err
			}
			synced = true
			continue
		} else if is {
			return stale.cause
		}
		if err != nil {
			return err
		}
		var recorder zkconn.Recorder
		err = destroy(recorder.Context(ctx), version)
		if noteErr := k.settle(ctx, env, e, recorder.Outcome()); noteErr != nil {
			env.Screen.Note(fmt.Sprintf("cannot update the undo log: %s", noteErr))
		}
		if version == l.Version || !errors.Is(err, zkconn.BadVersion) {
			return err
		}
	}
}

// Demanded implements commands.Keeper: who names a file for it relies on that file.
func (k *Keeper) Demanded() bool { return k.shelf.whole() }

// keep reads what is to be destroyed and keeps it. There is no entry if there is nothing,
// or if the person at the terminal wants it destroyed without one.
func (k *Keeper) keep(ctx context.Context, env *commands.Env, l commands.Loss) (e *entry, version int32, err error) {
	servers := env.Session.Servers()
	g := &keeping{Loss: l, k: k, env: env, version: l.Version, shut: zktree.UnreadError{Root: l.Path}, entry: entry{
		Command: l.Command, Path: l.Path, Of: l.Of, Servers: servers.Hosts, Chroot: servers.Chroot, Cluster: env.Session.Cluster(), Time: time.Now(),
	}}
	if l.Of == commands.LostData {
		g.entry.Wrote = hashed(l.Data)
	}
	if by := k.by; by.ID != "" {
		by.Script = env.Script
		g.entry.By = &by
	}
	if env.Line != "" {
		g.entry.Line, g.entry.Part = env.Line, k.parts.count(env.Line, 1)
	}
	kept, err := g.keep(ctx, servers.Spec)
	if err != nil || !kept {
		k.parts.count(env.Line, -1)
	}
	if err != nil && context.Cause(ctx) != nil {
		env.Screen.Alert(fmt.Sprintf("nothing was done, because zksh was still saving %s for undo", l.Path))
	}
	if err != nil || !kept {
		return nil, l.Version, err
	}
	return &g.entry, g.version, nil
}

// keeping is an operation on its way into the shelf.
type keeping struct {
	commands.Loss
	k       *Keeper
	env     *commands.Env
	draft   draft
	entry   entry
	version int32              // of a single znode, as it was read
	shut    zktree.UnreadError // what may not be read
}

// errNothing says that there is nothing to be kept.
var errNothing = errors.New("nothing to be kept")

// staleError is that of a znode which is not there, or not in the version that is
// demanded, by what a server says that may lag behind.
type staleError struct{ cause error }

func (e *staleError) Error() string { return e.cause.Error() }

// finalError is one that ends the command as well.
type finalError struct{ cause error }

func (e *finalError) Error() string { return e.cause.Error() }

// keep puts it there. Without an error it may be destroyed, also if it is not kept.
func (g *keeping) keep(ctx context.Context, server string) (kept bool, err error) {
	if g.draft, err = g.k.shelf.begin(); err != nil {
		return false, g.unkept(ctx, err)
	}
	err = g.write(ctx, server)
	if err == nil && g.shut.N > 0 {
		err = g.without(ctx, &g.shut)
	}
	if err == nil {
		err = g.draft.keep(&g.entry)
	} else {
		err = errors.Join(err, g.draft.drop())
	}
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, errNothing):
		return false, nil
	case errors.As(err, new(*staleError)):
		return false, err
	}
	return false, g.unkept(ctx, err)
}

// unkept is the error of a command that does not go on after a failure to keep.
func (g *keeping) unkept(ctx context.Context, err error) error {
	if !errors.As(err, new(*finalError)) {
		err = g.without(ctx, err)
	}
	if final, is := errors.AsType[*finalError](err); is {
		return final.cause
	}
	return err
}

// without decides whether to destroy what cannot be saved: a person is asked; a command that
// was typed in another shell goes on, as nobody is there to ask; and with --undo FILE, nothing
// is destroyed.
func (g *keeping) without(ctx context.Context, why error) error {
	switch {
	case g.k.Demanded():
		return &finalError{fmt.Errorf("nothing was done, because zksh cannot save the whole subtree %s: %w", g.Path, why)}
	case g.env.Mode != commands.ByHand:
		g.env.Screen.Alert(g.unsaved(why) + "; continuing anyway")
		return nil
	}
	err := g.wouldFail(ctx)
	if err == nil {
		err = g.env.Leave(ctx, g.unsaved(why))
	}
	if err != nil {
		return &finalError{err}
	}
	return nil
}

// unsaved words why something cannot be saved.
func (g *keeping) unsaved(why error) string {
	if g.ofOne() && g.entry.Znodes == 0 && g.shut.N > 0 && errors.Is(why, zkconn.NoAuth) {
		return fmt.Sprintf("no permission to read %s, so undo will not be able to restore it", g.Path)
	}
	return fmt.Sprintf("zksh cannot save the whole subtree %s for undo: %s", g.Path, why)
}

// ofOne reports whether the operation destroys something of a single znode.
func (g *keeping) ofOne() bool {
	return g.Of == commands.LostData || g.Of == commands.LostNode || g.Of == commands.LostACL
}

// write writes what is to be destroyed as a dump.
func (g *keeping) write(ctx context.Context, server string) (err error) {
	w, err := dump.NewWriter(g.draft, dump.Lines, dump.Header{Root: g.Path, Server: server, Time: g.entry.Time})
	if err != nil {
		return err
	}
	defer func() {
		if err != nil { // nothing is written to the draft any more
			err = errors.Join(err, w.Abort())
		}
	}()
	var end dump.Trailer
	left := "" // what begins with it is left out
	for z, err := range g.read(ctx) {
		switch {
		case z == nil && errors.Is(err, zkconn.NoNode):
			return &staleError{err}
		case z == nil:
			return &finalError{err}
		case left != "" && strings.HasPrefix(z.Path, left):
			continue
		case err != nil && (z.ACL == nil || !aclsOnly(g.Of) || g.k.shelf.whole()):
			g.shut.Add(err)
			continue
		case slices.ContainsFunc(z.ACL, zkconn.Masked):
			if z.ACL = nil; g.Of != commands.LostData { // with another ACL it had better not come back
				g.shut.Add(fmt.Errorf("the server hides the password hash in the ACL of %s", z.Path))
				left = z.Path + "/"
				continue
			}
		}
		if !g.comesBack(z) {
			left = z.Path + "/"
			continue
		}
		if err := w.Write(z); err != nil {
			return err
		}
		if st := z.Stat; st != nil {
			g.entry.Seen = max(g.entry.Seen, st.Czxid, st.Mzxid, st.Pzxid)
		}
		g.entry.Znodes++
		g.entry.Data += int64(len(z.Data))
	}
	switch e := &g.entry; {
	case e.Znodes == 0 && g.shut.N > 0:
		return &g.shut
	case g.Version != -1 && g.version != g.Version:
		return &staleError{&zkconn.Error{Code: zkconn.BadVersion, Path: g.Path}}
	case e.Znodes == 0 && (e.Queued == 0 || g.k.shelf.whole()):
		return errNothing
	}
	end.Missed = g.shut.N
	return w.Close(end)
}

// comesBack counts the znodes that undo does not bring back, and tells those of lock
// queues, which are not even kept.
func (g *keeping) comesBack(z *dump.Znode) bool {
	switch g.Of {
	case commands.LostData, commands.LostNode:
		g.version = z.Stat.Version
	case commands.LostACL:
		g.version = z.Stat.Aversion
	}
	switch {
	case g.Of == commands.LostData || aclsOnly(g.Of): // they are not gone
	case z.Kind == dump.Ephemeral:
		g.entry.Ephemeral++
	case g.k.queue(path.Base(z.Path)):
		g.entry.Queued++
		return false
	}
	return true
}

// read gives the znodes of a Loss, each before those below it, as zktree.Nodes does.
func (g *keeping) read(ctx context.Context) iter.Seq2[*dump.Znode, error] {
	if !g.ofOne() {
		return func(yield func(*dump.Znode, error) bool) {
			if err := zkconn.Exec(ctx, g.env.Session, zkconn.Sync(g.Path)); err != nil { // what others have just written is to be kept as well
				yield(nil, err)
				return
			}
			subtree(ctx, g.env, g.Path, "saved").Nodes(yield)
		}
	}
	return func(yield func(*dump.Znode, error) bool) {
		yield(zktree.ReadOne(ctx, g.env.Session.Client, g.Path, g.Of != commands.LostData || g.k.shelf.whole()))
	}
}

// subtree is a subtree of the server; reading it shows progress.
func subtree(ctx context.Context, env *commands.Env, root, verb string) zktree.Tree {
	return zktree.Tree{Root: root, Nodes: func(yield func(*dump.Znode, error) bool) {
		update, end := env.Screen.Progress(verb)
		defer end()
		zktree.ServerTree(ctx, env.Session.Client, root, update).Nodes(yield)
	}}
}

// settle notes what became of an operation. The saved copy goes if, and only if, the
// operation is known to have destroyed nothing.
func (k *Keeper) settle(ctx context.Context, env *commands.Env, e *entry, outcome zkconn.Outcome) error {
	switch {
	case e == nil:
		return nil
	case !outcome.MayHaveHappened():
		k.parts.count(e.Line, -1)
		return k.shelf.remove(e.N)
	case outcome.Unknown == 0:
		e.State = done
	}
	if k.shelf.whole() {
		return k.shelf.update(e)
	}
	failed := commands.Closing(ctx, func(ctx context.Context) error { return e.markEnd(ctx, env.Session) })
	return errors.Join(failed, k.shelf.update(e))
}

// markEnd notes what tells the operation's own changes from later ones. Once the server
// has answered a sync in the same session, or in a later one, nothing of the operation can
// take effect any more.
func (e *entry) markEnd(ctx context.Context, s *zkconn.Session) (err error) {
	switch {
	case e.Of == commands.LostParts:
		e.Zxid, err = endZxid(ctx, s)
	case aclsOnly(e.Of) && !e.ofUndo() && e.State == done:
		var access zkconn.Access
		access, err = zkconn.Do(ctx, s, zkconn.GetACL(e.Path))
		if e.Left = access.ACL; errors.Is(err, zkconn.NoAuth) || errors.Is(err, zkconn.NoNode) {
			err = nil
		}
	}
	return err
}

// endZxid returns the newest zxid behind all that the session has sent. If the connection is
// lost it asks again: neither request changes anything.
func endZxid(ctx context.Context, s *zkconn.Session) (zxid int64, err error) {
	const tries = 3
	for range tries {
		if err = s.WaitReady(ctx); err != nil {
			return 0, err
		}
		if err = zkconn.Exec(ctx, s.Absolute(), zkconn.Sync("/")); err == nil {
			zxid, err = zkconn.Do(ctx, s, zkconn.Zxid())
		}
		if !errors.Is(err, zkconn.ConnectionLoss) {
			break
		}
	}
	return zxid, err
}

// aclsOnly reports whether nothing but access control lists is lost.
func aclsOnly(of commands.Lost) bool { return of == commands.LostACL || of == commands.LostACLs }

func hashed(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
