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

// A Saver saves the data that commands overwrite or delete, in the user's undo log or in a file.
type Saver struct {
	backend backend
	inQueue func(name string) bool // reports whether a znode with this name belongs to a lock queue
	by      Origin

	parts partCounter
}

// backend is the place in which a Saver stores operations: the undo log or a file.
type backend interface {
	begin() (draft, error)
	update(e *entry) error // records the outcome of an operation
	remove(n int) error    // removes an operation that turned out to have destroyed nothing
	forImport() bool       // reports whether import reads the copies, which must then be complete
}

// draft is an operation that is being saved. It must be finished with commit or abort.
type draft interface {
	Write(p []byte) (int, error)
	commit(e *entry) error
	abort() error
}

// SaveAndRun implements commands.Saver. It first saves the data, and then calls destroy.
//
// For a single znode, it passes the saved version to destroy. If another client changes the znode
// in between, SaveAndRun saves it again and repeats destroy, unless the command requires a certain
// version. For a subtree, SaveAndRun does not detect such changes.
func (s *Saver) SaveAndRun(ctx context.Context, env *commands.Env, l commands.Loss, destroy commands.Destroy) error {
	for synced := false; ; {
		e, version, err := s.save(ctx, env, l)
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
		if noteErr := s.recordOutcome(ctx, env, e, recorder.Destroyed()); noteErr != nil {
			env.Screen.Note(fmt.Sprintf("cannot update the undo log: %s", noteErr))
		}
		if version == l.Version || !errors.Is(err, zkconn.BadVersion) {
			return err
		}
	}
}

// Required implements commands.Saver. It returns true for --undo FILE, because the user relies on
// the file.
func (s *Saver) Required() bool { return s.backend.forImport() }

// save saves the data that the command is about to destroy, and returns the entry of the saved
// operation. The entry is nil if there was nothing to save, or if the command continues without a
// saved copy.
func (s *Saver) save(ctx context.Context, env *commands.Env, l commands.Loss) (e *entry, version int32, err error) {
	servers := env.Session.Servers()
	op := &saving{Loss: l, saver: s, env: env, version: l.Version, unread: zktree.UnreadError{Root: l.Path}, entry: entry{
		Command: l.Command, Path: l.Path, Of: l.Of, Servers: servers.Hosts, Chroot: servers.Chroot, Cluster: env.Session.Cluster(), Time: time.Now(),
	}}
	if l.Of == commands.LostData {
		op.entry.Wrote = hashOf(l.Data)
	}
	if by := s.by; by.ID != "" {
		by.Script = env.Script
		op.entry.By = &by
	}
	if env.Line != "" {
		op.entry.Line, op.entry.Part = env.Line, s.parts.count(env.Line, 1)
	}
	saved, err := op.save(ctx, servers.Spec)
	if err != nil || !saved {
		s.parts.count(env.Line, -1)
	}
	if err != nil && context.Cause(ctx) != nil {
		env.Screen.Alert(fmt.Sprintf("nothing was done, because zksh was still saving %s for undo", l.Path))
	}
	if err != nil || !saved {
		return nil, l.Version, err
	}
	return &op.entry, op.version, nil
}

// saving is the state of an operation whose data is being saved.
type saving struct {
	commands.Loss
	saver   *Saver
	env     *commands.Env
	draft   draft
	entry   entry
	version int32              // saved version of the znode, if the operation affects a single one
	unread  zktree.UnreadError // znodes that could not be read
}

// errNothingToSave means that the operation would destroy no data that undo could restore.
var errNothingToSave = errors.New("nothing to be saved")

// staleError means that the znode does not exist on the server, or has another version than the
// command requires. The reason may be that the server lags behind the leader.
type staleError struct{ cause error }

func (e *staleError) Error() string { return e.cause.Error() }

// finalError is an error that stops the command, because the command must not continue without a
// saved copy.
type finalError struct{ cause error }

func (e *finalError) Error() string { return e.cause.Error() }

