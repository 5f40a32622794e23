package sandbox

import (
	"strings"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/sandbox/rawzk"
)

// connectRaw sends a connect request and returns the decoded reply.
func connectRaw(t *testing.T, s *Server, sid int64) (version, timeout int32, id int64, rest []byte) {
	t.Helper()
	nc, err := s.Dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	var e jute.Encoder
	e.Int(0)
	e.Long(0)
	e.Int(requestedTimeout)
	e.Long(sid)
	e.Buffer(make([]byte, 16)) // the password
	e.Bool(false)
	c := &rawzk.Conn{Conn: nc}
	if err := c.WriteFrame(e.B); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 4+41)
	n, err := nc.Read(b) // a net.Pipe returns the data of one Write
	if err != nil {
		t.Fatal(err)
	}
	d := jute.NewDecoder(b[4:n])
	version, timeout, id = d.Int(), d.Int(), d.Long()
	d.Buffer()
	if d.Err() != nil {
		t.Fatal(d.Err())
	}
	return version, timeout, id, d.Rest()
}

func eachProduct(t *testing.T, f func(t *testing.T, s *Server, as Product)) {
	for _, as := range Products() {
		t.Run(string(as), func(t *testing.T) {
			bubble(t, Options{Quirks: Quirks{Product: as}}, func(t *testing.T, s *Server) { f(t, s, as) })
		})
	}
}

func TestProductsConnect(t *testing.T) {
	eachProduct(t, func(t *testing.T, s *Server, as Product) {
		version, timeout, id, rest := connectRaw(t, s, 0)
		if version != 0 || timeout != requestedTimeout || id == 0 || len(rest) != 0 {
			t.Errorf("version %d, timeout %d, id %d, %d bytes behind it", version, timeout, id, len(rest))
		}
		version, timeout, again, _ := connectRaw(t, s, 99)
		if as == ClickHouse && (version != 0 || timeout != requestedTimeout || again == 99 || again == id) {
			t.Errorf("unknown session: version %d, timeout %d, id %d", version, timeout, again)
		}
		if as == RaftKeeper && (version != rejected || timeout != -1 || again != 99) {
			t.Errorf("unknown session: version %d, timeout %d, id %d", version, timeout, again)
		}
		s.SetLeaderless(true)
		version, timeout, again, _ = connectRaw(t, s, id)
		if version != rejected || (as == RaftKeeper) != (timeout == -1 && again == -1) || as == ClickHouse && again != 0 {
			t.Errorf("without a leader: version %d, timeout %d, id %d", version, timeout, again)
		}
		s.SetLeaderless(false)
		if _, _, again, _ = connectRaw(t, s, id); (as == RaftKeeper) != (again == id) {
			t.Errorf("reconnect: id %d after %d", again, id)
		}
	})
}

func TestSessionsOfProductsEnd(t *testing.T) {
	eachProduct(t, func(t *testing.T, s *Server, as Product) {
		c, other := open(t, s), open(t, s)
		c.create("/e", modeEphemeral)
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if there := other.exists("/e"); there != (as == RaftKeeper) {
			t.Errorf("after the connection ended: %v", there)
		}
		time.Sleep(5 * time.Second)
		if !other.exists("/") {
			t.Fatal("no root")
		}
		time.Sleep(8 * time.Second)
		if other.exists("/e") {
			t.Error("it has outlived its session")
		}
		if err := other.Send(7, jute.OpCloseSession, nil); err != nil {
			t.Fatal(err)
		}
		if f, err := other.Recv(); err == nil {
			t.Errorf("an answer to a close: %v", f)
		}
	})
}

func TestUnknownOpcodesOfProducts(t *testing.T) {
	eachProduct(t, func(t *testing.T, s *Server, as Product) {
		ops := []int32{jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL, jute.OpSASL, jute.OpGetEphemerals, jute.OpGetAllChildrenNumber, jute.OpSetWatches2, jute.OpWhoAmI, 500}
		if as == ClickHouse {
			ops = append(ops, jute.OpAddWatch, jute.OpSetWatches)
		}
		for _, op := range ops {
			c := open(t, s)
			if err := c.Send(1, op, rawzk.Path("/")); err != nil {
				t.Fatal(err)
			}
			if f, err := c.Recv(); err == nil {
				t.Errorf("opcode %d: %v", op, f)
			}
		}
	})
}

func TestZnodesOfProducts(t *testing.T) {
	eachProduct(t, func(t *testing.T, s *Server, _ Product) {
		c := open(t, s)
		if got := string(c.must(jute.OpGetData, rawzk.PathWatch(apiVersionPath, false)).Buffer()); got != apiVersion {
			t.Errorf("the version of the API is %q", got)
		}
		for _, path := range []string{zkPath, configPath} {
			if c.exists(path) {
				t.Errorf("there is %s", path)
			}
		}
		for _, path := range []string{"/keeper/x", "/keeper"} {
			if got := code(c.call(jute.OpCreate, rawzk.Create(path, nil, rawzk.Open, 0)).Err); got != codeBadArguments {
				t.Errorf("create %s: error %d", path, got)
			}
		}
		if got := code(c.call(jute.OpDelete, rawzk.PathInt(apiVersionPath, -1)).Err); got != codeBadArguments {
			t.Errorf("delete: error %d", got)
		}
		d := c.must(jute.OpMultiRead, rawzk.Multi(rawzk.Op{Op: jute.OpGetData, Body: rawzk.PathWatch("/none", false)}))
		if op, done := d.Int(), d.Bool(); op != jute.OpGetData || done {
			t.Errorf("a failed part is of type %d, done %v", op, done)
		}
		if got := code(d.Int()); got != codeNoNode || len(d.Rest()) != 9 {
			t.Errorf("error %d and %d bytes behind it", got, len(d.Rest()))
		}
	})
}

func TestFourLetterCommandsOfProducts(t *testing.T) {
	for as, want := range map[Product][]string{
		ClickHouse: {"ClickHouse Keeper version: v24.3", "\nMode: standalone\n"},
		RaftKeeper: {"RaftKeeper version: RaftKeeper 2.1", "\nMode: standalone\n"},
	} {
		bubble(t, Options{Quirks: Quirks{Product: as}}, func(t *testing.T, s *Server) {
			c := open(t, s)
			c.create("/e", modeEphemeral)
			for _, text := range want {
				if got := fourLetterCommands["srvr"](s); !strings.Contains(got, text) {
					t.Errorf("no %q in %q", text, got)
				}
			}
			if got := fourLetterCommands["dump"](s); !strings.HasPrefix(got, "Sessions dump (1):\n0x") || !strings.HasSuffix(got, ":\n\t/e\n") {
				t.Error(got)
			}
		})
	}
}
