package commands

import (
	"context"
)

// Keeper keeps what commands destroy, before they do, so that it can be brought back.
type Keeper interface {
	// Around keeps what a Loss takes, has destroy do it, and takes note of what has become of it.
	Around(ctx context.Context, env *Env, l Loss, destroy Destroy) error
	// Demanded reports whether nothing may be destroyed that is not saved.
	Demanded() bool
}

// Destroy is the part of a command that destroys. Of a single znode it demands the version.
type Destroy func(ctx context.Context, version int32) error

// Loss describes the data that a command is about to overwrite or delete.
type Loss struct {
	Command string
	Path    string
	Of      Lost
	Version int32  // that the command demands; -1: any
	Data    []byte // that is written instead, of LostData
}

// Lost says what of a znode, or of all of a subtree.
type Lost string

// What can be lost.
const (
	LostData  Lost = "data"  // of one znode
	LostNode  Lost = "node"  // all of it
	LostTree  Lost = "tree"  // all of a subtree
	LostParts Lost = "parts" // znodes, data and ACLs of a subtree
	LostACL   Lost = "acl"   // of one znode; the version is the aclVersion
	LostACLs  Lost = "acls"  // of a subtree
)

// Losing has what is about to be destroyed kept first, where it is to be kept.
func (env *Env) Losing(ctx context.Context, l Loss, destroy Destroy) error {
	if env.Keeper == nil {
		return destroy(ctx, l.Version)
	}
	return env.Keeper.Around(ctx, env, l, destroy)
}
