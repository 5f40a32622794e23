package difftest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/sandbox/rawzk"
)

// patience is how long a server may take to answer or to close.
const patience = 10 * time.Second

// side is one of the two servers.
type side struct {
	show
	name, addr string
	conns      [users + 1]*rawzk.Conn
	last       [users + 1]rawzk.Session
}

func newSide(name, addr string) *side {
	return &side{name: name, addr: addr, show: show{sessions: map[int64]int{}}}
}

// quiet are operations that tell other sessions nothing. Should one all the
// same, it shows when these are next asked.
var quiet = []int32{
	jute.OpExists, jute.OpGetData, jute.OpGetACL, jute.OpGetChildren, jute.OpGetChildren2, jute.OpSync, jute.OpPing, jute.OpCheckWatches, jute.OpRemoveWatches,
	jute.OpMultiRead, jute.OpGetEphemerals, jute.OpGetAllChildrenNumber, jute.OpAddWatch, jute.OpWhoAmI,
}

// do takes one step and returns what all sessions see of it.
func (v *side) do(s step) []string {
	var seen []string
	if s.come != 0 {
		seen = v.connect(s)
	} else {
		seen = v.request(s)
	}
	if slices.Contains(quiet, s.op) && !s.kills {
		return seen
	}
	var pings [users + 1]error // all are sent before any answer is awaited: that is quicker
	for i, c := range v.conns {
		if c != nil && i != s.session {
			_ = c.SetDeadline(time.Now().Add(patience))
			pings[i] = c.Ping()
		}
	}
	for i, c := range v.conns {
		if c == nil || i == s.session {
			continue
		}
		frames, err := []rawzk.Frame(nil), pings[i]
		if err == nil {
			frames, err = c.Pong()
		}
		lines := v.lines(i, 0, frames, err)
		if s.op == jute.OpCloseSession || s.come == fresh {
			slices.Sort(lines) // its ephemeral nodes go in any order
		}
		seen = append(seen, lines...)
		v.mind(i, err)
	}
	return seen
}

func (v *side) lines(session int, op int32, frames []rawzk.Frame, err error, burst ...rawzk.Op) []string {
	var lines []string
	for _, f := range frames {
		if n := int(f.Xid); n > 0 && n <= len(burst) {
			op = burst[n-1].Op
		}
		lines = append(lines, fmt.Sprintf("%d: %s", session, v.frame(op, f)))
	}
	if err != nil {
		lines = append(lines, fmt.Sprintf("%d: %s", session, ending(err)))
	}
	return lines
}

// ending names an error: how exactly a connection ends depends on timing.
func ending(err error) string {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		return "closed"
	}
	return err.Error()
}

// mind forgets a connection that has failed.
func (v *side) mind(session int, err error) {
	if err != nil {
		_ = v.conns[session].Close()
		v.conns[session] = nil
	}
}

// connect brings a session to a new connection.
func (v *side) connect(s step) []string {
	want, last := v.last[s.session], int64(0)
	var seen []string
	switch s.come {
	case resumeWrong:
		want.Passwd = make([]byte, 16)
	case resumeAhead:
		last = v.base + 1<<40
	case resumeNone:
		want.ID = 12345
	case fresh:
		// The old session must not expire in the midst of it, on each server in
		// its own time.
		seen = v.bury(s.session)
		want = rawzk.Session{}
	}
	want.Timeout = s.timeout
	if want.Timeout == 0 {
		want.Timeout = 60000
	}
	nc, err := net.Dial("tcp", v.addr)
	if err != nil {
		return []string{err.Error()}
	}
	_ = nc.SetDeadline(time.Now().Add(patience))
	c, err := rawzk.Connect(nc, want, last)
	switch {
	case err != nil:
		seen = append(seen, "refused: "+ending(err))
	case c.Session.ID == 0:
		seen = append(seen, fmt.Sprintf("no session, timeout %d, password %x", c.Session.Timeout, c.Session.Passwd))
		frames, err := toTheEnd(c)
		seen = append(seen, v.lines(s.session, 0, frames, err)...)
	default:
		if _, known := v.sessions[c.Session.ID]; !known {
			v.sessions[c.Session.ID] = len(v.sessions)
		}
		seen = append(seen, fmt.Sprintf("session %s, timeout %d", v.owner(c.Session.ID), c.Session.Timeout))
	}
	if old := v.conns[s.session]; old != nil && s.come != resumeAhead && s.come != resumeNone {
		_ = old.SetDeadline(time.Now().Add(patience))
		frames, err := toTheEnd(old)
		seen = append(seen, v.lines(s.session, 0, frames, err)...)
		v.mind(s.session, err)
	}
	if err != nil || c.Session.ID == 0 {
		_ = nc.Close()
		return seen
	}
	v.conns[s.session], v.last[s.session] = c, c.Session
	if len(v.sessions) == 1 && v.base == 0 {
		if err := c.Send(-2, jute.OpPing, nil); err != nil {
			return []string{err.Error()}
		}
		f, err := c.Recv()
		if err != nil {
			return []string{err.Error()}
		}
		v.base = f.Zxid - 1
	}
	return seen
}

