package commands

import (
	"context"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktree"
)

// A Recorder records what commands change, so that undo or import can restore the old state.
type Recorder interface {
	// Record calls change, which makes the changes of a command at or below path. change must record
	// each of them with the zktree.Recorder. That is nil if nothing is recorded.
	Record(ctx context.Context, env *Env, command, path string, change Change) error
	// Unrecorded notes that a command is about to change something that is never recorded. Undo then
	// asks before it undoes an earlier change.
	Unrecorded(change string)
	// Required reports whether a command must fail if the old state cannot be saved.
	Required() bool
}

// A Change is a function that changes znodes, and records what it changes with rec. rec can be nil.
type Change func(ctx context.Context, rec zktree.Recorder) error

// Record calls change, and records what it changes if env has a Recorder.
func (env *Env) Record(ctx context.Context, command, path string, change Change) error {
	if env.Recorder == nil {
		return change(ctx, nil)
	}
	return env.Recorder.Record(ctx, env, command, path, change)
}

// unrecorded notes that the command is about to change something that is never recorded.
func (env *Env) unrecorded(change string) {
	if env.Recorder != nil {
		env.Recorder.Unrecorded(change)
	}
}

// changeOne records and makes a single edit of an existing znode on behalf of a command; see
// zktree.Single.
func (env *Env) changeOne(
	ctx context.Context, command string, e *zktree.Edit, send func(ctx context.Context, version int32) error,
) error {
	return env.Record(ctx, command, e.Path, func(ctx context.Context, rec zktree.Recorder) error {
		return zktree.Single(ctx, env.Session, rec, e, send)
	})
}

// anyOr returns the state that an edit requires: any, if the version is -1, and otherwise st.
func anyOr(version int32, st zk.Stat) *dump.Znode {
	if version < 0 {
		return &dump.Znode{}
	}
	return &dump.Znode{Stat: &st}
}

// Overwrite writes a znode's data on behalf of a command, and records the old data.
func (env *Env) Overwrite(
	ctx context.Context, command, path string, data []byte, version int32,
) (st *zk.Stat, err error) {
	e := &zktree.Edit{
		Does: zktree.Sets, Path: path, Old: anyOr(version, zk.Stat{Version: version}), New: &dump.Znode{Data: data},
	}
	err = env.changeOne(ctx, command, e, func(ctx context.Context, version int32) (err error) {
		st, err = zkconn.Do(ctx, env.Session, zkconn.SetData(path, data, version))
		return err
	})
	return st, err
}

// A newZnode describes a znode to be created.
type newZnode struct {
	path string
	data []byte
	acl  []zk.ACL
	mode zkconn.CreateMode
}

// create creates a znode, and records that.
func (z newZnode) create(
	ctx context.Context, s *zkconn.Session, rec zktree.Recorder,
) (made zkconn.Written, err error) {
	e := &zktree.Edit{Does: zktree.Creates, Path: z.path, New: &dump.Znode{Data: z.data}}
	image := &zktree.Image{Edit: e, Sequential: z.mode.Sequential}
	err = zktree.Alone(ctx, rec, image, func(ctx context.Context) (zktree.Result, error) {
		made, err = zkconn.Do(ctx, s, zkconn.Create(z.path, z.data, z.acl, z.mode))
		return zktree.Result{Path: made.Path(), Czxid: made.Zxid}, err
	})
	return made, err
}

// Create creates a persistent znode on behalf of a command, with all permissions for everyone.
func (env *Env) Create(ctx context.Context, command, path string, data []byte) error {
	return env.Record(ctx, command, path, func(ctx context.Context, rec zktree.Recorder) error {
		_, err := newZnode{path: path, data: data, acl: zkconn.OpenACL()}.create(ctx, env.Session, rec)
		return err
	})
}
