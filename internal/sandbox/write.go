package sandbox

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"

	"github.com/zksh/zksh/internal/jute"
)

// A request is a decoded write request, or one operation in a multi.
type request struct {
	op      int32
	path    string
	null    bool // whether the request contained a null string as the path
	data    []byte
	acl     []acl
	flags   int32
	ttl     int64
	version int32
}

// readWrite decodes the body of a write request, or of one operation in a multi.
func readWrite(d *jute.Decoder, op int32) request {
	r := request{op: op, ttl: -1}
	r.path, r.null = nullString(d)
	if jute.Creates(op) || op == jute.OpSetData {
		r.data = d.Buffer()
	}
	if jute.Creates(op) || op == jute.OpSetACL {
		r.acl = readACL(d)
	}
	if !jute.Creates(op) {
		r.version = d.Int()
		return r
	}
	r.flags = d.Int()
	if op == jute.OpCreateTTL {
		r.ttl = d.Long()
	}
	return r
}

// checkVersion returns codeBadVersion if the request expects a version other than current, the
// node's actual version. A request with version -1 accepts any version.
func (r *request) checkVersion(current int32) code {
	if r.version != -1 && r.version != current {
		return codeBadVersion
	}
	return codeOK
}

// A txn is a write operation that has passed all checks and therefore cannot fail any more.
type txn struct {
	op      int32
	path    string
	data    []byte
	acl     []acl
	owner   int64
	version int32
	creates int32 // number of children that the parent has ever had, including this node
}

// A record is the state of a node as it is after the preceding operations of the same multi.
type record struct {
	gone          bool // whether a preceding operation deletes the node
	version, aver int32
	creates       int32
	children      int32
	owner         int64
	acl           []acl
	data          []byte
}

// A batch checks the operations of one request. Each must be possible after the preceding ones.
// The batch does not change the tree, so that a multi is applied either completely or not at all.
type batch struct {
	s       *Server
	caller  []id
	session int64
	// records contains the nodes that the checked operations change, by path. It is nil if the
	// request has only one operation.
	records map[string]record
	grown   int64 // upper limit on the memory that the checked operations add, in bytes
}

func (b *batch) record(path string) (record, bool) {
	if r, ok := b.records[path]; ok {
		return r, !r.gone
	}
	n := b.s.tree.nodes[path]
	if n == nil {
		return record{}, false
	}
	return record{
		version: n.version, aver: n.aver, creates: n.creates, children: int32(len(n.children)),
		owner: n.owner, acl: n.acl.entries, data: n.data,
	}, true
}

func (b *batch) put(path string, r record) {
	if b.records != nil {
		b.records[path] = r
	}
}

// permitted returns the record of the node at path. It returns an error if the node does not
// exist, or if the client does not have the permission perm.
func (b *batch) permitted(path string, perm int32) (record, code) {
	n, ok := b.record(path)
	switch {
	case !ok:
		return n, codeNoNode
	case !allowed(n.acl, perm, b.caller):
		return n, codeNoAuth
	}
	return n, codeOK
}

// prepare checks one operation. The checks are in the same order as ZooKeeper's, and prepare
// returns the first error.
func (b *batch) prepare(r *request) (txn, code) {
	switch {
	case jute.Creates(r.op):
		return b.create(r)
	case r.op == jute.OpDelete:
		return b.delete(r)
	case r.op == opError:
		return txn{}, codeMarshalling
	case r.null || !validPath(r.path):
		return txn{}, codeBadArguments
	case r.op == jute.OpSetData:
		return b.setData(r)
	case r.op == jute.OpSetACL:
		return b.setACL(r)
	}
	// The operation must be a check, because all others were handled above.
	n, err := b.permitted(r.path, permRead)
	return txn{op: jute.OpCheck, path: r.path}, cmp.Or(err, r.checkVersion(n.version))
}

// checkPath checks the path of a create or delete request. The path must not be null or contain a
// NUL character, and it must contain a slash, because every node except the root has a parent.
func (r *request) checkPath() code {
	switch {
	case r.null:
		return codeMarshalling
	case !strings.Contains(r.path, "/") || strings.Contains(r.path, "\x00"):
		return codeBadArguments
	}
	return codeOK
}

func (b *batch) create(r *request) (txn, code) {
	if err := cmp.Or(b.checkMode(r), r.checkPath()); err != codeOK {
		return txn{}, err
	}
	list, err := fixACL(r.acl, b.caller)
	parentPath := parentOf(r.path)
	parent, denied := b.permitted(parentPath, permCreate)
	if err := cmp.Or(err, denied); err != codeOK {
		return txn{}, err
	}
	if b.s.opt.reserved(r.path) {
		return txn{}, codeBadArguments
	}
	path := r.path
	if r.flags == modeSequential || r.flags == modeEphemeralSeq || r.flags == modeTTLSequential {
		path += fmt.Sprintf("%010d", parent.creates)
	}
	if !validPath(path) {
		return txn{}, codeBadArguments
	}
	if _, exists := b.record(path); exists {
		return txn{}, codeNodeExists
	}
	if isSession(parent.owner) {
		return txn{}, codeNoChildrenForEphs
	}
	err = cmp.Or(b.checkQuota(path, 1, int64(len(r.data))), b.checkSize(int64(len(path)+len(r.data)+nodeCost), list))
	if err != codeOK {
		return txn{}, err
	}
	x := txn{op: jute.OpCreate, path: path, data: bytes.Clone(r.data), acl: list, creates: parent.creates + 1}
	// The requests createContainer and createTTL determine the type of the node, whatever their
	// mode. In the other create requests, the mode determines the type, except that the mode for a
	// container creates a plain node.
	switch {
	case r.op == jute.OpCreateContainer:
		x.owner = ownerContainer
	case r.op == jute.OpCreateTTL:
		x.owner = ttlMask | r.ttl
	case r.flags == modeEphemeral || r.flags == modeEphemeralSeq:
		x.owner = b.session
	}
	parent.children++
	parent.creates++
	b.put(parentPath, parent)
	b.put(path, record{owner: x.owner, acl: list, data: x.data})
	return x, codeOK
}

