package trace

import (
	"fmt"
	"strings"
	"time"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zkconn"
)

// A line is one line of a trace: a request, a reply, a watch event, or a message.
type line struct {
	sign  string   // ">" for a request, "<" for a reply, "*" for an event, "!" for a message
	name  string   // name of the operation or of the event type
	path  string   // path of the znode, including the chroot, or the operations of a multi; may be empty
	facts []string // outcome of a reply, and further facts
}

func (l *line) add(format string, args ...any) {
	l.facts = append(l.facts, fmt.Sprintf(format, args...))
}

// text returns the line as it is written. at is the time since the trace began.
func (l line) text(at time.Duration) string {
	text := fmt.Sprintf("%11.6f %s %-15s  %s  %s", at.Seconds(), l.sign, l.name, l.path, strings.Join(l.facts, " "))
	return render.Safe(strings.TrimRight(text, " "))
}

// lostLines returns the line that reports n lost lines.
func lostLines(n int) line {
	return line{sign: "!", name: "lost", facts: []string{fmt.Sprintf("lines=%d", n)}}
}

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
var createModes = []string{
	"persistent", "ephemeral", "sequential", "ephemeral,sequential", "container", "ttl", "sequential,ttl",
}

// A call is a request, or one operation of a multi.
type call struct {
	op    int32
	path  string        // path of the znode, or the operations of a multi
	sent  time.Duration // time since the trace began
	parts []call        // operations of a multi
}

// request decodes a request without its length prefix. It never decodes credentials, the session's
// password and ACLs.
func request(frame []byte) (c call, xid int32, l line) {
	d := jute.NewDecoder(frame)
	l.sign = ">"
	xid = d.Int()
	if xid == 0 { // a connect request begins with the protocol version, which is 0
		l.name = opName(opConnect)
		d.Long() // the latest zxid
		l.add("timeout=%d", d.Int())
		if session := d.Long(); session != 0 {
			l.add("session=%s", render.Hex(session))
		}
		return c, xid, l
	}
	c = operation(d, d.Int(), &l)
	l.name, l.path = opName(c.op), c.path
	if d.Err() != nil {
		l.add("malformed")
	}
	l.add("xid=0x%x", uint32(xid))
	return c, xid, l
}

// operation decodes the operation op, which may be part of a multi, and adds its facts to l.
func operation(d *jute.Decoder, op int32, l *line) call {
	c := call{op: op}
	switch op {
	case jute.OpMulti, jute.OpMultiRead:
		for d.Err() == nil {
			part, end := d.MultiHeader()
			if end || d.Err() != nil {
				break
			}
			c.parts = append(c.parts, operation(d, part, &line{}))
		}
		c.path = operations(c.parts)
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
		c.path = d.String()
		data := d.Buffer()
		d.ACL()
		if mode := int(d.Int()); mode > 0 && mode < len(createModes) {
			l.add("%s", createModes[mode])
		}
		if op == jute.OpCreateTTL {
			l.add("ttl=%d", d.Long())
		}
		l.add("bytes=%d", len(data))
	case jute.OpSetData:
		c.path = d.String()
		data := d.Buffer()
		version(d, l)
		l.add("bytes=%d", len(data))
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
			l.add("watch")
		}
	case jute.OpGetACL, jute.OpSync, jute.OpGetEphemerals, jute.OpGetAllChildrenNumber, jute.OpDeleteContainer,
		jute.OpAddWatch, jute.OpCheckWatches, jute.OpRemoveWatches:
		c.path = d.String()
	case jute.OpSetWatches, jute.OpSetWatches2:
		d.Long() // the latest zxid
		n := 0
		for d.Err() == nil && len(d.Rest()) > 0 {
			n += len(d.Strings())
		}
		l.add("watches=%d", n)
	case jute.OpAuth:
		d.Int() // the type, which is always 0
		l.add("scheme=%s", d.String())
	}
	return c
}

