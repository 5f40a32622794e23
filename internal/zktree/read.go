package zktree

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/zkconn"
)

// readBatch is the number of single znodes that are read at once. The data of this many znodes fits
// into memory, even if each has several megabytes.
const readBatch = 16

// Read reads single znodes, in the order of the paths. It has the errors of dump.Znodes, and also yields
// NoNode with each znode that does not exist. A znode counts as unreadable, too, if the server hides a
// password hash in its ACL. After a lost connection, Read asks again on the next one.
func Read(ctx context.Context, c zkconn.Client, paths []string) dump.Znodes {
	return func(yield func(*dump.Znode, error) bool) {
		for chunk := range slices.Chunk(paths, readBatch) {
			edits := make([]*Edit, len(chunk))
			for i, path := range chunk {
				edits[i] = &Edit{Path: path}
			}
			images, err := readAgain(ctx, c, edits)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, image := range images {
				z, err := image.Znode, image.Err
				if z == nil {
					z, err = &dump.Znode{Path: image.Path}, &zkconn.Error{Code: zkconn.NoNode, Path: image.Path}
				}
				if !yield(z, err) {
					return
				}
			}
		}
	}
}

// readAgain reads the znodes of some edits. After a lost connection, it reads them again on the next one.
func readAgain(ctx context.Context, c zkconn.Client, edits []*Edit) ([]*Image, error) {
	for losses := 0; ; losses++ {
		p, err := c.Pipe(ctx, edits[0].Path)
		if err != nil {
			return nil, interrupted(ctx, err)
		}
		images, err := readEach(ctx, p, edits)
		if err == nil || !mayGoOn(ctx, err, losses) {
			return images, interrupted(ctx, err)
		}
	}
}

// readEach reads the znodes of some edits.
func readEach(ctx context.Context, p *zkconn.Pipe, edits []*Edit) ([]*Image, error) {
	found := make([]*Image, len(edits))
	paths := make([]string, len(edits))
	for i, e := range edits {
		paths[i] = e.Path
		found[i] = &Image{Edit: e, Znode: &dump.Znode{Path: e.Path}}
	}
	at := 0
	next := func(refusal error) *Image {
		image := found[at]
		at++
		switch {
		case errors.Is(refusal, zkconn.NoNode):
			image.Znode = nil
		case refusal != nil:
			image.Err = refusal
		}
		return image
	}
	access, data := zkconn.AddEach(p, paths, zkconn.GetACL), zkconn.AddEach(p, paths, zkconn.GetData)
	err := access.Each(ctx, func(a zkconn.Access, refusal error) {
		if z := next(refusal).Znode; refusal == nil {
			z.ACL, z.Stat = a.ACL, a.Stat
		}
	})
	if err != nil {
		return nil, err
	}
	at = 0
	err = data.Each(ctx, func(n zkconn.Node, refusal error) {
		if z := next(refusal).Znode; refusal == nil && z != nil {
			z.Data, z.Stat, z.Kind = n.Data, n.Stat, dump.KindOf(n.Stat)
		}
	})
	if err != nil {
		return nil, err
	}
	for _, image := range found {
		if err := image.complete(ctx, p); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// complete reads the Stat of a znode that could not be read completely.
func (image *Image) complete(ctx context.Context, p *zkconn.Pipe) error {
	z := image.Znode
	if z != nil && image.Err == nil {
		image.Err = isHidden(z)
	}
	if z == nil || image.Err == nil {
		return nil
	}
	st, err := zkconn.Add(p, zkconn.Exists(z.Path)).Wait(ctx)
	switch {
	case err == nil:
		z.Stat, z.Kind = st, dump.KindOf(st)
	case errors.Is(err, zkconn.NoNode):
		image.Znode, image.Err = nil, nil
	case !errors.Is(err, zkconn.NoAuth):
		return err
	}
	return nil
}

// isHidden returns an error if the server hides password hashes in the ACL of a znode.
func isHidden(z *dump.Znode) error {
	if !slices.ContainsFunc(z.ACL, zkconn.Masked) {
		return nil
	}
	return fmt.Errorf("the server hides the password hash in the ACL of %s", z.Path)
}
