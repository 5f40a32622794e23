package sandbox

import "github.com/zksh/zksh/internal/jute"

// multi executes a multi request (opcode 14). It first checks all operations. If all of them are
// valid, it applies them with the same zxid; otherwise, it applies none.
func (s *Server) multi(c *conn, d *jute.Decoder, zxid, now int64, e *jute.Encoder) code {
	requests, ok := readMulti(d, s.opt.As)
	if !ok {
		return codeMarshalling
	}
	if s.opt.MultiSessionMoved {
		writeMovedResults(e, len(requests))
		return codeOK
	}
	b := batch{s: s, caller: c.ids, session: c.sess.id, records: make(map[string]record)}
	txns := make([]txn, len(requests))
	failed, why := -1, codeOK
	for i := range requests {
		if txns[i], why = b.prepare(&requests[i]); why != codeOK {
			failed = i
			break
		}
	}
	if why == codeMarshalling {
		// As in ZooKeeper, the error of this operation becomes the error of the whole request.
		return why
	}
	for i := range requests {
		switch op := requests[i].op; {
		case failed < 0:
			result := op
			if op == jute.OpCreateContainer || op == jute.OpCreateTTL {
				result = jute.OpCreate2
			}
			e.MultiHeader(result, false, 0)
			s.tree.apply(e, op, &txns[i], zxid, now)
		case i < failed:
			writeError(e, codeOK)
		case i == failed:
			writeError(e, why)
		default:
			writeError(e, codeRuntimeInconsistency)
		}
	}
	e.MultiHeader(-1, true, -1)
	return codeOK
}

// readMulti decodes the operations of a multi request. It returns false if it cannot decode them.
// In a multi, the opcode of a create determines only the encoding. The type of the new node depends
// on the mode.
func readMulti(d *jute.Decoder, as Version) ([]request, bool) {
	var list []request
	for {
		typ, done := d.MultiHeader()
		if d.Err() != nil || done {
			return list, d.Err() == nil
		}
		if !allowedInMulti(typ) || !as.knows(typ) {
			return nil, false
		}
		r := readWrite(d, typ)
		if d.Err() != nil {
			return nil, false
		}
		switch {
		case typ != jute.OpCreate && typ != jute.OpCreate2 && typ != jute.OpCreateContainer:
		case r.flags == modeTTL || r.flags == modeTTLSequential:
			// This opcode makes the whole multi fail, unless an earlier operation fails first.
			r.op = opError
		case r.flags == modeContainer:
			r.op = jute.OpCreateContainer
		default:
			r.op = jute.OpCreate
		}
		list = append(list, r)
	}
}

// allowedInMulti reports whether a multi request may contain operations with this opcode.
func allowedInMulti(op int32) bool {
	return jute.Creates(op) || op == jute.OpDelete || op == jute.OpSetData || op == jute.OpCheck
}

func writeError(e *jute.Encoder, err code) {
	e.MultiHeader(opError, false, int32(err))
	e.Int(int32(err))
}

// A read is a decoded read request, or one operation of a multiRead.
type read struct {
	op int32
	// path is a slice of the request's buffer, or nil if the path is a null string.
	path  []byte
	watch bool
}

// multiRead executes a multiRead request (opcode 22), which consists of getData and getChildren
// operations. Each operation has its own result or error. If one of them makes the whole request
// fail, the reply contains the error and the earlier results, as in ZooKeeper.
func (s *Server) multiRead(c *conn, d *jute.Decoder, e *jute.Encoder) code {
	whole := *d
	if !validMultiRead(&whole) {
		return codeMarshalling
	}
	err := codeOK
	for r, more, _ := nextRead(d); more; r, more, _ = nextRead(d) {
		mark := len(e.B)
		e.MultiHeader(r.op, false, 0)
		switch {
		case mark > maxReply, r.op == opError: // a small request must not cause a reply of gigabytes
			err = codeMarshalling
		default:
			err = s.answer(c, r, e)
		}
		if err != codeOK {
			e.B = e.B[:mark]
		}
		if err == codeMarshalling {
			break
		}
		if err != codeOK {
			s.writeReadError(e, r.op, err)
			err = codeOK
		}
	}
	e.MultiHeader(-1, true, -1)
	return err
}

// validMultiRead reports whether all operations of a multiRead can be decoded and are of the same
// kind, either reads or writes. If they are writes, the request fails later, before any of them
// is executed.
func validMultiRead(d *jute.Decoder) bool {
	first, more, ok := nextRead(d)
	for r := first; more; r, more, ok = nextRead(d) {
		if (r.op == opError) != (first.op == opError) {
			return false
		}
	}
	return ok
}

// nextRead decodes the next operation of a multiRead. At the end of the list, more is false and
// ok is true. If the operation cannot be decoded, both are false.
func nextRead(d *jute.Decoder) (r read, more, ok bool) {
	typ, done := d.MultiHeader()
	if d.Err() != nil || done {
		return r, false, d.Err() == nil
	}
	r.op = typ
	switch {
	case typ == jute.OpGetData || typ == jute.OpGetChildren:
		r.path = d.Buffer()
		d.Bool() // the watch flag, which ZooKeeper ignores in a multiRead
	case allowedInMulti(typ):
		readWrite(d, typ)
		r.op = opError
	default:
		return r, false, false
	}
	ok = d.Err() == nil
	return r, ok, ok
}
