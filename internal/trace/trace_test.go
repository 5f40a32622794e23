package trace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zkconn/wire"
	"github.com/zksh/zksh/internal/zktest"
)

// open returns a session on a sandbox of its own, with a Recorder that writes with write.
func open(t *testing.T, opts Options, write func(Line) error) (*zkconn.Session, *Recorder) {
	t.Helper()
	r := New(opts, write)
	s, err := zkconn.Open(zkconn.Config{Servers: zktest.Sandbox(t, sandbox.Options{}).Addr(), Timeout: 10 * time.Second, Tracer: r,
		Auth: []zkconn.Credential{{Scheme: "digest", Auth: []byte("ann:hidden-password")}}})
	zktest.Must(t, err)
	t.Cleanup(func() { _ = s.Close(zktest.Within(t)) }) // fails if the test has closed it
	return s, r
}

// Settle waits until the lines have been written, but not for a blocked writer.
func TestSettle(t *testing.T) {
	var written, blocked atomic.Int32
	release := make(chan struct{})
	s, r := open(t, Options{}, func(Line) error {
		if blocked.Load() > 0 {
			<-release
		}
		time.Sleep(10 * time.Millisecond)
		written.Add(1)
		return nil
	})
	exists := func() {
		t.Helper()
		_, err := zkconn.Do(zktest.Within(t), s.Client, zkconn.Exists("/"))
		zktest.Must(t, err)
	}
	exists()
	r.Settle(time.Minute)
	if got := written.Load(); got != 6 { // of connect, auth and exists
		t.Errorf("%d lines have been written, not 6", got)
	}
	blocked.Store(1)
	exists()
	r.Settle(time.Millisecond)
	for range 100 {
		r.Settle(time.Minute) // returns at once, because the writer is blocked
	}
	close(release)
	zktest.Eventually(t, "the writer writes again", func() bool { return written.Load() > 6 })
	r.Settle(time.Minute)
	if got := written.Load(); got != 8 {
		t.Errorf("%d lines have been written, not 8", got)
	}
	_, err := r.Close(zktest.Within(t))
	zktest.Must(t, err)
}

// A trace contains neither credentials nor ACLs, and data only with Options.Data.
func TestSecrets(t *testing.T) {
	for _, data := range []bool{false, true} {
		var b strings.Builder
		s, r := open(t, Options{Data: data}, func(l Line) error {
			json, err := l.MarshalJSON()
			return errors.Join(err, l.Text(&b), func() error { b.Write(json); return nil }())
		})
		ctx := zktest.Within(t)
		secret := append([]byte("visible-data"), bytes.Repeat([]byte("x"), 100)...)
		_, err := zkconn.Do(ctx, s.Client, zkconn.Create("/a", secret, zk.WorldACL(zk.PermAll), zkconn.CreateMode{}))
		zktest.Must(t, err)
		_, err = zkconn.Do(ctx, s.Client, zkconn.GetData("/a"))
		zktest.Must(t, err)
		zktest.Must(t, s.Close(ctx))
		totals, err := r.Close(ctx)
		zktest.Must(t, err)
		text := b.String()
		if strings.Contains(text, "hidden") || strings.Contains(text, "visible-data") != data || strings.Contains(text, strings.Repeat("x", 50)) {
			t.Errorf("data %t: %s", data, text)
		}
		for _, part := range []string{"connect", "scheme=digest", "> create", "bytes=112", "> getData", "< getData", "closeSession", "disconnected"} {
			if !strings.Contains(text, part) {
				t.Errorf("no %s in %s", part, text)
			}
		}
		if totals.Requests < 5 || totals.Requests != totals.Replies || totals.Lost > 0 {
			t.Error(totals)
		}
	}
}

