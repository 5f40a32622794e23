package zktree

import (
	"context"
	"errors"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/zkconn"
)

// A Kept is a Source that reads from the tree in a file, such as a dump or a
// snapshot.
type Kept struct{ t *dump.Tree }

// OnFile returns a Source that reads from the tree t of a file.
func OnFile(t *dump.Tree) *Kept { return &Kept{t} }

// fileBatch is the maximum number of paths in one call of Ask.
const fileBatch = 256

var _ Source = (*Kept)(nil)

// Batch implements Source.
func (k *Kept) Batch(Want) int { return fileBatch }

// Ask implements Source. It only returns an Answer. The znodes are read when the
// Answer's method Wait is called.
func (k *Kept) Ask(paths []string, want Want) Answer { return &fileAnswer{k, paths, want} }

// A fileAnswer is an Answer that reads its entries when Wait is called.
type fileAnswer struct {
	k     *Kept
	paths []string
	want  Want
}

var _ Answer = (*fileAnswer)(nil)

func (a *fileAnswer) Ready() bool { return true }

func (a *fileAnswer) Slowed() bool { return false }

func (a *fileAnswer) Wait(ctx context.Context, room []Entry) ([]Entry, error) {
	entries := slices.Grow(room[:0], len(a.paths))
	for _, path := range a.paths {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		e, err := a.k.entry(path, a.want)
		if err != nil && !errors.Is(err, zkconn.NoNode) {
			return nil, err
		}
		e.Err = err
		entries = append(entries, e)
	}
	return entries, nil
}

func (k *Kept) entry(path string, want Want) (e Entry, err error) {
	names, is := k.t.Names(path)
	if !is {
		return e, &zkconn.Error{Code: zkconn.NoNode, Path: path}
	}
	if want.Names {
		e.Names = names
	}
	if !want.Stat && !want.Data && !want.ACL {
		return e, nil
	}
	z, err := k.t.Znode(path, want.Data)
	if err != nil {
		return e, err
	}
	e.Data, e.ACL, e.Stat, e.Kind, e.TTL = z.Data, z.ACL, z.Stat, z.Kind, z.TTL
	if e.Stat == nil && want.Stat { // without a Stat in the file, only two fields are known
		if z, err = k.t.Znode(path, true); err != nil {
			return e, err
		}
		e.Stat = &zk.Stat{DataLength: int32(len(z.Data)), NumChildren: int32(len(names))}
	}
	return e, nil
}

// Get returns a znode with its data.
func (k *Kept) Get(path string) (*dump.Znode, error) {
	z, err := k.t.Znode(path, true)
	if errors.Is(err, dump.ErrNone) {
		err = &zkconn.Error{Code: zkconn.NoNode, Path: path}
	}
	return z, err
}
