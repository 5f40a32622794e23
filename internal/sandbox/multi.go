package sandbox

import "github.com/zksh/zksh/internal/jute"

// multi carries out opcode 14: every operation is checked, then all are applied
// under one zxid, or none is.
func (s *Server) multi(c *conn, d *jute.Decoder, zxid, now int64, e *jute.Encoder) code {
	requests, ok := readMulti(d, s.opt.As)
	if !ok {
		return codeMarshalling
	}
	if s.opt.MovedParts {
		moved(e, len(requests))
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
		// The real one has errors that end the whole request, not one operation.
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

// readMulti takes the operations off a multi. Opcodes in a multi only say the
// record's layout: what is created depends on the mode.
func readMulti(d *jute.Decoder, as Version) ([]request, bool) {
	var list []request
	for {
		typ, done := d.MultiHeader()
		if d.Err() != nil || done {
			return list, d.Err() == nil
		}
		if !multiWrite(typ) || !as.knows(typ) {
			return nil, false
		}
		r := readWrite(d, typ)
		if d.Err() != nil {
			return nil, false
		}
		switch {
		case typ != jute.OpCreate && typ != jute.OpCreate2 && typ != jute.OpCreateContainer:
		case r.flags == modeTTL || r.flags == modeTTLSequential:
			r.op = opError // takes the request down, but only once it is reached
		case r.flags == modeContainer:
			r.op = jute.OpCreateContainer
		default:
			r.op = jute.OpCreate
		}
		list = append(list, r)
	}
}

// multiWrite tells what may be in a multi.
func multiWrite(op int32) bool {
	return jute.Creates(op) || op == jute.OpDelete || op == jute.OpSetData || op == jute.OpCheck
}

func writeError(e *jute.Encoder, err code) {
	e.MultiHeader(opError, false, int32(err))
	e.Int(int32(err))
}

// read is one operation of a multiRead, or of a request of its own.
type read struct {
	op    int32
	path  []byte // part of the request; nil if that has a null
	watch bool
}

// multiRead carries out opcode 22: getData and getChildren, each with its own
// error. Where the real one stumbles half way, it sends what it has so far
// along with the error, and so does this.
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
		case mark > maxReply, r.op == opError: // one small request must not ask for gigabytes
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

// validMultiRead looks at all operations of a multiRead. Writes can be read too, as long
// as all are, though none will be carried out.
func validMultiRead(d *jute.Decoder) bool {
	first, more, ok := nextRead(d)
	for r := first; more; r, more, ok = nextRead(d) {
		if (r.op == opError) != (first.op == opError) {
			return false
		}
	}
	return ok
}

// nextRead takes the next operation off a multiRead. There is no more behind one that
// is not ok.
func nextRead(d *jute.Decoder) (r read, more, ok bool) {
	typ, done := d.MultiHeader()
	if d.Err() != nil || done {
		return r, false, d.Err() == nil
	}
	r.op = typ
	switch {
	case typ == jute.OpGetData || typ == jute.OpGetChildren:
		r.path = d.Buffer()
		d.Bool() // the watch flag, which the real one passes over
	case multiWrite(typ):
		readWrite(d, typ)
		r.op = opError
	default:
		return r, false, false
	}
	ok = d.Err() == nil
	return r, ok, ok
}