func version(d *jute.Decoder, l *line) {
	if v := d.Int(); v != -1 {
		l.add("version=%d", v)
	}
}

// maxParts is the maximum number of operations of a multi that a line shows.
const maxParts = 8

// operations returns the operations of a multi as text.
func operations(parts []call) string {
	var texts []string
	for _, part := range parts[:min(len(parts), maxParts)] {
		texts = append(texts, part.text())
	}
	if more := len(parts) - maxParts; more > 0 {
		texts = append(texts, fmt.Sprintf("%d more", more))
	}
	return strings.Join(texts, ", ")
}

// text returns the name and the path of c.
func (c call) text() string { return strings.TrimRight(opName(c.op)+" "+c.path, " ") }

// reply decodes the reply to c without its length prefix. took is the time since the request, or 0 if
// it is unknown.
func (c call) reply(frame []byte, took time.Duration) line {
	d := jute.NewDecoder(frame)
	if c.op == opConnect {
		return connected(d, took)
	}
	l := line{sign: "<", name: opName(c.op), path: c.path}
	xid, zxid, code := d.Int(), d.Long(), zkconn.Code(d.Int())
	if c.op == jute.OpMulti {
		if part, reason := failedPart(c.parts, d); reason != 0 {
			l.path, code = part.text(), reason
		}
	}
	outcome := okOutcome
	if code != 0 {
		outcome = code.Name()
	}
	l.answered(outcome, took)
	if code == 0 {
		c.result(d, &l)
	}
	if zxid > 0 {
		l.add("zxid=%s", render.Hex(zxid))
	}
	l.add("xid=0x%x", uint32(xid))
	return l
}

// okOutcome is the outcome of a request that succeeded.
const okOutcome = "OK"

// answered adds the outcome of a request and the time since the request, unless that is 0.
func (l *line) answered(outcome string, took time.Duration) {
	l.add("%s", outcome)
	if took > 0 {
		l.add("%.3fms", took.Seconds()*1e3)
	}
}

// notTried is the error code of an operation that failed only because another operation of its multi
// failed.
const notTried = -2

// failedPart decodes the result of a multi. If the multi failed, failedPart returns the operation
// that was the reason, and its error code.
func failedPart(parts []call, d *jute.Decoder) (failed call, code zkconn.Code) {
	for _, part := range parts {
		op, end := d.MultiHeader()
		if end || op != -1 { // the multi succeeded: after a failure, all results are errors
			break
		}
		if code := zkconn.Code(d.Int()); d.Err() == nil && code != 0 && code != notTried {
			return part, code
		}
	}
	return call{}, 0
}

// result decodes the result of a successful operation, and adds its facts to l.
func (c call) result(d *jute.Decoder, l *line) {
	switch c.op {
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
		l.path = d.String()
	case jute.OpGetData:
		if data := d.Buffer(); d.Err() == nil {
			l.add("bytes=%d", len(data))
		}
	case jute.OpGetChildren, jute.OpGetChildren2:
		if n := d.Count(4, 0); d.Err() == nil {
			l.add("children=%d", n)
		}
	}
}

// connected decodes the reply to a connect request. It skips the session's password.
func connected(d *jute.Decoder, took time.Duration) line {
	l := line{sign: "<", name: opName(opConnect)}
	d.Int() // the protocol version
	timeout, session := d.Int(), d.Long()
	switch {
	case d.Err() != nil:
		l.answered("rejected", took)
	case timeout <= 0:
		l.answered("SessionExpired", took)
	default:
		l.answered(okOutcome, took)
		l.add("session=%s", render.Hex(session))
		l.add("timeout=%d", timeout)
	}
	return l
}

// event decodes a watch event without the header of its frame.
func event(d *jute.Decoder, zxid int64) line {
	typ := d.Int()
	d.Int() // the state
	l := line{sign: "*", name: string(zkconn.EventTypeOf(typ)), path: d.String()}
	if zxid > 0 {
		l.add("zxid=%s", render.Hex(zxid))
	}
	return l
}