// checkMode checks the mode and the time to live in a create request. It rejects a createTTL
// request whose mode has no time to live, because ZooKeeper crashes on some of these requests.
func (b *batch) checkMode(r *request) code {
	switch {
	case r.flags < modePersistent || r.flags > modeTTLSequential, r.flags < modeTTL && r.op == jute.OpCreateTTL:
		return codeBadArguments
	case r.flags >= modeContainer && !b.s.opt.As.has(newModes):
		return codeBadArguments
	case r.flags >= modeTTL && b.s.opt.NoExtendedTypes:
		return codeUnimplemented
	case r.flags >= modeTTL && (r.ttl <= 0 || r.ttl > maxTTL):
		return codeBadArguments
	}
	return codeOK
}

// checkQuota returns an error if the write would exceed a hard quota and quotas are enforced. The
// write adds the given number of nodes and bytes of data.
func (b *batch) checkQuota(path string, nodes, data int64) code {
	if !b.s.opt.EnforceQuota {
		return codeOK
	}
	return b.s.tree.checkQuota(path, nodes, data)
}

// checkSize returns an error if the write would make the tree exceed MaxTreeBytes. The write adds
// at most grow bytes, and the given ACL.
func (b *batch) checkSize(grow int64, list []acl) code {
	t := b.s.tree
	b.grown += max(grow, 0) + aclCost(list)
	if (grow > 0 || list != nil) && t.bytes+t.acls.bytes+b.grown > b.s.opt.MaxTreeBytes {
		return codeSystemError
	}
	return codeOK
}

func (b *batch) delete(r *request) (txn, code) {
	if err := r.checkPath(); err != codeOK {
		return txn{}, err
	}
	switch r.path {
	case "/", zkPath, quotaPath, configPath:
		return txn{}, codeBadArguments
	}
	if b.s.opt.reserved(r.path) {
		return txn{}, codeBadArguments
	}
	parentPath := parentOf(r.path)
	parent, err := b.permitted(parentPath, permDelete)
	n, ok := b.record(r.path)
	if err == codeOK && !ok {
		err = codeNoNode
	}
	if err = cmp.Or(err, r.checkVersion(n.version)); err == codeOK && n.children > 0 {
		err = codeNotEmpty
	}
	if err != codeOK {
		return txn{}, err
	}
	parent.children--
	b.put(parentPath, parent)
	b.put(r.path, record{gone: true})
	return txn{op: jute.OpDelete, path: r.path}, codeOK
}

func (b *batch) setData(r *request) (txn, code) {
	n, err := b.permitted(r.path, permWrite)
	diff := int64(len(r.data) - len(n.data))
	err = cmp.Or(err, b.checkQuota(r.path, 0, diff), r.checkVersion(n.version), b.checkSize(diff, nil))
	if err != codeOK {
		return txn{}, err
	}
	n.version++
	n.data = bytes.Clone(r.data)
	b.put(r.path, n)
	return txn{op: jute.OpSetData, path: r.path, data: n.data, version: n.version}, codeOK
}

func (b *batch) setACL(r *request) (txn, code) {
	list, err := fixACL(r.acl, b.caller)
	n, denied := b.permitted(r.path, permAdmin)
	err = cmp.Or(err, denied, r.checkVersion(n.aver), b.checkSize(0, list))
	return txn{op: jute.OpSetACL, path: r.path, acl: list, version: n.aver + 1}, err
}

// apply executes an operation that has passed its checks, and encodes the reply to a request with
// opcode op. It encodes the Stat of a new node before it updates the quota counters, because the
// new node itself may contain these counters.
func (t *tree) apply(e *jute.Encoder, op int32, x *txn, zxid, now int64) {
	n := t.nodes[x.path]
	switch x.op {
	case jute.OpCreate:
		n = t.create(x, zxid, now)
		e.String(x.path)
		if op != jute.OpCreate {
			n.encodeStat(e)
		}
		t.afterCreate(x.path, n)
	case jute.OpDelete:
		t.delete(x.path, zxid)
	case jute.OpSetData:
		t.setData(x.path, n, x.data, x.version, zxid, now)
		n.encodeStat(e)
	case jute.OpSetACL:
		t.setACL(n, x.acl, x.version)
		n.encodeStat(e)
	}
}

// validPath reports whether path is absolute and follows ZooKeeper's other rules for paths.
func validPath(path string) bool {
	if path == "" || path[0] != '/' {
		return false
	}
	_, why := jute.PathFault(path)
	return why == "" || path == "/"
}
