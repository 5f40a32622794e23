package trace

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zkconn/wire"
	"github.com/zksh/zksh/internal/zktest"
)

// open returns a session on a sandbox of its own, with a Recorder that writes with write.
func open(t *testing.T, write func(string) error) (*zkconn.Session, *Recorder) {
	t.Helper()
	r := New(write)
	s, err := zkconn.Open(zkconn.Config{
		Servers: zktest.Sandbox(t, sandbox.Options{}).Addr(), Timeout: 10 * time.Second, Tracer: r,
		Auth: []zkconn.Credential{{Scheme: "digest", Auth: []byte("ann:hidden-password")}},
	})
	zktest.Must(t, err)
	t.Cleanup(func() { _ = s.Close(zktest.Within(t)) }) // fails if the test has closed it
	return s, r
}

// Settle waits until the lines have been written, but not for a blocked writer.
func TestSettle(t *testing.T) {
	var written, blocked atomic.Int32
	release := make(chan struct{})
	s, r := open(t, func(string) error {
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

// A trace contains neither credentials nor ACLs nor data.
func TestSecrets(t *testing.T) {
	var text strings.Builder
	s, r := open(t, func(line string) error {
		text.WriteString(line + "\n")
		return nil
	})
	ctx := zktest.Within(t)
	own := []zk.ACL{{Perms: zk.PermAll, Scheme: "digest", ID: "ann:hidden-hash"}}
	public := zk.WorldACL(zk.PermAll)
	_, err := zkconn.Do(ctx, s.Client, zkconn.Create("/a", []byte("hidden-data"), public, zkconn.CreateMode{}))
	zktest.Must(t, err)
	_, err = zkconn.Do(ctx, s.Client, zkconn.GetData("/a"))
	zktest.Must(t, err)
	_, err = zkconn.Do(ctx, s.Client, zkconn.Create("/b", nil, own, zkconn.CreateMode{}))
	zktest.Must(t, err)
	zktest.Must(t, s.Close(ctx))

	k := &wire.Conn{}
	connected := framed(func(e *jute.Encoder) {
		e.Int(0, 30000)
		e.Long(0x1234)
		e.Buffer([]byte("hidden-password"))
	})
	r.Received(k, connected)                 // as if the trace had begun after the connect request
	r.Sent(k, framed(func(e *jute.Encoder) { // resumes a session
		e.Int(0)
		e.Long(0)
		e.Int(30000)
		e.Long(0x1234)
		e.Buffer([]byte("hidden-password"))
	}))
	r.Received(k, connected)
	r.Sent(k, framed(func(e *jute.Encoder) {
		e.Int(1, 102) // sasl
		e.Buffer([]byte("hidden-token"))
	}))
	lost, err := r.Close(ctx)
	zktest.Must(t, err)
	if strings.Contains(text.String(), "hidden") || lost > 0 {
		t.Errorf("%d lines lost: %s", lost, &text)
	}
	for _, part := range []string{
		"> connect            timeout=10000 server=", "< connect            OK ", "scheme=digest",
		"> create           /a  bytes=11 xid=", "> getData          /a  xid=", "< getData          /a  OK ",
		"> closeSession", "! disconnected",
		"< connect            OK session=0x1234 timeout=30000\n", "> connect            timeout=30000 session=0x1234 ",
		"> sasl               xid=0x1",
	} {
		if !strings.Contains(text.String(), part) {
			t.Errorf("no %q in %s", part, &text)
		}
	}
}

// framed returns a frame with its length prefix.
func framed(body func(e *jute.Encoder)) []byte {
	var e jute.Encoder
	body(&e)
	return e.B
}

// A Recorder whose lines cannot be written does not delay requests. It counts the lines that it
// drops, and says how many as soon as it can.
func TestBlockedWriter(t *testing.T) {
	release := make(chan struct{})
	var reported, written int
	s, r := open(t, func(line string) error {
		<-release
		written++
		if _, n, is := strings.Cut(line, "! lost               lines="); is {
			lines, err := strconv.Atoi(n)
			reported += lines
			return err
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
	lost, err := r.Close(ctx)
	zktest.Must(t, err)
	if lost < maxWaiting || lost != reported || written > maxWaiting+20 {
		t.Errorf("%d lines written, %d lost, %d reported as lost", written, lost, reported)
	}
}

// add adds a line to a trace.
func add(f *File, l line, at time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.put(l, at)
}

// A trace in a file that cannot be written is an error at the end. So are missing lines.
func TestFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "trace")
	zktest.Must(t, os.WriteFile(name, []byte("an earlier trace\n"), 0o600))
	f, err := ToFile(name)
	zktest.Must(t, err)
	add(f, line{sign: "*", name: "NodeDeleted", path: "/a\x1b[2J"}, 1500*time.Microsecond)
	add(f, line{path: strings.Repeat("x", maxMemory)}, 0) // is lost, because it is too large
	want := "1 lines are missing in " + name + ", because they could not be written fast enough"
	if err := f.Close(); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	text, err := os.ReadFile(name)
	zktest.Must(t, err)
	first, last, _ := strings.Cut(strings.TrimPrefix(string(text), "an earlier trace\n"), "\n")
	if first != `   0.001500 * NodeDeleted      /a\x1b[2J` || !strings.HasSuffix(last, " ! lost               lines=1\n") {
		t.Errorf("%q", text)
	}
	if _, err := os.Stat("/dev/full"); err == nil {
		f, err := ToFile("/dev/full")
		zktest.Must(t, err)
		add(f, line{}, 0)
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

// The reply to a multi shows the operation that was the reason for a failure.
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
	created := func(e *jute.Encoder) {
		e.MultiHeader(jute.OpCreate, false, 0)
		e.String("/a1")
		e.MultiHeader(-1, true, -1)
	}
	parts := []call{{op: jute.OpCreate, path: "/a"}, {op: jute.OpCheck, path: "/b"}, {op: jute.OpCreate, path: "/c"}}
	multi := call{op: jute.OpMulti, path: operations(parts), parts: parts}
	read := call{op: jute.OpGetData, path: "/a"}
	reads := call{op: jute.OpMultiRead, path: "getData /a"}
	list := call{op: jute.OpGetChildren, path: "/a"}
	sequential := call{op: jute.OpCreate, path: "/a-"}
	nothing := func(*jute.Encoder) {}
	for _, c := range []struct {
		of    call
		reply []byte
		want  string
	}{
		{multi, reply(1, 0, failures(0, -103, -2)), "multi            check /b  BadVersion"},
		{multi, reply(1, 0, failures(-101, -2, -2)), "multi            create /a  NoNode"},
		{multi, reply(1, -101, nothing), "multi            create /a, check /b, create /c  NoNode"},
		{multi, reply(1, 0, created), "multi            create /a, check /b, create /c  OK"},
		{reads, reply(1, 0, failures(-101)), "multiRead        getData /a  OK"},
		{read, reply(1, -127, nothing), "getData          /a  Throttled"},
		{sequential, reply(1, 0, func(e *jute.Encoder) { e.String("/a-01") }), "create           /a-01  OK"},
		{list, reply(1, 0, func(e *jute.Encoder) { e.Strings([]string{"x", "y"}) }), "getChildren      /a  OK children=2"},
	} {
		if got := c.of.reply(c.reply, 0).text(0); got != "   0.000000 < "+c.want+" zxid=0x9 xid=0x1" {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// A request is one line, and so is a multi, however many operations it has.
func TestMultiRequest(t *testing.T) {
	var e jute.Encoder
	e.Int(7, jute.OpMulti)
	for i := range 10 {
		e.MultiHeader(jute.OpDelete, false, -1)
		e.String(fmt.Sprint("/", i))
		e.Int(-1)
	}
	e.MultiHeader(-1, true, -1)
	c, _, l := request(e.B)
	want := "delete /0, delete /1, delete /2, delete /3, delete /4, delete /5, delete /6, delete /7, 2 more"
	if got := l.text(0); got != "   0.000000 > multi            "+want+"  xid=0x7" || len(c.parts) != 10 {
		t.Errorf("%d operations: %q", len(c.parts), got)
	}
}

// Lines that wait to be written have limited memory, and a blocked output does not prevent the end.
func TestBlockedOutput(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	r := New(func(string) error { <-release; return nil })
	k := &wire.Conn{}
	for i := range int32(100) {
		r.Sent(k, framed(func(e *jute.Encoder) {
			e.Int(i+1, jute.OpExists)
			e.String("/" + strings.Repeat("x", 500_000))
			e.Bool(false)
		}))
	}
	r.Received(k, reply(7777, 0, func(*jute.Encoder) {})) // of a request before the trace began
	if r.memory > maxMemory {
		t.Errorf("%d bytes", r.memory)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if lost, err := r.Close(ctx); err == nil || lost < 80 {
		t.Errorf("%d lines lost, %v", lost, err)
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
	answer := []byte("\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01x")
	for op := range int32(jute.OpWhoAmI + 1) {
		code := []byte{0, 0, byte(op >> 8), byte(op)}
		f.Add(fmt.Appendf(nil, "\x00\x00\x00\x01%s\x00\x00\x00\x02/a\x00\x00\x00\x01x", code), answer)
	}
	f.Fuzz(func(t *testing.T, sent, answer []byte) {
		c, _, l := request(sent)
		for _, l := range []line{l, c.reply(answer, 1), event(jute.NewDecoder(answer), 1)} {
			if strings.Contains(l.text(0), "\n") {
				t.Errorf("more than one line: %q", l.text(0))
			}
		}
	})
}
