package lockcmd

import (
	"strings"
	"testing"

	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
)

// revoke and unlock --force also accept a semaphore's lease, which is not a child of the
// lock's znode.
func TestRevokeLease(t *testing.T) {
	onBoth(t, func(t *testing.T, addr string) {
		b := newFixture(t, addr)
		b.persistent("/leases", "")
		b.persistent("/locks", "")
		lease := "leases/" + uuid + "-lease-0000000001"
		b.addContenders(lease)
		st := newTestEnv(b.Session, render.Text)
		zktest.Must(t, revoke(zktest.Within(t), &st.Env, []string{b.root}))
		node, err := zkconn.Do(zktest.Within(t), b, zkconn.GetData(b.root+"/"+lease))
		if string(node.Data) != "__REVOKE__" || err != nil {
			t.Errorf("%q, %v", node.Data, err)
		}
		zktest.Must(t, New().force(zktest.Within(t), &st.Env, b.root, "1"))
		want := "asked for the release of " + b.root + "/" + lease + "\nremoved " + b.root + "/" + lease + " (release requested)\n"
		if st.Printed() != want || !b.queue().Free() {
			t.Errorf("%q, want %q", st.Printed(), want)
		}
	})
}

// revoke sends a request to the holder of the lock, which reports who asks.
func TestRevokeHolder(t *testing.T) {
	b := newFixture(t, zktest.Shared(t).Addr())
	st := newTestEnv(b.Session, render.Text)
	table := New()
	var lock lockFlags
	lock.family = string(lockKinds[0].family)
	zktest.Must(t, table.lockAndRun(zktest.Within(t), &st.Env, lockKinds[0], &lock, b.root, nil))
	zktest.Must(t, revoke(zktest.Within(t), &st.Env, []string{b.root}))
	zktest.Eventually(t, "the holder is told", func() bool { return strings.Contains(st.Alerts(), "asks you to release it") })
	if _, err := table.Release(zktest.Within(t)); err != nil {
		t.Error(err)
	}
}
