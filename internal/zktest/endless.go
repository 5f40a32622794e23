package zktest

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"net"
	"strings"
	"testing"

	"github.com/zksh/zksh/internal/jute"
)

// Endless starts a server that tries to exhaust the memory of its clients, and returns its
// address. The server claims to be ZooKeeper 3.9 and opens every requested session. The mode
// determines how it replies to other requests:
//
//	events        it sends half a million events (450 MB) about a znode that the client does not watch
//	watched       it sends events about the watched znode without end
//	below         it sends events about ever more descendants of the watched znode, without end
//	over          each reply is 250 MiB long
//	empty         each list has 11 million empty names (45 MiB)
//	short         each list has 9 million names of one character (45 MiB)
//	many          each list has 2 million names of 19 characters (45 MiB)
//	long          each list has 200,000 names of 230 characters (45 MiB)
//	million       each list of children has a million names of 40 characters, which is not an attack
//	slash         each list has one name, which is "a/b"
//	dots          each list has one name, which is ".."
//	nameless      each list has one name, which is empty
//	acl           each access control list has 4 million entries
//	identities    each reply to whoAmI has 6 million identities
//	data          each znode has 45 MiB of data
//	claim         each reply announces a length of 200 MiB, but contains nothing else
//	deep          each znode has one child
//	heavy         each znode has one child, whose name has 4000 characters
//	wide          each znode has 10,000 children
//	crowded       each znode has 400,000 children (20 MB of names), and the server claims to be version 3.4
//	words         the output of each four-letter command is endless
//
// The server ends with the test tb. It closes a connection when the client disconnects.
func Endless(tb testing.TB, mode string) string {
	tb.Helper()
	s := &endless{mode: mode}
	var e jute.Encoder
	switch mode {
	case "deep":
		e.Strings([]string{"a"})
	case "heavy":
		e.Strings([]string{strings.Repeat("h", 4000)})
	case "slash":
		e.Strings([]string{"a/b"})
	case "nameless":
		e.Strings([]string{""})
	case "dots":
		e.Strings([]string{".."})
	case "wide", "crowded":
		names := make([]string, 10_000)
		if mode == "crowded" {
			names = make([]string, 400_000)
		}
		for i := range names {
			names[i] = childName(i, len(names)/10_000)
		}
		e.Strings(names)
	case "events", "watched", "below", "over", "empty", "short", "long", "many", "million", "acl", "identities", "data",
		"claim", "words":
		e.Strings(nil)
	default:
		tb.Fatalf("zktest: unknown mode %q", mode)
	}
	s.children = e.B
	return serve(tb, s.serveClient)
}

// childName returns the name of child number n. The name consists of four letters that depend on n,
// followed by the letter t, repeated tail times.
func childName(n, tail int) string {
	b := []byte("aaaa" + strings.Repeat("t", tail))
	for i := 3; i >= 0; i-- {
		b[i] += byte(n % 26)
		n /= 26
	}
	return string(b)
}

type endless struct {
	mode string
	// children is the encoded list of children, which is the same for all znodes. In modes with
	// longer replies, the method answer generates these replies instead.
	children []byte
}

// serveClient replies to one client until it disconnects.
func (s *endless) serveClient(c net.Conn) {
	r, w := bufio.NewReader(c), bufio.NewWriterSize(c, 1<<16)
	// If the first byte is not 0, the client sent a four-letter command.
	if first, err := r.Peek(4); err != nil || first[0] != 0 {
		s.answerFourLetter(c, err)
		return
	}
	for n := 0; ; n++ {
		request, err := readFrame(r)
		if err != nil {
			return
		}
		if n == 0 {
			e := jute.Encoder{}
			e.Int(0, 120_000) // a long timeout, because a busy machine needs time for so much data
			e.Long(7)
			e.Buffer(make([]byte, 16))
			e.Bool(false)
			err = writeFrame(w, repeated{e.B, 1})
			if s.mode == "events" {
				err = flood(w, "/"+strings.Repeat("x", 899), 500_000)
			}
		} else {
			err = s.answer(w, request)
		}
		if err == nil && r.Buffered() == 0 {
			err = w.Flush()
		}
		if err != nil {
			return
		}
	}
}

// answerFourLetter answers any four-letter command with the output of srvr. err is the error from
// reading the command. If err is not nil, answerFourLetter does nothing.
func (s *endless) answerFourLetter(c net.Conn, err error) {
	if err != nil {
		return
	}
	version := "3.9.3"
	// Claim to be a version without multiRead, because replies to multiRead requests would be too
	// long.
	if s.mode == "crowded" {
		version = "3.4.14"
	}
	text := "Zookeeper version: " + version +
		"-0, built on 2024-01-01\nLatency min/avg/max: 0/0/0\nMode: standalone\nNode count: 5\n"
	if s.mode == "words" {
		for block := strings.Repeat(" /127.0.0.1:4000[1](queued=0,recved=1,sent=0)\n", 1<<10); err == nil; {
			_, err = io.WriteString(c, block)
		}
		return
	}
	writeString(c, text)
	_ = c.Close()
}

