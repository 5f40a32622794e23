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

// CreateMode says which kind of znode to create. A TTL of 0 means that the znode has no TTL.
type CreateMode struct {
	Ephemeral  bool
	Sequential bool
	Container  bool
	TTL        time.Duration // rounded down to milliseconds
}

// flags returns the opcode and the flags of the create request for the mode. The flags are the
// same as those of CreateMode.toFlag of the Java client.
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

// Flags of create requests that are plain numbers, not combinations of bits.
const (
	flagContainer     = 4
	flagTTL           = 5
	flagSequentialTTL = 6
)

// OpenACL returns the ACL that grants all permissions to everyone. It is zkCli's default.
func OpenACL() []zk.ACL { return zk.WorldACL(zk.PermAll) }

// Written is the result of a write.
type Written struct {
	Paths []string // paths of the created znodes, in the order of the requests
	Zxid  int64    // zxid of the transaction
}

// Path returns the path of the created znode, or an empty string if none was created.
func (w Written) Path() string { return strings.Join(w.Paths, "") }

// A Change is a create, delete, check or setData. It is sent as a single request, or as a part of
// a multi.
type Change struct {
	code    int32
	path    string
	version int64               // see Op.version
	flags   int32               // flags of a create
	data    int                 // size of the data that a create or setData writes, in bytes
	rest    func(*jute.Encoder) // writes the fields after the path
	err     error               // reason why the change cannot be sent; nil if it can

	absolute bool // whether the path includes the chroot
}

func creation(code int32, r *zk.CreateRequest, ttl time.Duration) Change {
	return Change{code: code, path: r.Path, flags: r.Flags, data: len(r.Data), rest: func(e *jute.Encoder) {
		e.Buffer(r.Data)
		writeACL(e, r.Acl)
		e.Int(r.Flags)
		if code == jute.OpCreateTTL {
			e.Long(ttl.Milliseconds())
		}
	}}
}

// Creation returns the change that creates a znode. Nil data is sent as a null value.
func Creation(path string, data []byte, acl []zk.ACL, mode CreateMode) Change {
	code, flags, err := mode.flags()
	c := creation(code, &zk.CreateRequest{Path: path, Data: data, Acl: acl, Flags: flags}, mode.TTL)
	c.err = err
	return c
}

// Removal returns the change that deletes a znode if the znode has the given version. Version -1
// matches any version.
func Removal(path string, version int32) Change {
	return Change{code: jute.OpDelete, path: path, version: int64(version), rest: func(e *jute.Encoder) { e.Int(version) }}
}

// NewData returns the change that writes a znode's data if the znode has the given version.
// Version -1 matches any version.
func NewData(path string, data []byte, version int32) Change {
	rest := func(e *jute.Encoder) { e.Buffer(data); e.Int(version) }
	return Change{code: jute.OpSetData, path: path, version: int64(version), data: len(data), rest: rest}
}

// check returns the Change that modifies nothing, but fails unless the znode has the given
// version. Version -1 matches any version.
func check(path string, version int32) Change {
	return Change{code: jute.OpCheck, path: path, version: int64(version), rest: func(e *jute.Encoder) { e.Int(version) }}
}

// changeOf converts a request of the library go-zookeeper to a Change.
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

// Path returns the path of the znode. For a sequential create, it lacks the number.
func (c Change) Path() string { return c.path }

// Creates reports whether the change creates a znode.
func (c Change) Creates() bool { return jute.Creates(c.code) }

// Deletes reports whether the change deletes a znode.
func (c Change) Deletes() bool { return c.code == jute.OpDelete }

// Writes reports whether the change writes data, and returns the size of the data in bytes.
func (c Change) Writes() (size int, writes bool) {
	return c.data, c.Creates() || c.code == jute.OpSetData
}

func (c Change) kind() kind { return kind{c.code, c.path, c.version} }

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

// readAnswer reads the server's answer to the change. For a create, it returns the path of the new
// znode on the server, not relative to the chroot. For any other change, it returns an empty
// string.
func (c Change) readAnswer(a *answer) string {
	switch {
	case jute.Creates(c.code):
		return a.String()
	case c.code == jute.OpSetData:
		a.Stat()
	}
	return ""
}

// recordEphemerals updates the link's record of the session's ephemeral znodes after a successful
// change. made is the path of the created znode on the server, not relative to the chroot. It is
// empty if the change created none. The caller must hold mu.
func (c Change) recordEphemerals(l *link, root chroot, made string) {
	switch {
	case c.code == jute.OpDelete:
		delete(l.ephemerals, root.server(c.path))
	case made != "" && c.flags < flagContainer && c.flags&zk.FlagEphemeral != 0:
		l.ephemerals[made] = struct{}{}
	}
}

// alone returns the operation that sends the change c as a single request.
func alone(c Change) Op[Written] {
	o := changing(c.code, c)
	o.encode, o.version = c.encode, c.version
	return o
}

