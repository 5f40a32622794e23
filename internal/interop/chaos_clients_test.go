//go:build linux

package interop

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/zksh/zksh/internal/zktest"
)

// A chaosClient is a client that takes a lock again and again. Each run of its program is a
// trip. It connects to the servers through its own proxies.
type chaosClient struct {
	chaos        *chaos
	oracle       *oracle
	mode         mode
	name         string
	proxies      []*zktest.Proxy
	rand         *rand.Rand // used only by the goroutine of run
	sectionCount int        // number of sections begun so far
	trip         func(z *chaosClient, final bool) (held bool)
	neverStopped bool        // the client is never stopped by SIGSTOP
	faulty       atomic.Bool // a fault of this client has not been repaired yet
	done         atomic.Bool

	mu          sync.Mutex
	currentTrip *trip       // nil between trips
	process     *os.Process // process of the trip or the driver, or nil
	driver      *driver     // driver of Curator or kazoo, or nil
}

// run makes trips until the faults are repaired, and then repeats the final trip until the
// client has had the lock.
func (z *chaosClient) run() {
	defer z.done.Store(true)
	for final := false; !final; {
		select {
		case <-z.chaos.repaired:
			final = true
		default:
			z.trip(z, false)
		}
	}
	for range 20 { // one final trip is enough unless the machine is very busy
		if z.trip(z, true) {
			return
		}
	}
	z.chaos.t.Errorf("%s does not get the lock any more", z.name)
}

// section returns the client's next section.
func (z *chaosClient) section() section {
	z.sectionCount++
	return section{z.name, z.sectionCount}
}

// mark returns the value of markName in the environment of the client's processes.
func (z *chaosClient) mark() string { return z.oracle.dir + "/" + z.name }

// holdFile returns the path of a file that keeps the client in its section while it exists.
func (z *chaosClient) holdFile() string { return z.oracle.holdFile(z.name) }

// servers returns a connect string with a random server or with all of them.
func (z *chaosClient) servers(all bool) string {
	var addrs []string
	for _, p := range z.proxies {
		addrs = append(addrs, p.Addr())
	}
	if !all {
		return addrs[z.rand.IntN(len(addrs))]
	}
	return strings.Join(addrs, ",")
}

func (z *chaosClient) oneIn(n int) bool { return z.rand.IntN(n) == 0 }

// sectionLength returns a random duration of a section.
func (z *chaosClient) sectionLength(final bool) time.Duration {
	switch {
	case final || z.chaos.faultCtx.Err() != nil:
		return 100 * time.Millisecond
	case z.oneIn(4):
		return randomDuration(z.rand, chaosTimeout/2, 2*longCut)
	}
	return randomDuration(z.rand, 50*time.Millisecond, time.Second)
}

// lockCommand returns the command of zksh that takes the lock.
func (z *chaosClient) lockCommand() []string {
	switch {
	case z.oracle.path == "/alone":
		return []string{"lock"} // excludes Curator's
	case z.oracle.path == "/kazoo":
		return []string{"lock", "--as", "kazoo"}
	case z.oracle.path == "/one":
		return []string{"lock", "-c", "1"} // a semaphore with one lease is an exclusive lock
	case z.mode == shared:
		return []string{"rlock"}
	}
	return []string{"wlock"}
}

// oneShot runs zksh with a single command under the lock.
func (z *chaosClient) oneShot(final bool) (held bool) {
	s := z.section()
	t := &trip{client: z, sections: []section{s}, commandStatus: []int{0, 3, 42}[z.rand.IntN(3)]}
	flags := z.lockCommand()
	flag := func(often int, set *bool, words ...string) {
		if *set = !final && z.oneIn(often); *set {
			flags = append(flags, words...)
		}
	}
	var short, try, wait bool
	flag(2, &short, "-t", "1")
	if flag(12, &try, "-n"); !try {
		flag(6, &wait, "-w", "3")
	}
	t.mayGiveUp = try || wait
	args := append(z.options(final || !z.oneIn(3)), flags...)
	args = append(args, z.oracle.path, "--", "sh")
	args = append(args, z.oracle.witnessArgs(z.chaos.t, s, z.mode, z.sectionLength(final), t.commandStatus, !final && z.oneIn(3))...)
	z.runTrip(t, "", args)
	return z.oracle.saw(s, "end")
}

