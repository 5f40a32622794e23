package zkconn

import (
	"testing"
	"time"
)

// What is known of a connection's answers ends with it.
func TestHeard(t *testing.T) {
	serve := func(_ int, p *remote) { p.host(func(xid, _ int32) bool { return p.reply(xid, codeOK) }) }
	bubble(t, serve, func(t *testing.T, s *Session) {
		pin, err := s.Ensemble().Pin(limited(t))
		if err != nil {
			t.Fatal(err)
		}
		begun := pin.State(time.Now()).Begun
		if sent := pin.State(time.Now()).Sent; !sent.Equal(begun) || begun.IsZero() {
			t.Errorf("begun at %v, heard at first of %v", begun, sent)
		}
		time.Sleep(10 * life)
		asked := time.Now()
		if st := pin.State(asked); asked.Sub(st.Sent) > life/3 || st.Came.Before(st.Sent) || st.Came.After(asked) {
			t.Errorf("the last ping was sent %s ago", asked.Sub(st.Sent))
		}
		if _, err := pin.Children(limited(t), "/"); err != nil {
			t.Fatal(err)
		}
		if sent := pin.State(time.Now()).Sent; !sent.Equal(asked) {
			t.Errorf("heard of %v, want %v", sent, asked)
		}
		if sent := pin.State(asked.Add(-life / 2)).Sent; asked.Sub(sent) < life/2 || asked.Sub(sent) > life {
			t.Errorf("half a session ago: %s", asked.Sub(sent))
		}
		time.Sleep(time.Second)
		if err := s.current().wire.Status().Conn.Close(); err != nil {
			t.Fatal(err)
		}
		if sent := pin.State(time.Now()).Sent; !sent.IsZero() && !sent.After(asked) { // the next one may be there already
			t.Errorf("without the connection: %v, %v", pin.State(time.Now()).Begun, sent)
		}
		if err := pin.Await(limited(t)); err != nil {
			t.Fatal(err)
		}
		again := pin.State(time.Now()).Begun
		if sent := pin.State(time.Now()).Sent; !sent.Equal(again) || !again.After(begun) {
			t.Errorf("the next connection began at %v, heard of %v", again, sent)
		}
	})
}
