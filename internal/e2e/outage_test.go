//go:build unix

package e2e

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/zktest"
)

var outages = flag.Int("outages", 0, "number of holders of locks that lose their connection for a moment; no command may notice; 0: four of each kind")

// A server that is unreachable for a moment, as during a restart, costs no holder its lock,
// whether the lease has much or little time left. At its shortest, right before a renewal, a
// command has 5/16 of the session timeout minus one hundredth, minus the time to terminate it
// (one eighth and 200 ms): 0.87 s of 6 s, or 1.57 s of 10 s.
func TestOutageKeepsTheCommand(t *testing.T) {
	t.Parallel()
	servers := zktest.Ensemble(t, 3, zktest.Heap(64), zktest.Ticks(int(tick.Milliseconds()), 10, syncLimit))
	for _, o := range []outage{
		{timeout: 6 * time.Second, gone: 300 * time.Millisecond},
		{timeout: 10 * time.Second, gone: 1200 * time.Millisecond},
	} {
		t.Run(fmt.Sprintf("%s of %s", o.gone, o.timeout), func(t *testing.T) {
			if *outages > 0 {
				reportAll(t, o.disconnectHolders(t, servers[0].Addr(), *outages))
				return
			}
			t.Parallel()
			noticed := o.disconnectHolders(t, servers[0].Addr(), 4)
			if len(noticed) > 0 { // a busy machine may need more time than such a session leaves
				t.Logf("once more, with sessions that last longer, as: %s", noticed)
				noticed = outage{timeout: 4 * o.timeout, gone: o.gone}.disconnectHolders(t, servers[0].Addr(), 4)
			}
			reportAll(t, noticed)
		})
	}
}

// An outage is a time during which holders of locks have no connection.
type outage struct {
	timeout time.Duration // session timeout of the holders
	gone    time.Duration
}

// disconnectHolders disconnects the given number of holders from one server, each at a different
// time of its lease. It returns the problems that their commands noticed.
func (o outage) disconnectHolders(t *testing.T, server string, holders int) (noticed []string) {
	round := o.timeout * 5 / 16 // time between two renewals of a lease
	proxy := zktest.NewProxy(t, server)
	all := make([]*holder, holders)
	for i := range all {
		begin := time.Now()
		all[i] = startHolder(t, proxy.Addr(), fmt.Sprintf("/outage-%d-%d", begin.UnixNano(), i), o.timeout)
		time.Sleep(time.Until(begin.Add(round / time.Duration(holders)))) // renewals of different holders at different times
	}
	time.Sleep(o.timeout / 2) // until all holders renew their leases regularly
	proxy.Refuse(true)
	proxy.Cut()
	time.Sleep(o.gone)
	proxy.Refuse(false)
	time.Sleep(o.timeout) // the longest time that a lease lasts without a connection
	for i, h := range all {
		if status := h.finish(t); status != commands.StatusOK {
			noticed = append(noticed, fmt.Sprintf("holder %d ends with status %d: %s", i, status, strings.TrimSpace(h.errs.String())))
		}
	}
	t.Logf("%s without the server, sessions of %s: %d of %d commands noticed", o.gone, o.timeout, len(noticed), holders)
	return noticed
}

// A holder is a zksh that runs a command under a lock. The command ends when its input does.
type holder struct {
	cmd  *exec.Cmd
	in   io.Closer
	errs *strings.Builder
}

// startHolder starts a holder and waits until its command runs.
func startHolder(t *testing.T, server, path string, timeout time.Duration) *holder {
	h := &holder{errs: &strings.Builder{}}
	h.cmd = exec.Command("zksh", "-server", server, "-timeout", strconv.FormatInt(timeout.Milliseconds(), 10),
		"lock", path, "--", "sh", "-c", "echo held; exec cat")
	h.cmd.Env, h.cmd.Stderr = homeEnv(t.TempDir()), h.errs
	in, err := h.cmd.StdinPipe()
	zktest.Must(t, err)
	out, err := h.cmd.StdoutPipe()
	zktest.Must(t, err)
	h.in = in
	zktest.Must(t, h.cmd.Start())
	t.Cleanup(func() { _ = h.cmd.Process.Kill() }) // if the test has failed; else it has already ended
	if said, err := bufio.NewReader(out).ReadString('\n'); said != "held\n" {
		t.Fatalf("the command says %q: %v; %s", said, err, h.errs)
	}
	return h
}

// finish ends the command and returns zksh's exit status.
func (h *holder) finish(t *testing.T) int {
	h.in.Close() // already closed if the command has ended
	return exitStatus(t, h.cmd)
}