// save writes the saved copy. If it returns no error, the command may continue, even if saved is
// false.
func (op *saving) save(ctx context.Context, server string) (saved bool, err error) {
	if op.draft, err = op.saver.backend.begin(); err != nil {
		return false, op.saveFailed(ctx, err)
	}
	err = op.writeDump(ctx, server)
	if err == nil && op.unread.N > 0 {
		err = op.proceedUnsaved(ctx, &op.unread)
	}
	if err == nil {
		err = op.draft.commit(&op.entry)
	} else {
		err = errors.Join(err, op.draft.abort())
	}
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, errNothingToSave):
		return false, nil
	case errors.As(err, new(*staleError)):
		return false, err
	}
	return false, op.saveFailed(ctx, err)
}

// saveFailed handles an error in saving the data. It returns the error with which the command ends,
// or nil if the command continues.
func (op *saving) saveFailed(ctx context.Context, err error) error {
	if !errors.As(err, new(*finalError)) {
		err = op.proceedUnsaved(ctx, err)
	}
	if final, is := errors.AsType[*finalError](err); is {
		return final.cause
	}
	return err
}

// proceedUnsaved returns an error unless the command may continue without a complete copy. At the
// prompt, it asks the user. A single command typed in a shell such as bash continues, because no
// user can be asked. With --undo FILE, the command fails.
func (op *saving) proceedUnsaved(ctx context.Context, why error) error {
	switch {
	case op.saver.Required():
		return &finalError{fmt.Errorf("nothing was done, because zksh cannot save the whole subtree %s: %w", op.Path, why)}
	case op.env.Mode != commands.ByHand:
		op.env.Screen.Alert(op.unsavedText(why) + "; continuing anyway")
		return nil
	}
	err := op.wouldFail(ctx)
	if err == nil {
		err = op.env.AskToContinue(ctx, op.unsavedText(why))
	}
	if err != nil {
		return &finalError{err}
	}
	return nil
}

// unsavedText returns a message about the data that cannot be saved, and the reason.
func (op *saving) unsavedText(why error) string {
	if op.isSingle() && op.entry.Znodes == 0 && op.unread.N > 0 && errors.Is(why, zkconn.NoAuth) {
		return fmt.Sprintf("no permission to read %s, so undo will not be able to restore it", op.Path)
	}
	return fmt.Sprintf("zksh cannot save the whole subtree %s for undo: %s", op.Path, why)
}

// isSingle reports whether the operation affects a single znode rather than a subtree.
func (op *saving) isSingle() bool {
	return op.Of == commands.LostData || op.Of == commands.LostNode || op.Of == commands.LostACL
}

// writeDump writes a dump of the znodes that the operation overwrites or deletes.
func (op *saving) writeDump(ctx context.Context, server string) (err error) {
	w, err := dump.NewWriter(op.draft, dump.Header{Root: op.Path, Server: server, Time: op.entry.Time})
	if err != nil {
		return err
	}
	defer func() {
		if err != nil { // make the Writer stop writing to the draft
			err = errors.Join(err, w.Abort())
		}
	}()
	var end dump.Trailer
	left := "" // path prefix of the znodes to skip, or empty if there are none
	for z, err := range op.znodes(ctx) {
		switch {
		case z == nil && errors.Is(err, zkconn.NoNode):
			return &staleError{err}
		case z == nil:
			return &finalError{err}
		case left != "" && strings.HasPrefix(z.Path, left):
			continue
		case err != nil && (z.ACL == nil || !aclsOnly(op.Of) || op.saver.backend.forImport()):
			op.unread.Add(err)
			continue
		case slices.ContainsFunc(z.ACL, zkconn.Masked):
			if z.ACL = nil; op.Of != commands.LostData { // undo must not create the znode again with another ACL
				op.unread.Add(fmt.Errorf("the server hides the password hash in the ACL of %s", z.Path))
				left = z.Path + "/"
				continue
			}
		}
		if !op.include(z) {
			left = z.Path + "/"
			continue
		}
		if err := w.Write(z); err != nil {
			return err
		}
		if st := z.Stat; st != nil {
			op.entry.Seen = max(op.entry.Seen, st.Czxid, st.Mzxid, st.Pzxid)
		}
		op.entry.Znodes++
		op.entry.Data += int64(len(z.Data))
	}
	switch e := &op.entry; {
	case e.Znodes == 0 && op.unread.N > 0:
		return &op.unread
	case op.Version != -1 && op.version != op.Version:
		return &staleError{&zkconn.Error{Code: zkconn.BadVersion, Path: op.Path, Versions: op.versions()}}
	case e.Znodes == 0 && (e.Queued == 0 || op.saver.backend.forImport()):
		return errNothingToSave
	}
	end.Missed = op.unread.N
	return w.Close(end)
}

