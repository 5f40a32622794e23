package sandbox

import (
	"strings"

	"github.com/zksh/zksh/internal/jute"
)

// readPath takes the path and the watch flag that most reads consist of.
func readPath(d *jute.Decoder, op int32) read {
	r := read{op: op}
	r.path, r.null = nullString(d)
	if op != jute.OpGetACL && op != jute.OpGetAllChildrenNumber {
		r.watch = d.Bool()
	}
	return r
}

// answer carries out a read of one path, if the connection may read it. It leaves
// the watch that was asked for.
func (s *Server) answer(c *conn, r read, e *jute.Encoder) code {
	if r.op == jute.OpExists {
		return s.exists(c, r, e)
	}
	perm := int32(permRead)
	if r.op == jute.OpGetACL {
		perm |= permAdmin
	}
	n := s.tree.nodes[r.path]
	switch {
	case r.null:
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
		e.Strings(sortedKeys(n.children)) // the real one's order is arbitrary, ours at least repeats
	case jute.OpGetACL:
		writeACL(e, n.acl.shown(c.ids))
	case jute.OpGetAllChildrenNumber:
		e.Int(s.tree.descendants(r.path))
	}
	if r.op != jute.OpGetChildren && r.op != jute.OpGetAllChildrenNumber {
		n.encodeStat(e)
	}
	return codeOK
}

// watch leaves the watch that a read asks for, if it does.
func (s *Server) watch(c *conn, r read) {
	table := dataWatches
	if r.op == jute.OpGetChildren || r.op == jute.OpGetChildren2 {
		table = childWatches
	}
	if r.watch {
		s.tree.watches[table].add(r.path, c, watchOnce)
	}
}

// exists is the one read that may watch a node that is not there.
func (s *Server) exists(c *conn, r read, e *jute.Encoder) code {
	switch {
	case r.null:
		return codeMarshalling
	case strings.Contains(r.path, "\x00"):
		return codeBadArguments
	}
	s.watch(c, r)
	n := s.tree.nodes[r.path]
	if n == nil {
		return codeNoNode
	}
	n.encodeStat(e)
	return codeOK
}

// getEphemerals lists the session's own ephemeral nodes below a prefix.
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

// syncRequest returns the path: with one server there is nothing to wait for.
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
		e.String(who.scheme)
		e.String(userOf(who))
	}
}

// addWatchRequest serves opcode 106, which checks neither path nor permission.
func (s *Server) addWatchRequest(c *conn, d *jute.Decoder, e *jute.Encoder) code {
	path, mode := d.String(), d.Int()
	if d.Err() != nil || mode < 0 || mode > 1 {
		return codeMarshalling
	}
	s.tree.addWatch(path, c, watchPersistent+watchMode(mode))
	e.Int(0)
	return codeOK
}

// watchRequest serves checkWatches and removeWatches.
func (s *Server) watchRequest(c *conn, d *jute.Decoder, op int32) code {
	path, null := nullString(d)
	tables := tablesOf[d.Int()]
	if d.Err() != nil || tables == nil || null && op == jute.OpCheckWatches {
		return codeMarshalling
	}
	result := codeNoWatcher
	for _, i := range tables {
		w := &s.tree.watches[i]
		if op == jute.OpCheckWatches {
			if err := w.has(path); err != codeNoWatcher {
				return err
			}
		} else if !null && w.remove(path, c) {
			result = codeOK
		}
	}
	return result
}

// setWatches serves opcodes 101 and 105, with which a client brings its watches
// along after a reconnect. Null vectors are an error.
func (s *Server) setWatches(c *conn, d *jute.Decoder, op int32) code {
	since := d.Long()
	var lists [5][]string // data, exist, child, persistent, recursive
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
