package zkconn

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/jute"
)

// CreateMode is the kind of znode to create. A TTL of 0 means none.
type CreateMode struct {
	Ephemeral  bool
	Sequential bool
	Container  bool
	TTL        time.Duration // rounded down to milliseconds
}

// flags returns the opcode and the flags of the create request, as CreateMode.toFlag of the Java
// client does.
func (m CreateMode) flags() (code, flags int32, err error) {
	switch {
	case m.Container && (m.Ephemeral || m.Sequential || m.TTL != 0), m.TTL != 0 && m.Ephemeral, m.TTL < 0:
		return 0, 0, fmt.Errorf("invalid create mode %+v", m)
	case m.Container:
		return jute.OpCreateContainer, flagContainer, nil
	case m.TTL != 0 && m.Sequential:
		return jute.OpCreateTTL, flagSequentialTTL, nil
	case m.TTL != 0:
		return jute.OpCreateTTL, flagTTL, nil
	}
	if m.Ephemeral {
		flags |= zk.FlagEphemeral
	}
	if m.Sequential {
		flags |= zk.FlagSequence
	}
	return jute.OpCreate, flags, nil
}

// Values of the flags of a create request that are not combinations of bits.
const (
	flagContainer     = 4
	flagTTL           = 5
	flagSequentialTTL = 6
)

// OpenACL returns the ACL that gives all permissions to everyone, zkCli's default.
func OpenACL() []zk.ACL { return zk.WorldACL(zk.PermAll) }

// Written is the result of a write.
type Written struct {
	Paths []string // of the znodes it created, in the order they were asked for
	Zxid  int64    // of the transaction
}

// Path returns the path of the created znode; empty if none was created.
func (w Written) Path() string { return strings.Join(w.Paths, "") }

// A Change is a create, a delete, a check or new data: one request, or a part of a multi.
type Change struct {
	code  int32
	path  string
	flags int32               // of a create
	rest  func(*jute.Encoder) // writes the fields after the path
	err   error               // why the change is impossible; nil if it is possible

	absolute bool // the path includes the chroot
}

func creation(code int32, r *zk.CreateRequest, ttl time.Duration) Change {
	return Change{code: code, path: r.Path, flags: r.Flags, rest: func(e *jute.Encoder) {
		e.Buffer(r.Data)
		writeACL(e, r.Acl)
		e.Int(r.Flags)
		if code == jute.OpCreateTTL {
			e.Long(ttl.Milliseconds())
		}
	}}
}

// Creation returns the change that creates a znode. Nil data is null.
func Creation(path string, data []byte, acl []zk.ACL, mode CreateMode) Change {
	code, flags, err := mode.flags()
	c := creation(code, &zk.CreateRequest{Path: path, Data: data, Acl: acl, Flags: flags}, mode.TTL)
	c.err = err
	return c
}

// Removal returns the change that deletes a znode if it has the version; -1 is any.
func Removal(path string, version int32) Change {
	return Change{code: jute.OpDelete, path: path, rest: func(e *jute.Encoder) { e.Int(version) }}
}

// NewData returns the change that writes a znode's data if it has the version; -1 is any.
func NewData(path string, data []byte, version int32) Change {
	return Change{code: jute.OpSetData, path: path, rest: func(e *jute.Encoder) { e.Buffer(data); e.Int(version) }}
}

// check returns the change that changes nothing, and fails unless the znode has the version.
func check(path string, version int32) Change {
	return Change{code: jute.OpCheck, path: path, rest: func(e *jute.Encoder) { e.Int(version) }}
}

// changeOf returns the change that one of go-zookeeper's requests stands for.
func changeOf(request any) Change {
	switch r := request.(type) {
	case *zk.CreateRequest:
		return creation(jute.OpCreate, r, 0)
	case *zk.DeleteRequest:
		return Removal(r.Path, r.Version)
	case *zk.SetDataRequest:
		return NewData(r.Path, r.Data, r.Version)
	case *zk.CheckVersionRequest:
		return check(r.Path, r.Version)
	}
	return Change{err: fmt.Errorf("a multi request cannot contain a %T", request)}
}

func (c Change) valid() error {
	bits := c.flags < flagContainer && c.flags&zk.FlagSequence != 0
	return cmp.Or(c.err, ValidatePath(c.path, bits || c.flags == flagSequentialTTL))
}

func (c Change) encode(e *jute.Encoder, root chroot) {
	if c.absolute {
		root = ""
	}
	e.String(root.server(c.path))
	c.rest(e)
}

// made reads the change's answer and returns the server's path of the created znode; empty if it
// creates none.
func (c Change) made(a *answer) string {
	switch {
	case jute.Creates(c.code):
		return a.String()
	case c.code == jute.OpSetData:
		a.Stat()
	}
	return ""
}

// done updates the session's ephemeral znodes after a successful change. Called with mu held.
func (c Change) done(l *link, root chroot, made string) {
	switch {
	case c.code == jute.OpDelete:
		delete(l.ephemerals, root.server(c.path))
	case made != "" && c.flags < flagContainer && c.flags&zk.FlagEphemeral != 0:
		l.ephemerals[made] = struct{}{}
	}
}

// alone returns the operation that sends a change as a request of its own.
func alone(c Change) Op[Written] {
	o := changing(c.code, c)
	o.encode = c.encode
	return o
}

