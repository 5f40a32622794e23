package sandbox

import (
	"bytes"
	"strings"

	"github.com/zksh/zksh/internal/jute"
)

// A verdict says whether the server closes a connection after it has executed a frame.
type verdict int

const (
	keepOpen        verdict = iota
	closeAfterFlush         // send the queued frames, then close the connection
	closeNow                // close the connection at once
)

// handle executes a client's request, whose frame is b. The caller must hold s.mu.
func (s *Server) handle(c *conn, b []byte) verdict {
	d := jute.NewDecoder(b)
	xid, op := d.Int(), d.Int()
	if d.Err() != nil {
		return closeNow
	}
	if c.sess.conn != c {
		// The client has resumed its session on another connection, so close this one.
		return closeNow
	}
	now := s.now()
	// Like ZooKeeper, do not extend the session because of an authentication request.
	if op != jute.OpAuth && op != jute.OpSASL {
		s.touch(c.sess, now)
	}
	s.stats.request(c, op, xid)
	stranger := s.opt.EnforceAuth && !c.authed || s.opt.OnlySuperuser && !isSuperuser(c.ids)
	if stranger && op != jute.OpAuth && op != jute.OpSASL {
		c.send(finish(frame(xid, 0, codeSessionNoAuth)))
		return closeAfterFlush
	}
	if v, done := s.react(c, xid, op); done {
		return v
	}
	reply, v := s.reply(c, xid, op, d)
	if reply != nil {
		s.stats.reply(c, s.zxid, now)
		c.send(reply)
	}
	return v
}

// reply executes a request and returns the frame of the reply, or nil if there is none.
func (s *Server) reply(c *conn, xid, op int32, d *jute.Decoder) ([]byte, verdict) {
	p, isProduct := s.opt.product()
	switch {
	case isProduct && (!p.knows(op) || !knownOp(op)):
		return nil, closeAfterFlush
	case !isProduct && !s.opt.As.knows(op), op == jute.OpCheck && s.opt.As.has(checkRefused):
		return finish(frame(xid, -1, codeUnimplemented)), closeAfterFlush
	case s.opt.Throttle != nil && canThrottle(op) && s.opt.Throttle(op):
		return finish(frame(xid, s.zxid, codeThrottled)), keepOpen
	}
	switch op {
	case jute.OpPing:
		return finish(frame(jute.XidPing, s.zxid, codeOK)), keepOpen
	case jute.OpAuth:
		return s.auth(c, xid, d)
	case jute.OpSASL:
		// ZooKeeper without SASL replies with a null token and no error. If the token in the
		// request is null, it closes the connection.
		if d.Buffer() == nil {
			return nil, closeNow
		}
		e := frame(xid, 0, codeOK)
		e.Buffer(nil)
		return finish(e), keepOpen
	case jute.OpCloseSession:
		s.closeSession(c.sess)
		// ClickHouse and RaftKeeper do not reply to this request (see their function sendResponse).
		if isProduct {
			return nil, closeAfterFlush
		}
		return finish(frame(xid, s.zxid, codeOK)), closeAfterFlush
	case jute.OpDelete, jute.OpDeleteContainer, jute.OpSetData, jute.OpSetACL, jute.OpCheck, jute.OpMulti,
		jute.OpReconfig:
		return s.write(c, xid, op, d), keepOpen
	}
	if jute.Creates(op) {
		return s.write(c, xid, op, d), keepOpen
	}
	e := &s.scratch
	e.B = e.B[:0]
	begin(e, xid, s.zxid, codeOK)
	err := s.read(c, op, d, e)
	if cap(e.B) > maxKeptBuffer {
		defer func() { e.B = nil }()
	}
	if err == codeUnimplemented {
		return finish(frame(xid, -1, err)), closeAfterFlush
	}
	if s.tree.watches[0].bytes+s.tree.watches[1].bytes > s.opt.MaxWatchBytes {
		return nil, closeNow
	}
	return withError(e, err, op), keepOpen
}

// canThrottle reports whether a server that is overloaded may reject requests with this opcode.
func canThrottle(op int32) bool {
	return op != jute.OpPing && op != jute.OpAuth && op != jute.OpSASL && op != jute.OpCloseSession
}

// withError completes a reply by setting the error code in its header. After an error, it also
// removes the body, except from the reply to a multiRead.
func withError(e *jute.Encoder, err code, op int32) []byte {
	if err != codeOK {
		if op != jute.OpMultiRead {
			e.B = e.B[:headerLen]
		}
		h := jute.Encoder{B: e.B[:headerLen-4]}
		h.Int(int32(err))
	}
	return finish(e)
}

