//go:build unix

package e2e

import (
	"bytes"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/internal/zktest/zksession"
	"github.com/zksh/zksh/shell"
)

// deep is a script of which each line needs the one before.
func deep(lines int) (script string, want string) {
	path := ""
	for i := range lines {
		path += fmt.Sprintf("/n%d", i)
		script += "create " + path + "\n"
		want += "Created " + path + "\n"
	}
	return script, want
}

// A script whose requests are refused for load goes on, in its order, where all that was
// sent behind one was refused as well.
func TestThrottledWindow(t *testing.T) {
	t.Parallel()
	var left atomic.Int32
	box := zktest.Sandbox(t, sandbox.Options{Throttle: func(op int32) bool { return op == jute.OpCreate && left.Add(-1) >= 0 }})
	for _, burst := range []int32{1, 5} {
		root := fmt.Sprintf("/b%d", burst)
		at(t, box.Addr(), "create", root)
		left.Store(burst)
		script, want := deep(40)
		if got := play(t, box.Addr()+root, script, shell.Config{Window: 1}); got.out != want || got.err != "" || got.status != 0 {
			t.Errorf("a window of 1, %d refused: %s", burst, got)
		}
	}
	// All that is under way is refused.
	left.Store(4)
	script, want := deep(40)
	if got := play(t, box.Addr(), script, shell.Config{Window: 64}); got.out != want || got.err != "" || got.status != 0 {
		t.Errorf("a window of 64: %s", got)
	}
}

// Whatever an overloaded server refuses first, lines that do not depend on each other's
// order come to the same as one after the other.
func TestThrottledLinesThatCommute(t *testing.T) {
	t.Parallel()
	var script strings.Builder
	for i := range 400 {
		fmt.Fprintf(&script, "create /n%d x\ncreate /n%d/a\nset /n%d y\n", i, i, i+1000)
	}
	for _, every := range []int64{2, 7} {
		var seen, refused atomic.Int64
		throttle := func(int32) bool {
			n := seen.Add(1)
			some := n < 300 && n%every == 0
			if some {
				refused.Add(1)
			}
			return some
		}
		var alone played
		for _, window := range []int{1, 64, 256} {
			seen.Store(0)
			box := zktest.Sandbox(t, sandbox.Options{Throttle: throttle})
			got := play(t, box.Addr(), script.String(), shell.Config{Window: window})
			if window == 1 {
				alone = got
			} else if got != alone {
				t.Errorf("each %d refused, window 1 and %d:\n%s", every, window, cmp.Diff(alone.String(), got.String()))
			}
		}
		if refused.Load() < 30 || strings.Count(alone.out, "Created ") != 800 {
			t.Errorf("%d refused: %s", refused.Load(), alone)
		}
	}
}

// A line behind which another has been carried out that concerns the same znode is not
// sent again: it fails, and the order of the others holds.
func TestThrottledInTheMiddleOfAWindow(t *testing.T) {
	t.Parallel()
	var seen atomic.Int32
	box := zktest.Sandbox(t, sandbox.Options{Throttle: func(op int32) bool {
		n := seen.Load()
		if op == jute.OpSetData {
			n = seen.Add(1)
		}
		return op == jute.OpSetData && n%2 == 1 && n < 8
	}})
	var got played
	path := ""
	for try := 0; try < 20 && got.err == ""; try++ { // a shell that is slow has one line under way
		seen.Store(0)
		path = fmt.Sprintf("/x%d", try)
		script := "create " + path + "\n"
		for i := range 30 {
			script += fmt.Sprintf("set %s %d\n", path, i+1)
		}
		got = play(t, box.Addr(), script, shell.Config{Window: 64})
	}
	if got.status != 1 || strings.Count(got.err, "\n") != strings.Count(got.err, "Op throttled due to high load for "+path+" (zksh did not send the line again, because the later line ") {
		t.Fatal(got)
	}
	client := zksession.Open(t, zkconn.Config{Servers: box.Addr(), Timeout: 30 * time.Second})
	node, err := zkconn.Do(t.Context(), client, zkconn.GetData(path))
	if want := int32(30 - strings.Count(got.err, "\n")); err != nil || string(node.Data) != "30" || node.Stat.Version != want {
		t.Errorf("%s at version %d, want 30 at %d; %v\n%s", node.Data, node.Stat.Version, want, err, got)
	}
	if got.err == "" {
		t.Error("nothing was refused behind another line")
	}
}

// Answers that are written together stay in their place among complaints.
func TestWindowsAgreeOnOrder(t *testing.T) {
	t.Parallel()
	var script strings.Builder
	for i := range 300 {
		fmt.Fprintf(&script, "%s /n%d\n", []string{"create", "get", "delete", "stat", "whoami"}[i*i%5], i%7)
	}
	var alone played
	for _, window := range []int{1, 3, 64, 256} {
		var both bytes.Buffer // the shell's writes come one at a time
		addr := zktest.Sandbox(t, sandbox.Options{Now: func() time.Time { return time.Unix(0, 0) }}).Addr()
		status := playTo(t.Context(), t, addr, strings.NewReader(script.String()), shell.Config{Window: window}, &both, &both)
		got := played{both.String(), "", status}.without(addr)
		if window == 1 {
			alone = got
		} else if got != alone {
			t.Errorf("window 1 and %d:\n%s", window, cmp.Diff(alone.String(), got.String()))
		}
	}
	if strings.Count(alone.out, "Created ") == 0 || strings.Count(alone.out, "script:") < 100 {
		t.Errorf("the script shows too little:\n%s", alone.out)
	}
}