// answer replies to a request. It never builds a long reply in memory, because tests measure the
// peak memory of programs that they start. The peak that the kernel reports for a program is at
// least the memory of the test process when it started the program.
func (s *endless) answer(w *bufio.Writer, request []byte) error {
	const most = 45 << 20 // length of most of the long replies, in bytes
	d := jute.NewDecoder(request)
	xid, op := d.Int(), d.Int()
	var e jute.Encoder
	e.Int(xid)
	e.Long(1)
	e.Int(0)
	many := func(unit string, n int) error {
		e.Int(int32(n))
		return writeFrame(w, repeated{e.B, 1}, repeated{[]byte(unit), n}, repeated{s.stat(), 1})
	}
	switch op {
	case jute.OpPing, jute.OpSync, jute.OpAuth, jute.OpCloseSession, jute.OpSetWatches,
		jute.OpSetWatches2, jute.OpDelete:
		return writeFrame(w, repeated{e.B, 1})
	case jute.OpMulti:
		e.MultiHeader(-1, true, -1)
		return writeFrame(w, repeated{e.B, 1})
	case jute.OpAddWatch:
		if err := writeFrame(w, repeated{e.B, 1}); err != nil || s.mode != "watched" && s.mode != "below" {
			return err
		}
		path := d.String()
		for n := 0; s.mode == "below"; n++ {
			if err := flood(w, fmt.Sprintf("%s/%0200d", path, n), 1); err != nil {
				return err
			}
		}
		return flood(w, path, math.MaxInt)
	}
	switch {
	case s.mode == "claim":
		_, err := w.Write(binary.BigEndian.AppendUint32(nil, 200<<20))
		return err
	case s.mode == "over":
		return many("o", 250<<20)
	case s.mode == "data" && op == jute.OpGetData:
		return many("d", most)
	case s.mode == "acl" && op == jute.OpGetACL:
		return many(strings.Repeat("\x00", 12), most/12)
	case s.mode == "identities" && op == jute.OpWhoAmI:
		return many(strings.Repeat("\x00", 8), most/8)
	case s.mode == "empty":
		return many(strings.Repeat("\x00", 4), most/4)
	case s.mode == "short":
		return many("\x00\x00\x00\x01s", most/5)
	case s.mode == "many":
		return many("\x00\x00\x00\x13"+strings.Repeat("n", 19), most/23)
	case s.mode == "long":
		return many("\x00\x00\x00\xe6"+strings.Repeat("l", 230), most/234)
	case s.mode == "million" && (op == jute.OpGetChildren || op == jute.OpGetChildren2):
		return many("\x00\x00\x00\x28"+strings.Repeat("m", 40), 1e6)
	case op == jute.OpMultiRead:
		return s.multiRead(w, e.B, d)
	case op == jute.OpGetData:
		e.Buffer(nil)
	case op == jute.OpGetACL:
		e.Int(1, 31)
		e.String("world")
		e.String("anyone")
	case op != jute.OpExists: // usually a request for the children of a znode
		return writeFrame(w, repeated{e.B, 1}, repeated{s.children, 1}, repeated{s.stat(), 1})
	}
	return writeFrame(w, repeated{e.B, 1}, repeated{s.stat(), 1})
}

// multiRead replies to a multiRead request as if all znodes had the same children. head is the
// beginning of the reply, and d decodes the request.
func (s *endless) multiRead(w *bufio.Writer, head []byte, d *jute.Decoder) error {
	var list, data, end jute.Encoder
	list.MultiHeader(jute.OpGetChildren, false, 0)
	data.MultiHeader(jute.OpGetData, false, 0)
	data.Buffer(nil)
	end.MultiHeader(-1, true, -1)
	pieces := []repeated{{head, 1}}
	for op, last := d.MultiHeader(); !last && d.Err() == nil; op, last = d.MultiHeader() {
		_, _ = d.String(), d.Bool()
		if op == jute.OpGetData {
			pieces = append(pieces, repeated{data.B, 1}, repeated{s.stat(), 1})
		} else {
			pieces = append(pieces, repeated{list.B, 1}, repeated{s.children, 1})
		}
	}
	return writeFrame(w, append(pieces, repeated{end.B, 1})...)
}

// stat returns the encoded Stat of a znode with children.
func (s *endless) stat() []byte {
	b := make([]byte, jute.StatLen)
	b[jute.StatLen-9] = 1 // set the last byte of the field numChildren
	return b
}

// flood sends n watch events that report a change of the data at path.
func flood(w *bufio.Writer, path string, n int) error {
	var e jute.Encoder
	e.Int(jute.XidEvent)
	e.Long(-1)
	e.Int(0, 3, 3)
	e.String(path)
	some := min(n, 100)
	block := bytes.Repeat(append(binary.BigEndian.AppendUint32(nil, uint32(len(e.B))), e.B...), some)
	for ; n > 0; n -= some {
		if _, err := w.Write(block); err != nil {
			return err
		}
	}
	return nil
}

// repeated is a part of a frame: the same bytes, repeated n times.
type repeated struct {
	bytes []byte
	n     int
}

func writeFrame(w *bufio.Writer, pieces ...repeated) error {
	length := 0
	for _, p := range pieces {
		length += len(p.bytes) * p.n
	}
	if _, err := w.Write(binary.BigEndian.AppendUint32(nil, uint32(length))); err != nil {
		return err
	}
	for _, p := range pieces {
		block, some := p.bytes, 1
		if p.n > 1<<10 {
			block, some = bytes.Repeat(p.bytes, 1<<10), 1<<10
		}
		for n := p.n; n > 0; n -= some {
			if _, err := w.Write(block[:min(n, some)*len(p.bytes)]); err != nil {
				return err
			}
		}
	}
	return nil
}

// readFrame reads one frame and returns its content without the length.
func readFrame(r io.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	return jute.ReadBehind(r, nil, int(binary.BigEndian.Uint32(head[:])), 1<<16)
}
