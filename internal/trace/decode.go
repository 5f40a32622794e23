package trace

import (
	"encoding/binary"
	"time"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zkconn"
)

// opConnect stands for the connect request, which has no opcode, and opUnknown for a request that was
// sent before the trace began.
const (
	opConnect = 0
	opUnknown = -1000
)

// opName returns the name of an operation in a trace.
func opName(op int32) string {
	switch op {
	case opConnect:
		return "connect"
	case opUnknown:
		return "(earlier)"
	}
	return jute.OpName(op)
}

// createModes contains the names of the modes of create, by number.
var createModes = []string{"persistent", "ephemeral", "sequential", "ephemeral,sequential", "container", "ttl", "sequential,ttl"}

// A call is a request, or one operation of a multi.
type call struct {
	op    int32
	path  string
	sent  time.Duration
	parts []call
}

// request decodes a request without its length prefix. It never decodes credentials, the session's
// password and ACLs.
func (r *Recorder) request(frame []byte) (call, Line) {
	d := jute.NewDecoder(frame)
	l := Line{Kind: Request, Xid: d.Int()}
	var c call
	if l.Xid == 0 { // a connect request begins with the protocol version, which is 0
		l.Op = opName(opConnect)
		d.Long() // the latest zxid
		l.add("timeout", d.Int())
		if session := d.Long(); session != 0 {
			l.add("session", render.Hex(session))
		}
		return c, l
	}
	c.op = d.Int()
	c, l.Op = r.operation(d, c.op, &l), opName(c.op)
	l.Path = c.path
	if d.Err() != nil {
		l.add("malformed", true)
	}
	return c, l
}

// operation decodes the operation op, which may be part of a multi, and adds its facts to l.
func (r *Recorder) operation(d *jute.Decoder, op int32, l *Line) call {
	c := call{op: op}
	switch op {
	case jute.OpMulti, jute.OpMultiRead:
		for d.Err() == nil {
			part, end := d.MultiHeader()
			if end || d.Err() != nil {
				break
			}
			p := Line{Kind: Request, Op: opName(part)}
			c.parts = append(c.parts, r.operation(d, part, &p))
			if p.Path = c.parts[len(c.parts)-1].path; len(l.Parts) < maxParts {
				l.Parts = append(l.Parts, p)
			}
		}
		l.add("operations", len(c.parts))
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
		c.path = d.String()
		data := d.Buffer()
		d.ACL()
		if mode := int(d.Int()); mode > 0 && mode < len(createModes) {
			l.add("mode", createModes[mode])
		}
		if op == jute.OpCreateTTL {
			l.add("ttl", d.Long())
		}
		r.data(data, l)
	case jute.OpSetData:
		c.path = d.String()
		data := d.Buffer()
		version(d, l)
		r.data(data, l)
	case jute.OpDelete, jute.OpCheck:
		c.path = d.String()
		version(d, l)
	case jute.OpSetACL:
		c.path = d.String()
		d.ACL()
		version(d, l)
	case jute.OpExists, jute.OpGetData, jute.OpGetChildren, jute.OpGetChildren2:
		c.path = d.String()
		if d.Bool() {
			l.add("watch", true)
		}
	case jute.OpGetACL, jute.OpSync, jute.OpGetEphemerals, jute.OpGetAllChildrenNumber, jute.OpDeleteContainer, jute.OpAddWatch,
		jute.OpCheckWatches, jute.OpRemoveWatches:
		c.path = d.String()
	case jute.OpSetWatches, jute.OpSetWatches2:
		d.Long() // the latest zxid
		n := 0
		for d.Err() == nil && len(d.Rest()) > 0 {
			n += len(d.Strings())
		}
		l.add("watches", n)
	case jute.OpAuth:
		d.Int() // the type, which is always 0
		l.add("scheme", d.String())
	}
	return c
}

func version(d *jute.Decoder, l *Line) {
	if v := d.Int(); v != -1 {
		l.add("version", v)
	}
}

