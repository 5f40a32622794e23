package zkconn

import (
	"errors"
	"math"
	"testing"
	"time"
)

// If a server grants a session timeout of 24 days and then answers nothing, or only pings,
// requests still fail after the timeout that the client asked for.
func TestPatienceIgnoresGrantedTimeout(t *testing.T) {
	for name, pings := range map[string]bool{"silent": false, "pings": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(_ int, p *remote) {
				if !p.greet(7, math.MaxInt32) {
					return
				}
				for {
					xid, _, ok := p.request()
					if !ok || pings && xid == -2 && !p.reply(xid, codeOK) {
						return
					}
				}
			}, func(t *testing.T, s *Session) {
				begin := time.Now()
				err := Exec(t.Context(), s, Exists("/x"))
				if took := time.Since(begin); !errors.Is(err, ConnectionLoss) || took > sessionTimeout+sessionTimeout/2 {
					t.Errorf("%v after %s", err, took)
				}
				if i := s.Info(); i.Timeout != math.MaxInt32*time.Millisecond || i.Patience != sessionTimeout {
					t.Errorf("%+v", i)
				}
			})
		})
	}
}
