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

// nestedCreates returns a script in which each line depends on the line before, and its output.
func nestedCreates(lines int) (script string, want string) {
	path := ""
	for i := range lines {
		path += fmt.Sprintf("/n%d", i)
		script += "create " + path + "\n"
		want += "Created " + path + "\n"
	}
	return script, want
}

// If an overloaded server rejects a request and all later requests of the script, zksh sends the
// lines again in order.
func TestThrottledWindow(t *testing.T) {
	t.Parallel()
	var left atomic.Int32
	box := zktest.Sandbox(t, sandbox.Options{Throttle: func(op int32) bool { return op == jute.OpCreate && left.Add(-1) >= 0 }})
	for _, burst := range []int32{1, 5} {
		root := fmt.Sprintf("/b%d", burst)
		runAt(t, box.Addr(), "create", root)
		left.Store(burst)
		script, want := nestedCreates(40)
		if got := runScript(t, box.Addr()+root, script, shell.Config{Window: 1}); got.out != want || got.err != "" || got.status != 0 {
			t.Errorf("a window of 1, %d refused: %s", burst, got)
		}
	}
	// The server rejects all requests in flight.
	left.Store(4)
	script, want := nestedCreates(40)
	if got := runScript(t, box.Addr(), script, shell.Config{Window: 64}); got.out != want || got.err != "" || got.status != 0 {
		t.Errorf("a window of 64: %s", got)
	}
}

// Lines that do not depend on each other's order have the same result as when they run one after
// the other, whichever requests an overloaded server rejects first.
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
		var alone scriptResult
		for _, window := range []int{1, 64, 256} {
			seen.Store(0)
			box := zktest.Sandbox(t, sandbox.Options{Throttle: throttle})
			got := runScript(t, box.Addr(), script.String(), shell.Config{Window: window})
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

// zksh does not repeat a rejected line if a later line on the same znode was already executed:
// the rejected line fails, and the other lines keep their order.
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
	var got scriptResult
	path := ""
	for try := 0; try < 20 && got.err == ""; try++ { // a slow shell may have only one line in flight
		seen.Store(0)
		path = fmt.Sprintf("/x%d", try)
		script := "create " + path + "\n"
		for i := range 30 {
			script += fmt.Sprintf("set %s %d\n", path, i+1)
		}
		got = runScript(t, box.Addr(), script, shell.Config{Window: 64})
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

// Answers that are written together keep their order relative to error messages.
func TestWindowsAgreeOnOrder(t *testing.T) {
	t.Parallel()
	var script strings.Builder
	for i := range 300 {
		fmt.Fprintf(&script, "%s /n%d\n", []string{"create", "get", "delete", "stat", "whoami"}[i*i%5], i%7)
	}
	var alone scriptResult
	for _, window := range []int{1, 3, 64, 256} {
		var both bytes.Buffer // needs no lock, because the shell makes one write at a time
		addr := zktest.Sandbox(t, sandbox.Options{Now: func() time.Time { return time.Unix(0, 0) }}).Addr()
		status := runScriptTo(t.Context(), t, addr, strings.NewReader(script.String()), shell.Config{Window: window}, &both, &both)
		got := scriptResult{both.String(), "", status}.normalized(addr)
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
