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

// visible looks a node up and checks that the connection may read it. It leaves
// the watch that was asked for.
func (s *Server) visible(c *conn, r read, perm int32) (*node, code) {
	n := s.tree.nodes[r.path]
	switch {
	case r.null:
		return nil, codeMarshalling
	case n == nil:
		return nil, codeNoNode
	case !allowed(n.acl.entries, perm, c.ids):
		return nil, codeNoAuth
	}
	s.watch(c, r)
	return n, codeOK
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

func (s *Server) getData(c *conn, r read, e *jute.Encoder) code {
	n, err := s.visible(c, r, permRead)
	if err != codeOK {
		return err
	}
	e.Buffer(n.data)
	n.encodeStat(e)
	return codeOK
}

// getChildren serves opcodes 8 and 12, which differ in the Stat at the end.
func (s *Server) getChildren(c *conn, r read, e *jute.Encoder) code {
	n, err := s.visible(c, r, permRead)
	if err != codeOK {
		return err
	}
	e.Strings(sortedKeys(n.children)) // the real one's order is arbitrary, ours at least repeats
	if r.op == jute.OpGetChildren2 {
		n.encodeStat(e)
	}
	return codeOK
}

func (s *Server) getACL(c *conn, r read, e *jute.Encoder) code {
	n, err := s.visible(c, r, permRead|permAdmin)
	if err != codeOK {
		return err
	}
	list := n.acl.entries
	if !allowed(list, permAdmin, c.ids) {
		list = masked(list)
	}
	writeACL(e, list)
	n.encodeStat(e)
	return codeOK
}

func (s *Server) getAllChildrenNumber(c *conn, r read, e *jute.Encoder) code {
	if _, err := s.visible(c, r, permRead); err != codeOK {
		return err
	}
	e.Int(s.tree.descendants(r.path))
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
