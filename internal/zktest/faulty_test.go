package zktest

import (
	"net"
	"testing"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/sandbox/rawzk"
)

// rawSession opens or resumes a session without a client library.
func rawSession(t *testing.T, addr string, s rawzk.Session) (*rawzk.Conn, error) {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	Must(t, err)
	t.Cleanup(func() { _ = nc.Close() })
	s.Timeout = 10000
	return rawzk.Connect(nc, s, 0)
}

func TestFaultyReconnects(t *testing.T) {
	for mode, want := range map[string]struct{ same, there bool }{
		"newid": {}, "newidkeep": {there: true}, "expired": {same: true, there: true}, "clickhouse": {}, "raftkeeper": {true, true},
	} {
		box := Faulty(t, mode)
		c, err := rawSession(t, box.Addr(), rawzk.Session{})
		Must(t, err)
		if _, err := c.Call(jute.OpCreate, rawzk.Create("/e", nil, rawzk.Open, 1)); err != nil {
			t.Fatal(err)
		}
		box.Cut()
		again, err := rawSession(t, box.Addr(), c.Session)
		Must(t, err)
		if same := again.Session.ID == c.Session.ID; same != want.same || (again.Session.Timeout == -1) != (mode == "expired") {
			t.Errorf("%s: %x after %x, timeout %d", mode, again.Session.ID, c.Session.ID, again.Session.Timeout)
		}
		other, err := rawSession(t, box.Addr(), rawzk.Session{})
		Must(t, err)
		frames, err := other.Call(jute.OpExists, rawzk.PathWatch("/e", false))
		if err != nil || (frames[0].Err == 0) != want.there {
			t.Errorf("%s: the ephemeral znode: %v, %v", mode, frames, err)
		}
	}
}

func TestFaultyAnswers(t *testing.T) {
	exists, multi := rawzk.PathWatch("/", false), rawzk.Multi(rawzk.Op{Op: jute.OpCheck, Body: rawzk.PathInt("/", -1)})
	for mode, want := range map[string]string{"code:-4": "-4", "hangop:3": "hung up", "hangop:4,5": "0", "moved": "0 -118", "ignore:3": "ignored"} {
		c, err := rawSession(t, Faulty(t, mode).Addr(), rawzk.Session{})
		Must(t, err)
		op, body := int32(jute.OpExists), exists
		if mode == "moved" {
			op, body = jute.OpMulti, multi
		}
		got := ""
		Must(t, c.Send(7, op, body))
		Must(t, c.Ping())
		switch f, err := c.Recv(); {
		case err != nil:
			got = "hung up"
		case f.Xid == jute.XidPing:
			got = "ignored"
		case f.Err != 0:
			got = "-4"
		default:
			got = "0"
			if d := jute.NewDecoder(f.Body); mode == "moved" && d.Int() == -1 && !d.Bool() && d.Int() == -118 {
				got = "0 -118"
			}
		}
		if got != want {
			t.Errorf("%s: %s, want %s", mode, got, want)
		}
	}
	c, err := rawSession(t, Faulty(t, "pings").Addr(), rawzk.Session{})
	Must(t, err)
	Must(t, c.Send(7, jute.OpExists, exists))
	Must(t, c.Ping())
	if f, err := c.Recv(); err != nil || f.Xid != jute.XidPing {
		t.Errorf("pings: %v, %v", f, err)
	}
	if c, err := rawSession(t, Faulty(t, "leaderless").Addr(), rawzk.Session{}); err == nil && c.Session.ID != 0 {
		t.Errorf("a session without a leader: %v", c.Session)
	}
}
