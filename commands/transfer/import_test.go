package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/commands/commandtest"
	"github.com/zksh/zksh/commands/transfer"
	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/internal/zktree"
)

// A subtree that is exported and imported again is unchanged, on the sandbox and on a real server.
func TestRoundTrips(t *testing.T) {
	for seed, addr := range []string{zktest.Shared(t).Addr(), zktest.Sandbox(t, sandbox.Options{}).Addr(),
		zktest.Sandbox(t, sandbox.Options{As: "3.4"}).Addr()} {
		s := open(t, addr)
		tree := randomTree(rand.New(rand.NewPCG(uint64(seed), 7)), "/t", 60)
		big := &dump.Znode{Path: "/t/~big", ACL: anyone, Data: bytes.Repeat([]byte{0, 1, 0xfe, '"'}, 1_000_000/4)}
		tree = append(tree, big)
		slices.SortFunc(tree, func(a, b *dump.Znode) int { return dump.InOrder(a.Path, b.Path) })
		putTree(t, s, tree)
		file := filepath.Join(t.TempDir(), "dump")
		must(t, addr, fmt.Sprintf("addauth digest u:p\nexport -R /t %s\ndeleteall /t\nimport -R %s", file, file))
		if d := firstDifference(t, tree, s, "/t"); d != "" {
			t.Errorf("%.300s", d)
		}
		if seed > 0 {
			continue
		}
		// A second import finds nothing to do.
		if got := must(t, addr, fmt.Sprintf("import -R --prune -n %s", file)); got != "" {
			t.Errorf("there is something to do: %s", got)
		}
	}
}

// import --prune makes any subtree equal to the file, even after --skip and --overwrite.
func TestImportOver(t *testing.T) {
	addr := zktest.Sandbox(t, sandbox.Options{}).Addr()
	s := open(t, addr)
	file := filepath.Join(t.TempDir(), "dump.gz")
	for seed := range uint64(8) {
		root := fmt.Sprint("/t", seed)
		model := randomTree(rand.New(rand.NewPCG(seed, 2)), root, 40)
		putTree(t, s, model)
		must(t, addr, "export -R "+root+" "+file+"\ndeleteall "+root)
		putTree(t, s, randomTree(rand.New(rand.NewPCG(seed, 1)), root, 40))
		must(t, addr, "import -R --skip "+file)
		must(t, addr, "import -R --overwrite "+file)
		must(t, addr, "import -R --prune "+file)
		if d := firstDifference(t, model, s, root); d != "" {
			t.Errorf("seed %d: %s", seed, d)
		}
	}
}

var errStopped = errors.New("stopped by the test")

// An interrupted import can be completed with --skip, and its error says so.
func TestImportBrokenOff(t *testing.T) {
	addr := zktest.Sandbox(t, sandbox.Options{}).Addr()
	s := open(t, addr)
	tree := []*dump.Znode{{Path: "/t", ACL: anyone}}
	for i := range 3000 { // several times as many as can be in flight
		tree = append(tree, &dump.Znode{Path: fmt.Sprintf("/t/n%05d", i), ACL: anyone, Data: bytes.Repeat([]byte{'x'}, 3000)})
	}
	putTree(t, s, tree)
	copying, halt := context.WithCancelCause(t.Context())
	err := runCommand(copying, s, &interruptingScreen{left: 2, cancel: func() { halt(errStopped) }}, "cp", "-R", "/t", "/copy")
	if !errors.Is(err, errStopped) || !strings.HasSuffix(err.Error(), "; to copy the rest, run: cp -R --skip") {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "dump")
	must(t, addr, "export -R /t "+file+"\ndeleteall /t")
	ctx, stop := context.WithCancelCause(t.Context())
	screen := &interruptingScreen{left: 2, cancel: func() { stop(errStopped) }}
	err = runCommand(ctx, s, screen, "import", "-R", file)
	if !errors.Is(err, errStopped) || !strings.Contains(err.Error(), "to import the rest, run: import -R --skip") {
		t.Fatal(err)
	}
	list, err := zkconn.Do(t.Context(), s, zkconn.List("/t"))
	if err != nil || len(list.Names) == 0 || len(list.Names) >= 3000 {
		t.Fatalf("%d are there: %v", len(list.Names), err)
	}
	must(t, addr, "import -R --skip "+file)
	if d := firstDifference(t, tree, s, "/t"); d != "" {
		t.Error(d)
	}
	// An interrupted export leaves no file behind.
	ctx, stop = context.WithCancelCause(t.Context())
	left := filepath.Join(t.TempDir(), "half")
	if err := runCommand(ctx, s, &interruptingScreen{left: 5, cancel: func() { stop(errStopped) }}, "export", "-R", "/t", left); !errors.Is(err, errStopped) {
		t.Error(err)
	}
	if found, err := filepath.Glob(filepath.Join(filepath.Dir(left), "*")); err != nil || len(found) > 0 {
		t.Errorf("%v, %v", found, err)
	}
}

// runCommand runs a single command.
func runCommand(ctx context.Context, s *zkconn.Session, screen commands.Screen, words ...string) error {
	for _, c := range transfer.Commands() {
		if c.Name == words[0] {
			return commandtest.Run(ctx, c, &commands.Env{Session: s, Screen: screen}, words[1:]...)
		}
	}
	return errors.New("there is no such command")
}

// An export of a subtree that changes meanwhile can be read.
func TestExportWhileItChanges(t *testing.T) {
	addr := zktest.Sandbox(t, sandbox.Options{}).Addr()
	s := open(t, addr)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { // ends with stop
		defer close(done)
		for i := 0; ctx.Err() == nil; i++ {
			dir := fmt.Sprintf("/t/d%d", i%5)
			for _, path := range []string{"/t", dir, dir + "/x", dir + "/x/y"} {
				_, _ = zkconn.Do(ctx, s, zkconn.Create(path, []byte("data"), anyone, zkconn.CreateMode{})) // may fail, because znodes come and go
			}
			_, _ = zktree.Delete(ctx, s.Client, dir, 10, nil, nil)
		}
	}()
	zktest.Eventually(t, "a tree is there", func() bool {
		err := zkconn.Exec(t.Context(), s, zkconn.Exists("/t"))
		return err == nil
	})
	file := filepath.Join(t.TempDir(), "dump")
	for range 50 {
		must(t, addr, "export -R /t "+file)
		tree, err := dump.Open(t.Context(), file)
		zktest.Must(t, err)
		zktest.Check(t, tree.Close())
	}
	stop()
	<-done
}
