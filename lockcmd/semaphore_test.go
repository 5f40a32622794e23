package lockcmd

import (
	"context"
	"strings"
	"testing"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/commands/commandtest"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
)

// lock runs the command lock at the prompt.
func (b *fixture) lock(ctx context.Context, args ...string) error {
	st := newTestEnv(open(b.t, b.addr, usualTimeout), render.Text)
	st.Mode = commands.ByHand
	table := New()
	defer table.Release(context.Background())
	return commandtest.Run(ctx, table.Commands()[0], &st.Env, args...)
}

// Leases under another number of leases are rejected, also those that were acquired while the
// client waited.
func TestOtherNumberOfLeases(t *testing.T) {
	onBoth(t, func(t *testing.T, addr string) {
		b := newFixture(t, addr)
		b.persistent("/leases", "")
		b.persistent("/locks", "")
		other := func(number string) {
			b.create(b.Session, "/leases/"+uuid+"-lease-"+number, `{"host":"h","pid":7,"leases":2}`, zkconn.OpenACL(), true)
		}
		check := func(when string, err error) {
			t.Helper()
			if err == nil || !strings.Contains(err.Error(), "-c 3 does not match the leases that clients hold: h pid 7 (") || !strings.Contains(err.Error(), "uses -c 2") {
				t.Errorf("%s: %v", when, err)
			}
			if got := b.queue(); len(got.Contenders) != 1 {
				t.Errorf("%s: there are %s", when, brief(got))
			}
		}
		other("0000000005")
		check("before", b.lock(zktest.Within(t), "-c", "3", b.root))
		if err := b.lock(zktest.Within(t), "-c", "2", b.root); err != nil {
			t.Errorf("with the same number: %v", err)
		}
		b.remove("leases/" + uuid + "-lease-0000000005")

		const mutex = "/locks/" + uuid + "-lock-0000000000"
		b.create(b.Session, mutex, "", zkconn.OpenACL(), true)
		done := make(chan error, 1)
		go func() { done <- b.lock(zktest.Within(t), "-c", "3", b.root) }() // ends soon after the mutex is free
		zktest.Eventually(t, "it waits", func() bool { return len(b.queue().Contenders) == 2 })
		other("0000000000")
		b.remove(mutex[1:])
		check("during the wait", <-done)
	})
}