// A Recorder whose lines cannot be written does not delay requests. It counts the lines that it
// drops, and says how many as soon as it can.
func TestBlockedWriter(t *testing.T) {
	release := make(chan struct{})
	var lost, written int
	s, r := open(t, Options{}, func(l Line) error {
		<-release
		written++
		if l.Kind == Lost {
			lost += l.facts[1].(int)
		}
		return nil
	})
	ctx := zktest.Within(t)
	for range maxWaiting { // two lines each
		if _, err := zkconn.Do(ctx, s.Client, zkconn.Exists("/")); err != nil {
			t.Fatal(err)
		}
	}
	close(release)
	zktest.Eventually(t, "the lines are written", func() bool { return len(r.lines) == 0 })
	_, err := zkconn.Do(ctx, s.Client, zkconn.Exists("/"))
	zktest.Must(t, err)
	zktest.Must(t, s.Close(ctx))
	totals, err := r.Close(ctx)
	zktest.Must(t, err)
	if totals.Lost < maxWaiting || lost != totals.Lost || written > maxWaiting+20 {
		t.Errorf("%d lines written, %d reported as lost; %v", written, lost, totals)
	}
}

// On a terminal, the lines fit and are aligned, also with Chinese paths.
func TestColumns(t *testing.T) {
	r := New(Options{}, func(Line) error { return nil })
	defer r.Close(t.Context())
	var e jute.Encoder
	e.Int(7, jute.OpGetData)
	e.String("/很长的路径/" + strings.Repeat("节点", 60) + "-lock-0000000003")
	e.Bool(true)
	c, l := r.request(e.B)
	l.Time, l.Took, l.Outcome = 123456*time.Microsecond, 0, ""
	for _, columns := range []int{60, 80, 120, 200} {
		text := l.Lines(columns)[0].Text()
		if render.Width(text) > columns || !strings.Contains(text, "-0000000003") && columns > 60 || !strings.HasSuffix(strings.TrimSpace(text[:30]), "getData") {
			t.Errorf("%d columns: %q", columns, text)
		}
	}
	if c.path != l.Path || !strings.HasSuffix(l.Lines(0)[0].Text(), "watch xid=0x7") {
		t.Errorf("%q", l.Lines(0)[0].Text())
	}
}

// A trace in a file that cannot be written is an error at the end.
func TestFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "trace")
	for _, format := range []render.Format{render.Text, render.JSON} {
		f, err := ToFile(name, format)
		zktest.Must(t, err)
		f.put(Line{Kind: Event, Op: "NodeDeleted", Path: "/a\x1b[2J", Time: 1500 * time.Microsecond})
		zktest.Must(t, f.Close())
		text, err := os.ReadFile(name)
		zktest.Must(t, err)
		want := map[render.Format]string{
			render.Text: "   0.001500 * NodeDeleted      /a\\x1b[2J\n",
			render.JSON: `{"trace":"event","seconds":0.0015,"op":"NodeDeleted","path":"/a\u001b[2J"}` + "\n",
		}[format]
		if string(text) != want {
			t.Errorf("%s: %q, want %q", format, text, want)
		}
	}
	if _, err := os.Stat("/dev/full"); err == nil {
		f, err := ToFile("/dev/full", render.Text)
		zktest.Must(t, err)
		f.put(Line{Kind: Event})
		if err := f.Close(); err == nil {
			t.Error("no error")
		}
	}
}

// reply returns a reply with the given body, without its length prefix.
func reply(xid, code int32, body func(e *jute.Encoder)) []byte {
	var e jute.Encoder
	e.Int(xid)
	e.Long(9)
	e.Int(code)
	body(&e)
	return e.B
}

