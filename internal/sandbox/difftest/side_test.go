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

// ioTimeout is the longest time that a server may take to answer or to close a connection.
const ioTimeout = 10 * time.Second

// A side is one of the two servers, with one connection for each session.
type side struct {
	formatter
	name, addr   string
	conns        [users + 1]*rawzk.Conn
	lastSessions [users + 1]rawzk.Session
}

func newSide(name, addr string) *side {
	return &side{name: name, addr: addr, formatter: formatter{sessions: map[int64]int{}}}
}

// quietOps lists operations that cause no events in other sessions. If one does, the event
// is found when the other sessions are pinged after a later step.
var quietOps = []int32{
	jute.OpExists, jute.OpGetData, jute.OpGetACL, jute.OpGetChildren, jute.OpGetChildren2, jute.OpSync, jute.OpPing, jute.OpCheckWatches, jute.OpRemoveWatches,
	jute.OpMultiRead, jute.OpGetEphemerals, jute.OpGetAllChildrenNumber, jute.OpAddWatch, jute.OpWhoAmI,
}

// run executes one step and returns the frames that all sessions receive, as text.
func (v *side) run(s step) []string {
	var seen []string
	if s.connect != 0 {
		seen = v.connect(s)
	} else {
		seen = v.request(s)
	}
	if slices.Contains(quietOps, s.op) && !s.closes {
		return seen
	}
	var pings [users + 1]error // all pings are sent before the first reply is read, to save time
	for i, c := range v.conns {
		if c != nil && i != s.session {
			_ = c.SetDeadline(time.Now().Add(ioTimeout))
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
		lines := v.format(i, 0, frames, err)
		if s.op == jute.OpCloseSession || s.connect == fresh {
			slices.Sort(lines) // a session's ephemeral nodes are deleted in any order
		}
		seen = append(seen, lines...)
		v.dropIfFailed(i, err)
	}
	return seen
}

func (v *side) format(session int, op int32, frames []rawzk.Frame, err error, burst ...rawzk.Op) []string {
	var lines []string
	for _, f := range frames {
		if n := int(f.Xid); n > 0 && n <= len(burst) {
			op = burst[n-1].Op
		}
		lines = append(lines, fmt.Sprintf("%d: %s", session, v.frame(op, f)))
	}
	if err != nil {
		lines = append(lines, fmt.Sprintf("%d: %s", session, errorText(err)))
	}
	return lines
}

// errorText returns "closed" for every error of a closed connection, because timing decides
// which of them occurs.
func errorText(err error) string {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		return "closed"
	}
	return err.Error()
}

// dropIfFailed closes and removes the session's connection if err is not nil.
func (v *side) dropIfFailed(session int, err error) {
	if err != nil {
		_ = v.conns[session].Close()
		v.conns[session] = nil
	}
}

// connect opens a new connection for a session.
func (v *side) connect(s step) []string {
	want, last := v.lastSessions[s.session], int64(0)
	var seen []string
	switch s.connect {
	case resumeWrong:
		want.Passwd = make([]byte, 16)
	case resumeAhead:
		last = v.firstZxid + 1<<40
	case resumeNone:
		want.ID = 12345
	case fresh:
		// Otherwise the old session would expire later, at different times on the servers.
		seen = v.closeLastSession(s.session)
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
	_ = nc.SetDeadline(time.Now().Add(ioTimeout))
	c, err := rawzk.Connect(nc, want, last)
	switch {
	case err != nil:
		seen = append(seen, "refused: "+errorText(err))
	case c.Session.ID == 0:
		seen = append(seen, fmt.Sprintf("no session, timeout %d, password %x", c.Session.Timeout, c.Session.Passwd))
		frames, err := readToEOF(c)
		seen = append(seen, v.format(s.session, 0, frames, err)...)
	default:
		if _, known := v.sessions[c.Session.ID]; !known {
			v.sessions[c.Session.ID] = len(v.sessions)
		}
		seen = append(seen, fmt.Sprintf("session %s, timeout %d", v.owner(c.Session.ID), c.Session.Timeout))
	}
	if old := v.conns[s.session]; old != nil && s.connect != resumeAhead && s.connect != resumeNone {
		_ = old.SetDeadline(time.Now().Add(ioTimeout))
		frames, err := readToEOF(old)
		seen = append(seen, v.format(s.session, 0, frames, err)...)
		v.dropIfFailed(s.session, err)
	}
	if err != nil || c.Session.ID == 0 {
		_ = nc.Close()
		return seen
	}
	v.conns[s.session], v.lastSessions[s.session] = c, c.Session
	if len(v.sessions) == 1 && v.firstZxid == 0 {
		if err := c.Send(-2, jute.OpPing, nil); err != nil {
			return []string{err.Error()}
		}
		f, err := c.Recv()
		if err != nil {
			return []string{err.Error()}
		}
		v.firstZxid = f.Zxid - 1
	}
	return seen
}

// closeLastSession closes the session that is about to be replaced by a new one.
func (v *side) closeLastSession(session int) []string {
	if v.lastSessions[session].ID == 0 {
		return nil
	}
	nc, err := net.Dial("tcp", v.addr)
	if err != nil {
		return []string{err.Error()}
	}
	defer nc.Close()
	_ = nc.SetDeadline(time.Now().Add(ioTimeout))
	c, err := rawzk.Connect(nc, v.lastSessions[session], 0)
	if err != nil || c.Session.ID == 0 {
		return []string{fmt.Sprint("not there any more: ", err)}
	}
	if err := c.Send(1, jute.OpCloseSession, nil); err != nil {
		return []string{err.Error()}
	}
	frames, err := readToEOF(c)
	lines := v.format(session, jute.OpCloseSession, frames, err)
	slices.Sort(lines)
	return lines
}

func readToEOF(c *rawzk.Conn) ([]rawzk.Frame, error) {
	var frames []rawzk.Frame
	for {
		f, err := c.Recv()
		if err != nil {
			return frames, err
		}
		frames = append(frames, f)
	}
}

// request sends the request or requests of a step and returns the frames that its session
// receives, as text.
func (v *side) request(s step) []string {
	c := v.conns[s.session]
	_ = c.SetDeadline(time.Now().Add(ioTimeout))
	body := s.body
	if s.isSetWatches {
		body = s.setWatchesBody(v.firstZxid)
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
	case s.op == jute.OpPing: // Flush below sends a ping
	default:
		err = c.Send(1, s.op, body)
	}
	if err == nil {
		if s.closes {
			frames, err = readToEOF(c)
		} else {
			frames, err = c.Flush()
		}
	}
	lines := v.format(s.session, s.op, frames, err, s.burst...)
	if s.op == jute.OpCloseSession && len(lines) > 2 {
		slices.Sort(lines[:len(lines)-2])
	}
	v.dropIfFailed(s.session, err)
	return lines
}

// children returns the paths of a node's children.
func (v *side) children(path string) []string {
	c := v.conns[users]
	_ = c.SetDeadline(time.Now().Add(ioTimeout))
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
