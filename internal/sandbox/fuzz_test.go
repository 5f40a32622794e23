package sandbox

import (
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/sandbox/rawzk"
)

// smallServer limits the memory of a fuzzed server.
var smallServer = Options{
	MaxTreeBytes: 1 << 20, MaxWatchBytes: 1 << 20, MaxQueue: 1 << 20, MaxSessions: 4, EnforceQuota: true,
	Now: func() time.Time { return time.Unix(1_700_000_000, 0) },
}

// sampleRequests contains at least one request of every opcode.
var sampleRequests = []rawzk.Op{
	{Op: jute.OpCreate, Body: rawzk.Create("/a", []byte("x"), rawzk.Open, modePersistent)},
	{Op: jute.OpCreate, Body: rawzk.Create("/zookeeper/quota/a", nil, rawzk.Open, modePersistent)},
	{Op: jute.OpCreate, Body: rawzk.Create("/zookeeper/quota/a/zookeeper_limits", []byte("count=1,bytes=5=;countHardLimit=3"), rawzk.Open, 0)},
	{Op: jute.OpCreate, Body: rawzk.Create("/zookeeper/quota/a/zookeeper_stats", []byte("count=1,bytes=5"), rawzk.Open, 0)},
	{Op: jute.OpAuth, Body: rawzk.Auth("digest", "u:p")},
	{Op: jute.OpCreate2, Body: rawzk.Create("/a/b", []byte{}, []rawzk.ACL{{Perms: permAll, Scheme: "auth"}, {Perms: 3, Scheme: "ip", ID: "10.0.0.0/8"}}, modeEphemeralSeq)},
	{Op: jute.OpCreateContainer, Body: rawzk.Create("/c", nil, rawzk.Open, modeContainer)},
	{Op: jute.OpCreateTTL, Body: rawzk.CreateTTL("/t", nil, rawzk.Open, modeTTLSequential, 1000)},
	{Op: jute.OpAddWatch, Body: rawzk.PathInt("/", 1)},
	{Op: jute.OpExists, Body: rawzk.PathWatch("/none", true)},
	{Op: jute.OpGetData, Body: rawzk.PathWatch("/a", true)},
	{Op: jute.OpGetChildren, Body: rawzk.PathWatch("/", true)},
	{Op: jute.OpGetChildren2, Body: rawzk.PathWatch("/zookeeper", false)},
	{Op: jute.OpSetData, Body: rawzk.Set("/a", []byte("longer"), 0)},
	{Op: jute.OpSetACL, Body: rawzk.SetACL("/c", []rawzk.ACL{{Perms: 1, Scheme: "digest", ID: "u:x"}}, -1)},
	{Op: jute.OpGetACL, Body: rawzk.Path("/c")},
	{Op: jute.OpMulti, Body: rawzk.Multi(
		rawzk.Op{Op: jute.OpCreate, Body: rawzk.Create("/m", nil, rawzk.Open, modeEphemeral)},
		rawzk.Op{Op: jute.OpCheck, Body: rawzk.PathInt("/m", 0)},
		rawzk.Op{Op: jute.OpSetData, Body: rawzk.Set("/m", nil, 0)},
		rawzk.Op{Op: jute.OpDelete, Body: rawzk.PathInt("/m", 1)})},
	{Op: jute.OpMultiRead, Body: rawzk.Multi(
		rawzk.Op{Op: jute.OpGetData, Body: rawzk.PathWatch("/a", true)},
		rawzk.Op{Op: jute.OpGetChildren, Body: rawzk.PathWatch("/none", false)})},
	{Op: jute.OpSetWatches, Body: rawzk.SetWatches(0, []string{"/a"}, []string{"/b"}, []string{"/"})},
	{Op: jute.OpSetWatches2, Body: rawzk.SetWatches(1<<62, []string{"/a"}, []string{"/b"}, []string{"/"}, []string{"/p"}, []string{"/r"})},
	{Op: jute.OpCheckWatches, Body: rawzk.PathInt("/", 3)},
	{Op: jute.OpRemoveWatches, Body: rawzk.PathInt("/", 3)},
	{Op: jute.OpGetEphemerals, Body: rawzk.Path("/")},
	{Op: jute.OpGetAllChildrenNumber, Body: rawzk.Path("/")},
	{Op: jute.OpWhoAmI}, {Op: jute.OpPing}, {Op: jute.OpSASL}, {Op: jute.OpSync, Body: rawzk.Path("/")},
	{Op: jute.OpReconfig, Body: make([]byte, 20)}, {Op: jute.OpCheck, Body: rawzk.PathInt("/a", -1)},
	{Op: jute.OpDelete, Body: rawzk.PathInt("/c", -1)}, {Op: jute.OpCloseSession},
}

// FuzzFrames sends arbitrary bytes to a server, which must neither crash nor corrupt its
// tree.
func FuzzFrames(f *testing.F) {
	var e jute.Encoder
	e.B = binary.BigEndian.AppendUint32(nil, 45)
	e.Int(0)
	e.Long(0)
	e.Int(10000)
	e.Long(0)
	e.Buffer(make([]byte, 16))
	e.Bool(false)
	f.Add(e.B)
	f.Add([]byte("ruok"))
	f.Add([]byte("\x7f\xff\xff\xff"))
	for _, op := range sampleRequests {
		b := binary.BigEndian.AppendUint32(append([]byte{}, e.B...), uint32(8+len(op.Body)))
		b = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(b, 1), uint32(op.Op))
		f.Add(append(b, op.Body...))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s := New(smallServer)
		nc, err := s.Dial()
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			_, _ = nc.Write(b)
			_ = nc.Close()
		}()
		_, _ = io.Copy(io.Discard, nc)
		s.mu.Lock()
		check(t, s)
		s.mu.Unlock()
		_ = s.Close()
	})
}

// FuzzRequests passes arbitrary requests of an established session to the handlers. The
// opcode, length and body of each come from the input.
func FuzzRequests(f *testing.F) {
	var all []byte
	for _, op := range sampleRequests {
		one := appendOp(nil, op)
		f.Add(one)
		all = append(all, one...)
	}
	f.Add(all)
	f.Fuzz(func(t *testing.T, b []byte) {
		s := New(smallServer)
		client, server := net.Pipe()
		done := make(chan bool)
		go func() {
			_, _ = io.Copy(io.Discard, client)
			close(done)
		}()
		c := newConn(s, pipeEnd{server})
		s.mu.Lock()
		s.conns[c] = struct{}{}
		c.sess = s.open(10 * time.Second)
		c.sess.conn = c
		v := keepOpen
		for len(b) >= 3 && v == keepOpen {
			op, n := int32(int8(b[0])), int(binary.BigEndian.Uint16(b[1:]))
			n = min(n, len(b)-3)
			var e jute.Encoder
			e.Int(1)
			e.Int(op)
			v = s.handle(c, append(e.B, b[3:3+n]...))
			b = b[3+n:]
			check(t, s)
		}
		if s.tree.bytes > smallServer.MaxTreeBytes {
			t.Errorf("the tree has grown to %d bytes", s.tree.bytes)
		}
		s.mu.Unlock()
		_ = s.Close()
		_ = server.Close()
		<-done
	})
}

func appendOp(b []byte, op rawzk.Op) []byte {
	b = append(b, byte(op.Op))
	b = binary.BigEndian.AppendUint16(b, uint16(len(op.Body)))
	return append(b, op.Body...)
}
