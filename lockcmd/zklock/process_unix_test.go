//go:build unix

package zklock_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/zksh/zksh/lockcmd/zklock"
)

// CASES.md, case 21 (trap 18): the holder's process is stopped for longer than its session
// lasts. It cannot know that, but its write is rejected because the write checks the znode.
func TestPausedHolder(t *testing.T) {
	t.Parallel()
	s := sharedScene(t)
	defer s.finish()
	h := s.holderProcess(6 * time.Second)
	b := s.simpleActor()
	w := b.queue(zklock.Exclusive)
	h.signal(syscall.SIGSTOP)
	lease := w.awaitLease()
	if lease.Token() <= h.token {
		t.Errorf("fence %#x comes after %#x", lease.Token(), h.token)
	}
	h.signal(syscall.SIGCONT)
	if said := h.readLine("lost"); said == "lost <nil>" || s.exists(s.path+"/written") {
		t.Errorf("the paused process says %q", said)
	}
	b.release(lease)
}