// read executes a request that does not change the tree. It encodes the reply in e.
func (s *Server) read(c *conn, op int32, d *jute.Decoder, e *jute.Encoder) code {
	switch op {
	case jute.OpExists, jute.OpGetData, jute.OpGetACL, jute.OpGetChildren, jute.OpGetChildren2,
		jute.OpGetAllChildrenNumber:
		r := readPath(d, op)
		if d.Err() != nil {
			return codeMarshalling
		}
		return s.answer(c, r, e)
	case jute.OpMultiRead:
		return s.multiRead(c, d, e)
	case jute.OpSync:
		return syncRequest(d, e)
	case jute.OpGetEphemerals:
		return s.getEphemerals(c, d, e)
	case jute.OpWhoAmI:
		whoAmI(c, e)
		return codeOK
	case jute.OpAddWatch:
		return s.addWatchRequest(c, d, e)
	case jute.OpCheckWatches, jute.OpRemoveWatches:
		return s.watchRequest(c, d, op)
	case jute.OpSetWatches, jute.OpSetWatches2:
		return s.setWatches(c, d, op)
	}
	return codeUnimplemented
}

// write executes a request that ZooKeeper writes to its transaction log, and returns the reply.
// As in ZooKeeper, even a request that fails gets a new zxid.
func (s *Server) write(c *conn, xid, op int32, d *jute.Decoder) []byte {
	if op == jute.OpReconfig {
		return s.reconfig(xid, d)
	}
	s.zxid++
	now := s.now().UnixMilli()
	e := frame(xid, s.zxid, codeOK)
	switch op {
	case jute.OpDeleteContainer: // only ZooKeeper servers themselves may send this request
		return withError(e, codeBadArguments, op)
	case jute.OpMulti:
		err := s.multi(c, d, s.zxid, now, e)
		s.scheduleReaping()
		return withError(e, err, op)
	}
	r := readWrite(d, op)
	if d.Err() != nil {
		return withError(e, codeMarshalling, op)
	}
	b := batch{s: s, caller: c.ids, session: c.sess.id}
	x, err := b.prepare(&r)
	if err != codeOK {
		return withError(e, err, op)
	}
	s.tree.apply(e, op, &x, s.zxid, now)
	s.scheduleReaping()
	// As in ZooKeeper, a check outside a multi gets no reply.
	if op == jute.OpCheck {
		return nil
	}
	return finish(e)
}

// reconfig replies to a reconfig request (opcode 16) with an error, like a ZooKeeper server whose
// setting reconfigEnabled is false.
func (s *Server) reconfig(xid int32, d *jute.Decoder) []byte {
	for range 3 {
		_ = d.String() // skip the lists of joining, leaving and new members
	}
	d.Long()
	if d.Err() != nil {
		return withError(frame(xid, s.zxid, codeOK), codeMarshalling, jute.OpReconfig)
	}
	s.zxid++
	return withError(frame(xid, s.zxid, codeOK), codeReconfigDisabled, jute.OpReconfig)
}

// auth executes an auth request (opcode 100). If the credential is invalid, the server closes the
// connection after the reply.
func (s *Server) auth(c *conn, xid int32, d *jute.Decoder) ([]byte, verdict) {
	d.Int() // skip the type, which ZooKeeper does not use
	scheme := d.String()
	cred, null := nullString(d)
	if d.Err() != nil {
		return nil, closeNow
	}
	ids, ok := s.authenticate(c, scheme, []byte(cred), null)
	if !ok || !c.addIDs(ids) {
		return finish(frame(xid, 0, codeAuthFailed)), closeAfterFlush
	}
	c.authed = true
	return finish(frame(xid, 0, codeOK)), keepOpen
}

// readPath decodes the body of a read request. It contains a path and, for most opcodes, a flag
// that asks for a watch.
func readPath(d *jute.Decoder, op int32) read {
	r := read{op: op}
	r.path = d.Buffer()
	if op != jute.OpGetACL && op != jute.OpGetAllChildrenNumber {
		r.watch = d.Bool()
	}
	return r
}

// answer executes a read of one node, if the client has permission, and encodes the result in e.
// It also sets a watch if the request asks for one.
func (s *Server) answer(c *conn, r read, e *jute.Encoder) code {
	if r.op == jute.OpExists {
		return s.exists(c, r, e)
	}
	perm := int32(permRead)
	if r.op == jute.OpGetACL {
		perm |= permAdmin
	}
	n := s.tree.find(r.path)
	switch {
	case r.path == nil:
		return codeMarshalling
	case n == nil:
		return codeNoNode
	case !allowed(n.acl.entries, perm, c.ids):
		return codeNoAuth
	}
	s.watch(c, r)
	switch r.op {
	case jute.OpGetData:
		e.Buffer(n.data)
	case jute.OpGetChildren, jute.OpGetChildren2:
		// Sort the names to make replies reproducible, although ZooKeeper returns them in any
		// order.
		e.Strings(sortedKeys(n.children))
	case jute.OpGetACL:
		writeACL(e, n.acl.visibleTo(c.ids))
	case jute.OpGetAllChildrenNumber:
		e.Int(s.tree.descendants(string(r.path)))
	}
	if r.op != jute.OpGetChildren && r.op != jute.OpGetAllChildrenNumber {
		n.encodeStat(e)
	}
	return codeOK
}

