package zkconn

import (
	"testing"
	"time"

	"github.com/zksh/zksh/internal/zktest"
)

// A Pinned's State describes the answers of the current connection only.
func TestPinnedState(t *testing.T) {
	serve := func(_ int, p *remote) { p.host(func(xid, _ int32) bool { return p.reply(xid, codeOK) }) }
	bubble(t, serve, func(t *testing.T, s *Session) {
		pin, err := s.Ensemble().Pin(testContext(t))
		zktest.Must(t, err)
		begun := pin.State(time.Now()).Begun
		if sent := pin.State(time.Now()).Sent; !sent.Equal(begun) || begun.IsZero() {
			t.Errorf("begun at %v, heard at first of %v", begun, sent)
		}
		time.Sleep(10 * sessionTimeout)
		asked := time.Now()
		if st := pin.State(asked); asked.Sub(st.Sent) > sessionTimeout/3 || st.Came.Before(st.Sent) || st.Came.After(asked) {
			t.Errorf("the last ping was sent %s ago", asked.Sub(st.Sent))
		}
		if _, err := pin.Children(testContext(t), "/", nil); err != nil {
			t.Fatal(err)
		}
		if sent := pin.State(time.Now()).Sent; !sent.Equal(asked) {
			t.Errorf("heard of %v, want %v", sent, asked)
		}
		if sent := pin.State(asked.Add(-sessionTimeout / 2)).Sent; asked.Sub(sent) < sessionTimeout/2 || asked.Sub(sent) > sessionTimeout {
			t.Errorf("half a session ago: %s", asked.Sub(sent))
		}
		time.Sleep(time.Second)
		zktest.Must(t, s.current().wire.Status().Conn.Close())
		if sent := pin.State(time.Now()).Sent; !sent.IsZero() && !sent.After(asked) { // the next connection may already exist
			t.Errorf("without the connection: %v, %v", pin.State(time.Now()).Begun, sent)
		}
		zktest.Must(t, pin.Await(testContext(t)))
		again := pin.State(time.Now()).Begun
		if sent := pin.State(time.Now()).Sent; !sent.Equal(again) || !again.After(begun) {
			t.Errorf("the next connection began at %v, heard of %v", again, sent)
		}
	})
}
