//go:build unix

package e2e

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zktest"
)

// waitForRequest waits until a request with this opcode has passed the proxy.
func waitForRequest(t *testing.T, p *zktest.Proxy, op int32) {
	t.Helper()
	zktest.Eventually(t, "the request", func() bool { return slices.Contains(p.Requests(), op) })
}

// wait continues through connection losses and expiries, and finds the changes made meanwhile.
func TestWaitContinues(t *testing.T) {
	t.Parallel()
	for _, fault := range []string{"none", "cut", "away", "expired"} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			waitThroughFault(t, fault)
		})
	}
}

func waitThroughFault(t *testing.T, fault string) {
	box := zktest.Sandbox(t, sandbox.Options{})
	proxy := zktest.NewProxy(t, box.Addr())
	for i, c := range []struct {
		words  []string
		op     int32
		before string
		change string
	}{
		{[]string{}, jute.OpExists, "", "create %s"},
		{[]string{"--gone"}, jute.OpExists, "create %s", "delete %s"},
		{[]string{"--value", "new"}, jute.OpGetData, "create %s old", "set %s new"},
		{[]string{"--value", "new"}, jute.OpExists, "", "create %s new"},
		{[]string{"--children", "1"}, jute.OpGetChildren, "create %s", "create %s/one"},
	} {
		path := fmt.Sprintf("/%d", i)
		do := func(line string) {
			if line != "" {
				runAt(t, box.Addr(), strings.Fields(fmt.Sprintf(line, path))...)
			}
		}
		do(c.before)
		proxy.Requests()
		p := openPipeline(t, append([]string{"-server", proxy.Addr(), "wait", path}, c.words...)...)
		waitForRequest(t, proxy, c.op)
		switch fault {
		case "cut":
			proxy.Cut()
		case "away":
			proxy.Refuse(true)
			proxy.Cut()
		case "expired":
			expireAll(t, box)
		}
		do(c.change)
		proxy.Refuse(false)
		wantExit(t, p.cmd, 0)
		if p.errs.String() != "" {
			t.Errorf("wait %s %v: %s", path, c.words, p.errs.String())
		}
	}
}

// wait does not poll: it reads the znode once at the beginning and once after each change.
func TestWaitDoesNotPoll(t *testing.T) {
	t.Parallel()
	box := zktest.Sandbox(t, sandbox.Options{})
	proxy := zktest.NewProxy(t, box.Addr())
	runAt(t, box.Addr(), "create", "/x", "0")
	p := openPipeline(t, "-server", proxy.Addr(), "wait", "--value", "3", "/x")
	var all []int32
	gets := func() int {
		all = append(all, proxy.Requests()...)
		return len(slices.DeleteFunc(slices.Clone(all), func(op int32) bool { return op != jute.OpGetData }))
	}
	for i := range 3 {
		zktest.Eventually(t, "it has looked", func() bool { return gets() == i+1 && watchCount(t, box.Addr()) > 0 })
		runAt(t, box.Addr(), "set", "/x", fmt.Sprint(i+1))
	}
	wantExit(t, p.cmd, 0)
	gets()
	all = slices.DeleteFunc(all, func(op int32) bool { return op == jute.OpPing })
	if want := []int32{jute.OpGetData, jute.OpGetData, jute.OpGetData, jute.OpGetData, jute.OpCloseSession}; !slices.Equal(all, want) {
		t.Errorf("asked %v, want %v", all, want)
	}
	// While nothing changes, zksh sends only pings.
	p = openPipeline(t, "-server", proxy.Addr(), "-timeout", "12000", "wait", "/y") // a ping every 4 s
	waitForRequest(t, proxy, jute.OpExists)
	pings := 0
	zktest.Eventually(t, "pings", func() bool {
		for _, op := range proxy.Requests() {
			if op != jute.OpPing {
				t.Errorf("asked %d", op)
			}
			pings++
		}
		return pings > 1
	})
	zktest.Must(t, p.cmd.Process.Signal(os.Interrupt))
	wantExit(t, p.cmd, 130)
}