// versions returns the version that the command requires, and the one that the znode has.
func (op *saving) versions() *zkconn.Versions {
	of := zkconn.DataVersion
	if op.Of == commands.LostACL {
		of = zkconn.ACLVersion
	}
	return &zkconn.Versions{Of: of, Expected: int64(op.Version), Actual: int64(op.version), Known: true}
}

// include reports whether to save the znode z. It returns false if z belongs to a lock queue. It
// also counts the znodes that undo will not restore, and records the version of a single znode.
func (op *saving) include(z *dump.Znode) bool {
	switch op.Of {
	case commands.LostData, commands.LostNode:
		op.version = z.Stat.Version
	case commands.LostACL:
		op.version = z.Stat.Aversion
	}
	switch {
	case op.Of == commands.LostData || aclsOnly(op.Of): // the operation deletes no znodes
	case z.Kind == dump.Ephemeral:
		op.entry.Ephemeral++
	case op.saver.inQueue(path.Base(z.Path)):
		op.entry.Queued++
		return false
	}
	return true
}

// znodes yields the znodes that the operation affects, parents before their children. As in
// dump.Znodes, an unreadable znode is yielded together with an error.
func (op *saving) znodes(ctx context.Context) iter.Seq2[*dump.Znode, error] {
	if !op.isSingle() {
		return func(yield func(*dump.Znode, error) bool) {
			if err := zkconn.Exec(ctx, op.env.Session, zkconn.Sync(op.Path)); err != nil { // wait until the server has the latest writes of other clients
				yield(nil, err)
				return
			}
			subtree(ctx, op.env, op.Path, "saved").Nodes(yield)
		}
	}
	return func(yield func(*dump.Znode, error) bool) {
		yield(zktree.ReadOne(ctx, op.env.Session.Client, op.Path, op.Of != commands.LostData || op.saver.backend.forImport()))
	}
}

// subtree returns the znodes of a subtree on the server. The progress display shows verb while the
// znodes are read.
func subtree(ctx context.Context, env *commands.Env, root, verb string) zktree.Tree {
	return zktree.Tree{Root: root, Nodes: func(yield func(*dump.Znode, error) bool) {
		update, end := env.Screen.Progress(verb)
		defer end()
		zktree.ServerTree(ctx, env.Session.Client, root, update).Nodes(yield)
	}}
}

// recordOutcome records the outcome of an operation. It deletes the saved copy only if the
// operation is known to have destroyed nothing.
func (s *Saver) recordOutcome(ctx context.Context, env *commands.Env, e *entry, outcome zkconn.Outcome) error {
	switch {
	case e == nil:
		return nil
	case !outcome.MayHaveHappened():
		s.parts.count(e.Line, -1)
		return s.backend.remove(e.N)
	case outcome.Unknown == 0:
		e.State = done
	}
	if s.backend.forImport() {
		return s.backend.update(e)
	}
	failed := commands.CleanUp(ctx, func(ctx context.Context) error { return e.markEnd(ctx, env.Session) })
	return errors.Join(failed, s.backend.update(e))
}

// markEnd records the state after the operation, so that undo can detect later changes. For the
// kind LostParts, this is the ensemble's last zxid after all requests of the operation. For an
// operation that overwrote only ACLs, this is the ACL of the root.
func (e *entry) markEnd(ctx context.Context, s *zkconn.Session) (err error) {
	switch {
	case e.Of == commands.LostParts:
		e.Zxid, err = endZxid(ctx, s)
	case aclsOnly(e.Of) && !e.isUndo() && e.State == done:
		var access zkconn.Access
		access, err = zkconn.Do(ctx, s, zkconn.GetACL(e.Path))
		if e.Left = access.ACL; errors.Is(err, zkconn.NoAuth) || errors.Is(err, zkconn.NoNode) {
			err = nil
		}
	}
	return err
}

// endZxid returns the ensemble's last zxid after all requests of the session so far. It tries again
// after a connection loss, which is safe because its requests change nothing.
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

// aclsOnly reports whether an operation that overwrites or deletes the given part overwrites only
// ACLs.
func aclsOnly(part commands.Lost) bool {
	return part == commands.LostACL || part == commands.LostACLs
}

func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