// batch runs zksh with a script of a few commands under the lock, all in one session.
func (z *chaosClient) batch(final bool) (held bool) {
	t := &trip{client: z}
	var script strings.Builder
	for range 2 + z.rand.IntN(3) {
		s := z.section()
		t.sections = append(t.sections, s)
		words := append(z.lockCommand(), "-t", "1", z.oracle.path, "--", "sh")
		words = append(words, z.oracle.witnessArgs(z.chaos.t, s, z.mode, z.sectionLength(final), 0, z.oneIn(3))...)
		script.WriteString(strings.Join(words, " ") + "\n")
	}
	z.runTrip(t, script.String(), append(z.options(true), "-q"))
	return z.oracle.saw(t.sections[len(t.sections)-1], "end")
}

// options returns the options of zksh before the command.
func (z *chaosClient) options(all bool) []string {
	return []string{"-server", z.servers(all), "-timeout", fmt.Sprint(chaosTimeout.Milliseconds())}
}

// zksh returns a command that runs zksh, for startTrip.
func (z *chaosClient) zksh(args ...string) *exec.Cmd {
	cmd := exec.Command("zksh", args...)
	cmd.Env = append(os.Environ(), "HOME="+z.oracle.dir, "XDG_CONFIG_HOME="+z.oracle.dir, markName+"="+z.mark(), "GOTRACEBACK=all")
	return cmd
}

// runTrip runs zksh until it exits. Standard error is a file, because the command under the
// lock would inherit a pipe and keep it open after the end of zksh.
func (z *chaosClient) runTrip(t *trip, script string, args []string) {
	errs, err := os.CreateTemp(z.oracle.dir, z.name)
	if err != nil {
		z.chaos.t.Error(err)
		return
	}
	defer errs.Close()
	cmd := z.zksh(args...)
	cmd.Stdin, cmd.Stderr = strings.NewReader(script), errs
	if err := z.startTrip(t, cmd); err != nil {
		z.chaos.t.Error(err)
		return
	}
	_ = cmd.Wait() // mismatch checks the status later
	z.finishTrip(t, cmd)
	text, err := os.ReadFile(errs.Name())
	zktest.Check(z.chaos.t, err)
	t.errs = string(text)
}

// startTrip starts the program of a trip.
func (z *chaosClient) startTrip(t *trip, cmd *exec.Cmd) error {
	z.mu.Lock()
	defer z.mu.Unlock()
	if err := cmd.Start(); err != nil {
		return err
	}
	z.currentTrip, z.process = t, cmd.Process
	return nil
}

// finishTrip records the end of a trip and the processes of its command that still run. No
// such process may outlive zksh, with two exceptions: processes that the command itself has
// killed may exist for a moment, and after zksh was killed the keeper has until the end of the
// lease to end the command.
func (z *chaosClient) finishTrip(t *trip, cmd *exec.Cmd) {
	z.mu.Lock()
	z.currentTrip, z.process, t.exit = nil, nil, cmd.ProcessState.Sys().(syscall.WaitStatus)
	z.mu.Unlock()
	end := time.Now()
	switch last := (section{z.name, z.sectionCount}); {
	case t.killed:
		end = end.Add(chaosTimeout)
	case z.oracle.saw(last, "end"), z.oracle.saw(last, "term"):
		end = end.Add(10 * time.Second)
	}
	for {
		if t.survivors = survivors(z.chaos.t, z.mark()); len(t.survivors) == 0 || time.Now().After(end) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	z.chaos.mu.Lock()
	defer z.chaos.mu.Unlock()
	z.chaos.trips = append(z.chaos.trips, t)
}
