package commands

import "context"

// Saver saves the data that commands are about to overwrite or delete, so that undo or import can
// restore it.
type Saver interface {
	// SaveAndRun saves the data that l describes, calls destroy, and records the outcome.
	SaveAndRun(ctx context.Context, env *Env, l Loss, destroy Destroy) error
	// Required reports whether a command must fail if the data cannot be saved.
	Required() bool
}

// Destroy is a function that overwrites or deletes data. For a single znode, it requires that the
// znode still has the given version; -1 means any version.
type Destroy func(ctx context.Context, version int32) error

// Loss describes the data that a command is about to overwrite or delete.
type Loss struct {
	Command string
	Path    string
	Of      Lost
	Version int32  // version of the znode that the command requires, or -1 for any
	Data    []byte // new data of the znode, if Of is LostData
}

// Lost identifies the part of a znode or subtree that a command overwrites or deletes.
type Lost string

// The parts of a znode or subtree that a command can overwrite or delete.
const (
	LostData  Lost = "data"  // the data of one znode
	LostNode  Lost = "node"  // one znode
	LostTree  Lost = "tree"  // a whole subtree
	LostParts Lost = "parts" // some of the znodes, data and ACLs in a subtree, such as those that import changes
	LostACL   Lost = "acl"   // the ACL of one znode; Loss.Version is the required aclVersion
	LostACLs  Lost = "acls"  // the ACLs of a subtree
)

// SaveAndRun saves the data that l describes, if a Saver is set, and then calls destroy.
func (env *Env) SaveAndRun(ctx context.Context, l Loss, destroy Destroy) error {
	if env.Saver == nil {
		return destroy(ctx, l.Version)
	}
	return env.Saver.SaveAndRun(ctx, env, l, destroy)
}
