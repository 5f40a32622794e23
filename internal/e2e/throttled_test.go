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

	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/shell"
)

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
