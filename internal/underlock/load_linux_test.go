package underlock

import (
	"context"
	"flag"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/zktest"
)

var loadedRuns = flag.Int("loaded", 9, "number of commands of TestRenewedInTime; 500 in make full")

const (
	loadedAtOnce = 12               // number of commands that run at the same time
	loadTimeout  = 10 * time.Second // session timeout; a lease has at least 5/16 of it left
	loadLasts    = 5 * time.Second  // time that a command lasts, with at least one renewal of the lease
	pauseTime    = time.Second      // shorter than the time that a lease has left, less the time for killing
)

// No command is terminated although its lease was renewed in time: on a busy machine, after zksh and
// the keeper were stopped for a moment, and while the keeper is stopped again and again, so that old
// and new leases arrive together.
//
// With more than a hundred runs, 20 busy processes compete for the processor.
func TestRenewedInTime(t *testing.T) {
	t.Parallel()
	zksh, world := needPrograms(t)
	busy := 4
	if *loadedRuns > 100 {
		busy = 20
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	for range busy {
		cmd := zktest.Command(ctx, t, "sh", "-c", "while :; do :; done")
		zktest.Must(t, cmd.Start())
		defer func() { _ = cmd.Wait() }() // was killed
	}
	defer stop() // runs before the calls of Wait
	server := newServer(t)
	turns := make(chan struct{}, loadedAtOnce)
	t.Run("run", func(t *testing.T) {
		for number := range *loadedRuns {
			t.Run(fmt.Sprint(number), func(t *testing.T) {
				t.Parallel()
				turns <- struct{}{}
				defer func() { <-turns }()
				c := &trial{
					t: t, zksh: zksh, world: world, event: normalEnd, timeout: loadTimeout, lasts: loadLasts, status: 7,
					disturb: []func(*trial){nil, pauseBoth, pauseKeeper}[number%3],
				}
				if c.run(server); c.overdue {
					t.Log("the machine was too slow; the lease was not renewed in time")
				}
			})
		}
	})
}

// pauseBoth stops zksh and the keeper for a moment.
func pauseBoth(c *trial) {
	both := []int{c.cmd.Process.Pid, c.keeper()}
	for _, pid := range both {
		c.signal(pid, syscall.SIGSTOP)
	}
	<-time.After(pauseTime)
	for _, pid := range both {
		c.signal(pid, syscall.SIGCONT)
	}
}

// pauseKeeper stops the keeper again and again. zksh continues it from time to time.
func pauseKeeper(c *trial) {
	keeper := c.keeper()
	ctx, stop := context.WithTimeout(c.t.Context(), 3*pauseTime)
	defer stop()
	until(ctx, func() bool {
		c.signal(keeper, syscall.SIGSTOP)
		return isClosed(c.ended)
	})
	c.signal(keeper, syscall.SIGCONT)
}