// bury closes a session that is about to be given up.
func (v *side) bury(session int) []string {
	if v.last[session].ID == 0 {
		return nil
	}
	nc, err := net.Dial("tcp", v.addr)
	if err != nil {
		return []string{err.Error()}
	}
	defer nc.Close()
	_ = nc.SetDeadline(time.Now().Add(patience))
	c, err := rawzk.Connect(nc, v.last[session], 0)
	if err != nil || c.Session.ID == 0 {
		return []string{fmt.Sprint("not there any more: ", err)}
	}
	if err := c.Send(1, jute.OpCloseSession, nil); err != nil {
		return []string{err.Error()}
	}
	frames, err := toTheEnd(c)
	lines := v.lines(session, jute.OpCloseSession, frames, err)
	slices.Sort(lines)
	return lines
}

func toTheEnd(c *rawzk.Conn) ([]rawzk.Frame, error) {
	var frames []rawzk.Frame
	for {
		f, err := c.Recv()
		if err != nil {
			return frames, err
		}
		frames = append(frames, f)
	}
}

// request sends a request and reads all that comes of it on its connection.
func (v *side) request(s step) []string {
	c := v.conns[s.session]
	_ = c.SetDeadline(time.Now().Add(patience))
	body := s.body
	if s.rewatch {
		body = s.rewatchFrom(v.base)
	}
	var frames []rawzk.Frame
	var err error
	switch {
	case s.raw:
		_, err = c.Conn.Write(body)
	case len(s.burst) > 0:
		var b []byte
		for i, one := range s.burst {
			b = binary.BigEndian.AppendUint32(b, uint32(8+len(one.Body)))
			b = binary.BigEndian.AppendUint32(b, uint32(i+1))
			b = append(binary.BigEndian.AppendUint32(b, uint32(one.Op)), one.Body...)
		}
		_, err = c.Conn.Write(b)
	case s.op == jute.OpPing: // the flush below is one
	default:
		err = c.Send(1, s.op, body)
	}
	if err == nil {
		if s.kills {
			frames, err = toTheEnd(c)
		} else {
			frames, err = c.Flush()
		}
	}
	lines := v.lines(s.session, s.op, frames, err, s.burst...)
	if s.op == jute.OpCloseSession && len(lines) > 2 {
		slices.Sort(lines[:len(lines)-2])
	}
	v.mind(s.session, err)
	return lines
}

// children returns a node's children, for the walk at the end.
func (v *side) children(path string) []string {
	c := v.conns[users]
	_ = c.SetDeadline(time.Now().Add(patience))
	frames, err := c.Call(jute.OpGetChildren, rawzk.PathWatch(path, false))
	if err != nil || len(frames) == 0 {
		return nil
	}
	list := jute.NewDecoder(frames[len(frames)-1].Body).Strings()
	slices.Sort(list)
	for i, name := range list {
		list[i] = strings.TrimSuffix(path, "/") + "/" + name
	}
	return list
}
