package transfer_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/internal/zktree"
)

// TestMirrorFollows has a mirror go on while the source changes and connections break. In
// the end both are the same.
func TestMirrorFollows(t *testing.T) {
	here, there := zktest.Sandbox(t, sandbox.Options{}).Addr(), zktest.Sandbox(t, sandbox.Options{}).Addr()
	src, dst := zktest.NewProxy(t, here), zktest.NewProxy(t, there)
	s, other := open(t, here), open(t, there)
	put(t, s, public(1, "/m"))
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	mirror := open(t, src.Addr())
	wg.Go(func() { run(ctx, mirror, "mirror --watch /m "+dst.Addr()+":/m") })
	defer wg.Wait()
	defer stop()
	same := func() bool { return alike(t, s, other, "/m") }
	zktest.Eventually(t, "the first pass", same)
	for round := range 12 {
		root := fmt.Sprint("/m/round", round)
		put(t, s, public(uint64(round), root))
		switch round % 3 {
		case 1:
			src.Cut()
		case 2:
			dst.Cut()
		}
		if _, err := zktree.Delete(t.Context(), s.Client, fmt.Sprint("/m/round", round-2), 100, nil); err != nil && round > 1 {
			t.Fatal(err)
		}
		for i := range 20 {
			if _, err := s.Set(t.Context(), root, []byte(fmt.Sprint(i)), -1); err != nil {
				t.Fatal(err)
			}
		}
		zktest.Eventually(t, fmt.Sprint("round ", round), same)
	}
}

// What is a server's own is not mirrored to another, also if it changes while all else is.
func TestMirrorOfARoot(t *testing.T) {
	here, there := zktest.Sandbox(t, sandbox.Options{}).Addr(), zktest.Sandbox(t, sandbox.Options{}).Addr()
	s, other := open(t, here), open(t, there)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	mirror := open(t, here)
	wg.Go(func() { run(ctx, mirror, "mirror --watch / "+there+":/") })
	defer wg.Wait()
	defer stop()
	for _, path := range []string{"/first", "/zookeeper/quota/first", "/zookeeper/quota/first/zookeeper_limits", "/last"} {
		if _, err := s.Create(t.Context(), path, []byte("count=9,bytes=-1"), zkconn.OpenACL(), zkconn.CreateMode{}); err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(path, "/zookeeper") {
			continue
		}
		zktest.Eventually(t, path+" is mirrored", func() bool { // the events come in order
			_, err := other.Exists(t.Context(), path, false)
			return err == nil
		})
	}
	if names, _, err := other.Children(t.Context(), "/zookeeper/quota", false); err != nil || len(names) > 0 {
		t.Errorf("%q, %v", names, err)
	}
}

// alike tells whether a tree is the same on two servers.
func alike(t *testing.T, s, other *zkconn.Session, root string) bool {
	t.Helper()
	for range zktree.Compare(zktree.ServerTree(t.Context(), s.Client, root, nil), zktree.ServerTree(t.Context(), other.Client, root, nil)) {
		return false
	}
	return true
}