// maxParts is the maximum number of operations of a multi that a trace shows.
const maxParts = 20

// maxShown is the maximum number of bytes of a znode's data that a trace shows.
const maxShown = 60

// data adds the size of a znode's data and, if the user wants to see it, its beginning.
func (r *Recorder) data(b []byte, l *Line) {
	l.add("bytes", len(b))
	if r.opts.Data {
		text := string(b[:min(len(b), maxShown)])
		if len(b) > maxShown {
			text += "…"
		}
		l.add("data", text)
	}
}

// reply decodes the reply to c without its length prefix.
func (r *Recorder) reply(c call, frame []byte) (l Line) {
	d := jute.NewDecoder(frame)
	if c.op == opConnect {
		return connected(d)
	}
	l = Line{Kind: Reply, Xid: d.Int(), Op: opName(c.op), Path: c.path}
	zxid, code := d.Long(), zkconn.Code(d.Int())
	l.setOutcome(code)
	if code == 0 || c.op == jute.OpMulti {
		r.result(c, d, &l)
	}
	if zxid > 0 {
		l.add("zxid", render.Hex(zxid))
	}
	return l
}

// result decodes the result of a successful operation, or of any multi, and adds its facts to l.
func (r *Recorder) result(c call, d *jute.Decoder, l *Line) {
	switch c.op {
	case jute.OpMulti, jute.OpMultiRead:
		for _, part := range c.parts {
			kind, end := d.MultiHeader()
			if end || d.Err() != nil {
				return
			}
			p := Line{Kind: Reply, Op: opName(part.op), Path: part.path}
			if kind == -1 {
				if p.setOutcome(zkconn.Code(d.Int())); p.Outcome == okOutcome {
					p.Outcome = "RolledBack" // it succeeded, but a later operation failed
				}
			} else {
				p.setOutcome(0)
				r.result(part, d, &p)
			}
			if c.op == jute.OpMulti && l.Outcome == okOutcome && p.refused() {
				l.Outcome = p.Outcome
			}
			if len(l.Parts) < maxParts {
				l.Parts = append(l.Parts, p)
			}
		}
	case jute.OpCreate:
		l.Path = d.String()
	case jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
		l.Path = d.String()
		d.Stat()
	case jute.OpSetData:
		d.Stat()
	case jute.OpGetData:
		if data := d.Buffer(); d.Err() == nil {
			r.data(data, l)
		}
		d.Stat()
	case jute.OpGetChildren, jute.OpGetChildren2:
		n := d.Count(4, 0)
		if d.Err() == nil {
			l.add("children", n)
		}
		for range n { // skips the names without allocating them
			d.Buffer()
		}
	}
}

// connected decodes the reply to a connect request. It skips the session's password.
func connected(d *jute.Decoder) Line {
	l := Line{Kind: Reply, Op: opName(opConnect), Outcome: okOutcome}
	d.Int() // the protocol version
	timeout, session := d.Int(), d.Long()
	switch {
	case d.Err() != nil:
		l.Outcome = "rejected"
		return l
	case timeout <= 0:
		l.Outcome = "SessionExpired"
		return l
	}
	l.add("session", render.Hex(session))
	l.add("timeout", timeout)
	return l
}

// event decodes a watch event without its length prefix.
func event(d *jute.Decoder, zxid int64) Line {
	typ := d.Int()
	d.Int() // the state
	l := Line{Kind: Event, Op: string(zkconn.EventTypeOf(typ)), Path: d.String()}
	if zxid > 0 {
		l.add("zxid", render.Hex(zxid))
	}
	return l
}

// eachFrame calls f for each frame in b, without its length prefix.
func eachFrame(b []byte, f func(frame []byte)) {
	for len(b) >= 4 {
		n := int(binary.BigEndian.Uint32(b))
		if n > len(b)-4 {
			return
		}
		f(b[4 : 4+n])
		b = b[4+n:]
	}
}