// Multi carries out all changes or none. A refusal is about the first change that failed. The
// slice must not be modified afterwards.
func Multi(changes []Change) Op[Written] {
	o := changing(jute.OpMulti, changes...)
	o.encode = func(e *jute.Encoder, root chroot) {
		for _, c := range changes {
			e.MultiHeader(c.code, false, -1)
			c.encode(e, root)
		}
		e.MultiHeader(-1, true, -1)
	}
	return o
}

// MultiDelete deletes all znodes or none, whatever their versions.
func MultiDelete(paths []string) Op[Written] {
	changes := make([]Change, len(paths))
	for i, path := range paths {
		changes[i] = Removal(path, -1)
	}
	return Multi(changes)
}

// changing returns an operation without its encoding: the common part of alone and Multi.
func changing(code int32, changes ...Change) Op[Written] {
	o := Op[Written]{code: code, path: changes[0].path, write: true, changes: changes}
	for _, c := range changes {
		o.err = cmp.Or(o.err, c.valid())
	}
	o.decode = func(a *answer) Written {
		made := slices.DeleteFunc(results(a, code, changes), func(p string) bool { return p == "" })
		return Written{Paths: a.root.clients(made), Zxid: a.zxid}
	}
	o.effect = func(l *link, a *answer) {
		gone := a.code == NoNode && code == jute.OpDelete // the answer to an earlier delete was lost
		made := results(a, code, changes)
		l.mu.Lock()
		defer l.mu.Unlock()
		if a.code == codeOK && a.err == nil && a.Err() == nil || gone {
			for i, c := range changes {
				c.done(l, a.root, made[i])
			}
		}
	}
	return o
}

// results reads the result of each change: the server's path of the znode that it created, or
// "". If a multi was rolled back, it finds the change that failed: the changes before that one
// carry OK, the later ones RuntimeInconsistency.
func results(a *answer, code int32, changes []Change) []string {
	made := make([]string, len(changes))
	for i, c := range changes {
		if code != jute.OpMulti {
			made[i] = c.made(a)
			continue
		}
		var err error
		switch made[i], err = c.result(a, a.part()); {
		case errors.Is(err, runtimeInconsistency):
			a.err = cmp.Or(a.err, error(&Error{Code: runtimeInconsistency, Path: changes[0].path}))
		case err != nil:
			a.err = err
			return made
		}
	}
	return made
}

// result reads the result of a change in a multi whose header names the opcode op: the path of
// the znode that it created, or its refusal. The refusal is RuntimeInconsistency if another
// change failed.
func (c Change) result(a *answer, op int32) (made string, err error) {
	switch op {
	case opError:
		code := Code(a.Int())
		if code == codeOK {
			code = runtimeInconsistency
		}
		return "", a.root.refusal(code, c.code, c.path)
	case jute.OpCreate2: // of containers and znodes with a TTL
		defer a.Stat()
	}
	return c.made(a), nil
}

// opError takes the place of the opcode in the answer to a rejected part.
const opError = -1

// part reads the header of a multi's next part, and returns its opcode.
func (a *answer) part() (op int32) {
	op, _ = a.MultiHeader()
	return op
}

// Create makes a znode. Nil data is null.
func Create(path string, data []byte, acl []zk.ACL, mode CreateMode) Op[Written] {
	return alone(Creation(path, data, acl, mode))
}

// Delete deletes a znode if it has the version; -1 is any.
func Delete(path string, version int32) Op[Written] { return alone(Removal(path, version)) }

// Check fails unless the znode has the version; -1 is any.
func Check(path string, version int32) Op[Written] { return Multi([]Change{check(path, version)}) }

// SetData writes a znode's data if it has the version; -1 is any. Its result is the new Stat.
func SetData(path string, data []byte, version int32) Op[*zk.Stat] {
	c := NewData(path, data, version)
	o := request(c.code, path, (*answer).Stat, c.rest)
	o.write, o.changes = true, []Change{c}
	return o
}

// SetACL writes a znode's access control list if its ACL has the version; -1 is any.
func SetACL(path string, acl []zk.ACL, version int32) Op[*zk.Stat] {
	o := request(jute.OpSetACL, path, (*answer).Stat, func(e *jute.Encoder) { writeACL(e, acl); e.Int(version) })
	o.write = true
	return o
}

// A Reconfiguration changes the ensemble: Joining and Leaving change the present
// configuration, Members replaces it. Empty strings are sent as null.
type Reconfiguration struct {
	Joining, Leaving, Members string
	Version                   int64 // of the present configuration; -1 is any
}

// Reconfig changes the ensemble and returns the resulting configuration.
func Reconfig(r Reconfiguration) Op[Node] {
	return Op[Node]{
		code: jute.OpReconfig, write: true, decode: (*answer).node,
		encode: func(e *jute.Encoder, _ chroot) {
			for _, s := range []string{r.Joining, r.Leaving, r.Members} {
				if s == "" {
					e.Buffer(nil)
				} else {
					e.String(s)
				}
			}
			e.Long(r.Version)
		},
	}
}

func writeACL(e *jute.Encoder, acl []zk.ACL) {
	e.Int(int32(len(acl)))
	for _, a := range acl {
		e.Int(a.Perms)
		e.String(a.Scheme)
		e.String(a.ID)
	}
}
