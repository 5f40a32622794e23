package sandbox

import "github.com/zksh/zksh/internal/jute"

// multi carries out opcode 14: every operation is checked, then all are applied
// under one zxid, or none is.
func (s *Server) multi(c *conn, d *jute.Decoder, zxid, now int64, e *jute.Encoder) code {
	requests, ok := readMulti(d, s.opt.As)
	if !ok {
		return codeMarshalling
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
	path  string
	null  bool
	watch bool
}

// multiRead carries out opcode 22: getData and getChildren, each with its own
// error. Where the real one stumbles half way, it sends what it has so far
// along with the error, and so does this.
func (s *Server) multiRead(c *conn, d *jute.Decoder, e *jute.Encoder) code {
	reads, ok := readMultiRead(d)
	if !ok {
		return codeMarshalling
	}
	err := codeOK
	for _, r := range reads {
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
			writeError(e, err)
			err = codeOK
		}
	}
	e.MultiHeader(-1, true, -1)
	return err
}

// readMultiRead takes the operations off a multiRead. Writes can be read too,
// as long as all are, though none will be carried out.
func readMultiRead(d *jute.Decoder) ([]read, bool) {
	var list []read
	for {
		typ, done := d.MultiHeader()
		if d.Err() != nil || done {
			return list, d.Err() == nil
		}
		r := read{op: typ}
		switch {
		case typ == jute.OpGetData || typ == jute.OpGetChildren:
			r.path, r.null = nullString(d)
			d.Bool() // the watch flag, which the real one passes over
		case multiWrite(typ):
			readWrite(d, typ)
			r.op = opError
		default:
			return nil, false
		}
		if d.Err() != nil || len(list) > 0 && (r.op == opError) != (list[0].op == opError) {
			return nil, false
		}
		list = append(list, r)
	}
}
