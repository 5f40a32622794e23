package commands

import (
	"context"
)

// Saver saves what commands are about to overwrite or delete, so that undo or import can
// restore it.
type Saver interface {
	// SaveAndRun saves what l describes, calls destroy, and records the outcome.
	SaveAndRun(ctx context.Context, env *Env, l Loss, destroy Destroy) error
	// Required reports whether a command must fail rather than destroy something unsaved.
	Required() bool
}

// Destroy is the part of a command that overwrites or deletes. For a single znode, it requires
// that the znode still has this version; -1 means any.
type Destroy func(ctx context.Context, version int32) error

// Loss describes the data that a command is about to overwrite or delete.
type Loss struct {
	Command string
	Path    string
	Of      Lost
	Version int32  // version that the command requires; -1: any
	Data    []byte // new data, for LostData
}

// Lost says which part of a znode or subtree is lost.
type Lost string

// The values of Lost.
const (
	LostData  Lost = "data"  // the data of one znode
	LostNode  Lost = "node"  // one znode
	LostTree  Lost = "tree"  // a whole subtree
	LostParts Lost = "parts" // some znodes, data and ACLs of a subtree
	LostACL   Lost = "acl"   // the ACL of one znode; Loss.Version is its aclVersion
	LostACLs  Lost = "acls"  // the ACLs of a subtree
)

// SaveAndRun saves what l describes, if anything is to be saved, and then calls destroy.
func (env *Env) SaveAndRun(ctx context.Context, l Loss, destroy Destroy) error {
	if env.Saver == nil {
		return destroy(ctx, l.Version)
	}
	return env.Saver.SaveAndRun(ctx, env, l, destroy)
}