// Replies to several operations show which of them failed, and which had no effect because of that.
func TestReplies(t *testing.T) {
	failures := func(codes ...int32) func(e *jute.Encoder) {
		return func(e *jute.Encoder) {
			for _, code := range codes {
				e.MultiHeader(-1, false, code)
				e.Int(code)
			}
			e.MultiHeader(-1, true, -1)
		}
	}
	parts := []call{{op: jute.OpCreate, path: "/a"}, {op: jute.OpCreate, path: "/b"}, {op: jute.OpCreate, path: "/c"}}
	r := New(Options{}, func(Line) error { return nil })
	defer r.Close(t.Context())
	for want, got := range map[string]Line{
		"multi NodeExists: RolledBack NodeExists RuntimeInconsistency": r.reply(call{op: jute.OpMulti, parts: parts}, reply(1, 0, failures(0, -110, -2))),
		"multiRead OK: NoNode NoAuth": r.reply(call{op: jute.OpMultiRead, parts: []call{{op: jute.OpGetData}, {op: jute.OpGetChildren}}},
			reply(1, 0, failures(-101, -102))),
		"multi OK: OK": r.reply(call{op: jute.OpMulti, parts: parts[:1]}, reply(1, 0, func(e *jute.Encoder) {
			e.MultiHeader(jute.OpCreate, false, 0)
			e.String("/a1")
			e.MultiHeader(-1, true, -1)
		})),
		"multiRead OK: OK OK": r.reply(call{op: jute.OpMultiRead, parts: []call{{op: jute.OpGetChildren}, {op: jute.OpGetChildren}}}, reply(1, 0, func(e *jute.Encoder) {
			for range 2 {
				e.MultiHeader(jute.OpGetChildren, false, 0)
				e.Strings([]string{"x", "y"})
			}
			e.MultiHeader(-1, true, -1)
		})),
		"getData Throttled:": r.reply(call{op: jute.OpGetData}, reply(1, -127, func(*jute.Encoder) {})),
	} {
		text := got.Op + " " + got.Outcome + ":"
		for _, p := range got.Parts {
			text += " " + p.Outcome
		}
		if text != want {
			t.Errorf("%s, want %s", text, want)
		}
	}
}

// Lines that wait to be written have limited memory, and a blocked output does not prevent the end.
func TestBlockedOutput(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	r := New(Options{}, func(Line) error { <-release; return nil })
	k := &wire.Conn{}
	for i := range int32(100) {
		var e, frame jute.Encoder
		e.Int(i+1, jute.OpExists)
		e.String("/" + strings.Repeat("x", 500_000))
		e.Bool(false)
		frame.Buffer(e.B)
		r.Sent(k, frame.B)
	}
	r.Received(k, reply(7777, 0, func(*jute.Encoder) {})) // of a request before the trace began
	if r.memory > maxMemory {
		t.Errorf("%d bytes", r.memory)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if totals, err := r.Close(ctx); err == nil || totals.Lost < 80 {
		t.Errorf("%v, %v", totals, err)
	}
}

// FuzzDecode decodes requests and replies, malformed ones too, without a panic.
func FuzzDecode(f *testing.F) {
	var e jute.Encoder
	e.Int(1, jute.OpMulti)
	e.MultiHeader(jute.OpCreate, false, -1)
	e.String("/a")
	e.Buffer([]byte("x"))
	e.Int(0, 1)
	e.MultiHeader(-1, true, -1)
	f.Add(e.B, []byte("\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00"))
	f.Add([]byte{}, []byte{})
	f.Add([]byte{0, 0, 0, 0, 1}, []byte{0, 0, 0, 0, 0, 0, 0, 9})
	for op := range int32(jute.OpWhoAmI + 1) {
		f.Add(fmt.Appendf(nil, "\x00\x00\x00\x01%s\x00\x00\x00\x02/a\x00\x00\x00\x01x", []byte{0, 0, byte(op >> 8), byte(op)}), []byte("\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01x"))
	}
	r := New(Options{Data: true}, func(Line) error { return nil })
	f.Fuzz(func(t *testing.T, request, reply []byte) {
		eachFrame(request, func([]byte) {})
		c, l := r.request(request)
		answer := r.reply(c, reply)
		for _, l := range []Line{l, answer, event(jute.NewDecoder(reply), 1)} {
			if _, err := l.MarshalJSON(); err != nil {
				t.Error(err)
			}
			l.Lines(80)
		}
	})
}
