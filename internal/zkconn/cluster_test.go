package zkconn_test

import (
	"errors"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/internal/zktest/zksession"
)

// With WritesNever, no sender sends a request that writes.
func TestNoWrites(t *testing.T) {
	box := zktest.Sandbox(t, sandbox.Options{})
	s := zksession.Open(t, zkconn.Config{Servers: box.Addr(), Timeout: zktest.Patience, Writes: zkconn.WritesNever})
	for i, w := range allWrites(s, "/x") {
		if _, err := w(zktest.Within(t)); !errors.Is(err, zkconn.ErrNoWrites) {
			t.Errorf("write %d: %v", i, err)
		}
	}
	pin, err := s.Ensemble().Pin(zktest.Within(t))
	zktest.Must(t, err)
	made := &zk.CreateRequest{Path: "/lock", Acl: zkconn.OpenACL()}
	if _, _, _, err := pin.CreateAndList(zktest.Within(t), made, "/"); !errors.Is(err, zkconn.ErrNoWrites) {
		t.Errorf("the znode of a lock: %v", err)
	}
	if list, err := zkconn.Do(zktest.Within(t), s, zkconn.List("/")); err != nil || len(list.Names) != 1 {
		t.Errorf("there is %v, %v", list.Names, err)
	}
}
