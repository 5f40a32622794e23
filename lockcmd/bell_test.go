package lockcmd

import (
	"testing"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/commands/commandtest"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zktest"
)

// zksh rings the bell when a lock is granted after a long wait, and only then.
func TestBell(t *testing.T) {
	b := newFixture(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
	defer func(d time.Duration) { bellAfter = d }(bellAfter)
	for _, c := range []struct {
		after time.Duration
		bells int
	}{{time.Hour, 0}, {-1, 1}} {
		bellAfter = c.after
		st := newTestEnv(b.Session, render.Text)
		st.Env.Mode = commands.ByHand
		for _, command := range New().Commands() {
			if command.Name == "lock" || command.Name == "unlock" {
				zktest.Must(t, commandtest.Run(zktest.Within(t), command, &st.Env, b.root))
			}
		}
		if st.Bells() != c.bells {
			t.Errorf("after %v: %d bells, want %d", c.after, st.Bells(), c.bells)
		}
	}
}