// Multi carries out all changes or none. If the server rejects them, the error is about the first
// change that failed. The caller must not modify the slice after the call.
func Multi(changes []Change) Op[Written] {
	o := changing(jute.OpMulti, changes...)
	o.encode = func(e *jute.Encoder, root chroot) {
		for _, c := range changes {
			c.encodePart(e, root)
		}
		e.MultiHeader(-1, true, -1)
	}
	return o
}

// encodePart encodes the change as part of a multi.
func (c Change) encodePart(e *jute.Encoder, root chroot) {
	e.MultiHeader(c.code, false, -1)
	c.encode(e, root)
}

// changing returns the operation that carries out the changes. The caller must set the function
// encode of the operation.
func changing(code int32, changes ...Change) Op[Written] {
	o := Op[Written]{operation: operation{code: code, path: changes[0].path, write: jute.Writes(code), changes: changes}}
	for _, c := range changes {
		o.err = cmp.Or(o.err, c.valid())
	}
	o.decode = func(a *answer) Written {
		made := slices.DeleteFunc(results(a, code, changes), func(p string) bool { return p == "" })
		return Written{Paths: a.root.clients(made), Zxid: a.zxid}
	}
	o.effect = func(l *link, a *answer) {
		gone := a.code == NoNode && code == jute.OpDelete // an earlier delete probably succeeded, but its answer was lost
		made := results(a, code, changes)
		l.mu.Lock()
		defer l.mu.Unlock()
		if a.code == codeOK && a.err == nil && a.Err() == nil || gone {
			for i, c := range changes {
				c.recordEphemerals(l, a.root, made[i])
			}
		}
	}
	return o
}

// results reads the results of the changes from the answer a. For a create, the result is the path
// of the new znode on the server, not relative to the chroot. For any other change, it is "". If a
// multi was rolled back, results sets a.err to the error of the change that failed. In such an
// answer, the changes before the failed one have the code OK, and those after it have
// RuntimeInconsistency.
func results(a *answer, code int32, changes []Change) []string {
	made := make([]string, len(changes))
	for i, c := range changes {
		if code != jute.OpMulti {
			made[i] = c.readAnswer(a)
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

// result reads the result of one change of a multi. The caller has already read the header of the
// result. op is the opcode in the header, or opError. For a create, made is the path of the new
// znode on the server. If the server rejected the change, err is the reason. It has the code
// RuntimeInconsistency if another change of the multi failed.
func (c Change) result(a *answer, op int32) (made string, err error) {
	switch op {
	case opError:
		code := Code(a.Int())
		if code == codeOK {
			code = runtimeInconsistency
		}
		return "", a.root.refusal(code, c.kind())
	case jute.OpCreate2: // the result for a container or a znode with a TTL
		defer a.Stat()
	}
	return c.readAnswer(a), nil
}

// opError takes the place of the opcode in the answer to a rejected operation of a multi.
const opError = -1

// part reads the header of the next result in the answer to a multi, and returns the opcode in it.
func (a *answer) part() (op int32) {
	op, _ = a.MultiHeader()
	return op
}

// Create creates a znode. Nil data is sent as a null value.
func Create(path string, data []byte, acl []zk.ACL, mode CreateMode) Op[Written] {
	return alone(Creation(path, data, acl, mode))
}

// Delete deletes a znode if the znode has the given version. Version -1 matches any version.
func Delete(path string, version int32) Op[Written] { return alone(Removal(path, version)) }

// Check modifies nothing, but fails unless the znode has the given version. Version -1 matches
// any version.
func Check(path string, version int32) Op[Written] { return Multi([]Change{check(path, version)}) }

// SetData writes a znode's data if the znode has the given version. Version -1 matches any
// version. The result is the new Stat.
func SetData(path string, data []byte, version int32) Op[*zk.Stat] {
	c := NewData(path, data, version)
	o := request(c.code, path, (*answer).Stat, c.rest)
	o.changes, o.version = []Change{c}, c.version
	return o
}

// SetACL writes a znode's access control list if the ACL has the given version. Version -1
// matches any version. The result is the new Stat.
func SetACL(path string, acl []zk.ACL, version int32) Op[*zk.Stat] {
	o := request(jute.OpSetACL, path, (*answer).Stat, func(e *jute.Encoder) { writeACL(e, acl); e.Int(version) })
	o.version = int64(version)
	return o
}

// A Reconfiguration describes a change of the ensemble's members. Joining and Leaving modify the
// current configuration, and Members replaces it. Empty strings are sent as null values.
type Reconfiguration struct {
	Joining, Leaving, Members string
	Version                   int64 // version of the current configuration; -1 matches any version
}

// Reconfig changes the members of the ensemble. The result is the new configuration.
func Reconfig(r Reconfiguration) Op[Node] {
	return Op[Node]{decode: (*answer).node, operation: operation{
		code: jute.OpReconfig, write: jute.Writes(jute.OpReconfig), version: r.Version,
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
	}}
}

func writeACL(e *jute.Encoder, acl []zk.ACL) {
	e.Int(int32(len(acl)))
	for _, a := range acl {
		e.Int(a.Perms)
		e.String(a.Scheme)
		e.String(a.ID)
	}
}