// watch sets a one-shot watch if the request r asks for one.
func (s *Server) watch(c *conn, r read) {
	table := dataWatches
	if r.op == jute.OpGetChildren || r.op == jute.OpGetChildren2 {
		table = childWatches
	}
	if r.watch {
		s.tree.watch(table, string(r.path), c, watchOnce)
	}
}

// exists executes an exists request. Unlike other reads, it can set a watch on a node that does
// not exist.
func (s *Server) exists(c *conn, r read, e *jute.Encoder) code {
	switch {
	case r.path == nil:
		return codeMarshalling
	case bytes.IndexByte(r.path, 0) >= 0:
		return codeBadArguments
	}
	n := s.tree.find(r.path)
	if n != nil && s.opt.As.has(guardedExists) && !allowed(n.acl.entries, permRead, c.ids) {
		return codeNoAuth
	}
	s.watch(c, r)
	if n == nil {
		return codeNoNode
	}
	n.encodeStat(e)
	return codeOK
}

// getEphemerals executes a getEphemerals request. The reply contains the paths of the session's
// ephemeral nodes that begin with the requested prefix.
func (s *Server) getEphemerals(c *conn, d *jute.Decoder, e *jute.Encoder) code {
	prefix := d.String()
	if d.Err() != nil {
		return codeMarshalling
	}
	all := strings.TrimSpace(prefix)
	var list []string
	for _, p := range sortedKeys(s.tree.ephemerals[c.sess.id]) {
		if all == "" || all == "/" || strings.HasPrefix(p, prefix) {
			list = append(list, p)
		}
	}
	e.Strings(list)
	return codeOK
}

// syncRequest executes a sync request. It replies at once, because a single server is always up
// to date.
func syncRequest(d *jute.Decoder, e *jute.Encoder) code {
	path := d.Buffer()
	if d.Err() != nil {
		return codeMarshalling
	}
	e.Buffer(path)
	return codeOK
}

func whoAmI(c *conn, e *jute.Encoder) {
	e.Int(int32(len(c.ids)))
	for _, who := range c.ids {
		if who.scheme == "digest" {
			who.id, _, _ = strings.Cut(who.id, ":")
		}
		e.String(who.scheme)
		e.String(who.id)
	}
}

// addWatchRequest executes an addWatch request (opcode 106). Like ZooKeeper, it does not check
// permissions, or whether the path is valid.
func (s *Server) addWatchRequest(c *conn, d *jute.Decoder, e *jute.Encoder) code {
	path, mode := d.String(), d.Int()
	if d.Err() != nil || mode < 0 || mode > 1 {
		return codeMarshalling
	}
	s.tree.addWatch(path, c, watchPersistent<<mode)
	e.Int(0)
	return codeOK
}

// watchRequest executes a checkWatches or a removeWatches request.
func (s *Server) watchRequest(c *conn, d *jute.Decoder, op int32) code {
	path, null := nullString(d)
	covered := s.opt.As.removal(d.Int())
	if d.Err() != nil || covered.tables == nil || null && op == jute.OpCheckWatches {
		return codeMarshalling
	}
	result := codeNoWatcher
	for _, i := range covered.tables {
		w := &s.tree.watches[i]
		if op == jute.OpCheckWatches {
			if err := w.check(path, covered.modes); err != codeNoWatcher {
				return err
			}
		} else if !null && w.remove(path, c, covered.modes) {
			result = codeOK
		}
	}
	return result
}

// setWatches executes a setWatches or setWatches2 request (opcode 101 or 105), by which a client
// restores its watches after a reconnect. It returns an error if a list of paths is null.
func (s *Server) setWatches(c *conn, d *jute.Decoder, op int32) code {
	since := d.Long()
	// lists contains the paths of data, exists, child, persistent and recursive watches, in this
	// order.
	var lists [5][]string
	kinds := len(lists)
	if op == jute.OpSetWatches {
		kinds = 3
	}
	for i := range kinds {
		if rest := d.Rest(); len(rest) >= 4 && rest[0]&0x80 != 0 {
			return codeMarshalling
		}
		lists[i] = d.Strings()
	}
	if d.Err() != nil {
		return codeMarshalling
	}
	s.tree.restore(c, since, lists)
	return codeOK
}
