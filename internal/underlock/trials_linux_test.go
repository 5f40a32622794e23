package underlock

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/zktest"
)

var (
	trials    = flag.Int("trials", 12, "number of random trials of TestNothingOutlivesTheLock; 200 in make full")
	trialSeed = flag.Uint64("trialseed", 0, "seed of the trials; 0 takes one by chance")
)

const (
	trialTimeout = 4 * time.Second // session timeout
	atOnce       = 4               // number of trials that run at the same time
	lifetime     = 40 * time.Second
)

// An event ends a trial.
type event string

const (
	normalEnd   event = "the command ends"
	terminate   event = "TERM to zksh"
	killZksh    event = "kill -9 of zksh"
	stopZksh    event = "SIGSTOP of zksh"
	stopAndKill event = "SIGSTOP, then kill -9 of zksh"
	loseServer  event = "lost connection"
	killKeeper  event = "kill -9 of the keeper"
	stopKeeper  event = "SIGSTOP of the keeper, lost connection"
)

var (
	events = []event{
		normalEnd, terminate, killZksh, killZksh, stopZksh, stopZksh, stopAndKill, loseServer, killKeeper, stopKeeper,
	}
	// Ways in which the command works, as world work knows them.
	ways = []string{
		"ignore-term", "ignore-all", "block-all", "daemon", "sessions", "groups", "session-chain", "group-chain", "tree",
		"term-daemon", "term-kill-group", "close-files", "reaper", "own-session", "hide-death-signal", "stop",
		"session-storm", "group-storm", "fast-chain",
	}
)

// A trial is a command under a lock that is hard to terminate, and an event.
type trial struct {
	t           *testing.T
	zksh, world string
	event       event
	early       bool          // the event may come before the command runs
	after       time.Duration // time of the event, counted from the start of zksh if early, else from that of the command
	ways        []string
	timeout     time.Duration // of the session
	disturb     func(*trial)  // of a trial whose command ends: called when the command runs; nil if nothing disturbs it
	uid         int
	forks       uint64        // maximum number of forks of all processes of the command
	lasts       time.Duration // time after which the command ends by itself
	status      int           // exit status of the command, if it ends by itself

	dir    string
	shared string // name of the file that all processes of the command share
	link   *link
	cmd    *exec.Cmd
	errs   string        // what zksh printed; valid when ended is closed
	closed chan struct{} // closed when no process has the descriptor any more that zksh inherited
	ended  chan struct{} // closed when zksh has ended

	before  time.Duration // time between the last work and the moment when another client can hold the lock
	overdue bool          // whether the lease was lost without an event
}

// Nothing of a command is alive when another client can hold the lock. In random trials, the command
// has children that are hard to terminate. Then zksh or the keeper is stopped or killed, or the
// connection is lost, or the command ends.
//
// The link to the server records when the server got the last request. The session cannot expire
// earlier than the session timeout after that. The processes of the command record in shared memory
// when they last worked. After each trial, no process, control group, file and descriptor is left.
func TestNothingOutlivesTheLock(t *testing.T) {
	t.Parallel()
	zksh, world := needPrograms(t)
	seed := *trialSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-trialseed %d", seed)
	server := newServer(t)
	groups := controlGroups(t)
	var mu sync.Mutex
	var latest []time.Duration // when the commands last worked, before another client could hold the lock
	overdue := 0
	turns := make(chan struct{}, atOnce)
	t.Run("trial", func(t *testing.T) {
		for number := range *trials {
			t.Run(fmt.Sprint(number), func(t *testing.T) {
				t.Parallel()
				turns <- struct{}{}
				defer func() { <-turns }()
				c := newTrial(t, seed, number)
				c.zksh, c.world = zksh, world
				c.run(server)
				mu.Lock()
				defer mu.Unlock()
				latest = append(latest, c.before)
				if c.overdue {
					overdue++
				}
			})
		}
	})
	if len(latest) == 0 {
		return // -run selected none
	}
	t.Logf("%d trials; the latest work was %s before another client could hold the lock; "+
		"%d commands lost their lease without an event",
		len(latest), slices.Min(latest), overdue)
	for group := range controlGroups(t) {
		if !groups[group] {
			t.Errorf("a control group is left: %s", group)
		}
	}
}

// newTrial draws a trial. The same seed and number always give the same trial.
func newTrial(t *testing.T, seed uint64, number int) *trial {
	r := rand.New(rand.NewPCG(seed, uint64(number)))
	c := &trial{t: t, timeout: trialTimeout, event: events[r.IntN(len(events))], status: r.IntN(64), lasts: lifetime}
	c.forks = uint64(15 + r.IntN(4)/3*r.IntN(185))
	c.after = time.Duration(r.Int64N(int64(1500 * time.Millisecond)))
	c.early = (c.event == killZksh || c.event == stopAndKill) && r.IntN(3) == 0
	for _, i := range r.Perm(len(ways))[:r.IntN(5)] {
		c.ways = append(c.ways, ways[i])
	}
	if c.uid = 0; r.IntN(2) == 0 && os.Geteuid() == 0 {
		c.uid = nobody
	}
	if c.event == terminate { // zksh passes the signal on; a command that ignores it goes on
		c.lasts = c.after + time.Second
		c.ways = slices.DeleteFunc(c.ways, func(way string) bool { return way == "stop" }) // would stay stopped
	}
	if c.event == normalEnd {
		c.lasts = time.Duration(50+r.IntN(1000)) * time.Millisecond
		c.ways = slices.DeleteFunc(c.ways, func(way string) bool { return way == "stop" || way == "term-kill-group" })
	}
	return c
}

func (c *trial) String() string {
	start := map[bool]string{true: "zksh", false: "the command"}[c.early]
	return fmt.Sprintf("%s %s after the start of %s, user %d, %d forks, %s",
		c.event, c.after.Round(time.Millisecond), start, c.uid, c.forks, c.ways)
}

func (c *trial) run(server string) {
	c.dir = openDir(c.t, c.uid)
	c.shared = filepath.Join(c.dir, "shared")
	begin := make([]byte, 3*8) // the struct in world.c
	binary.NativeEndian.PutUint64(begin[2*8:], c.forks)
	zktest.Must(c.t, os.WriteFile(c.shared, begin, 0o600))
	if os.Geteuid() == 0 {
		zktest.Must(c.t, os.Chown(c.shared, c.uid, c.uid))
	}
	c.link = newLink(c.t, server)
	c.start()
	c.happen()
	free := c.waitUntilFree()
	if alive := c.commandOf(processes(c.t, c.shared)); alive != "" {
		c.t.Errorf("alive when another client can hold the lock: %s", alive)
	}
	if c.event == stopZksh {
		c.signal(c.cmd.Process.Pid, syscall.SIGCONT)
	}
	c.link.hold(false)
	if !until(zktest.Within(c.t), func() bool { return isClosed(c.ended) }) {
		c.t.Error("zksh does not end")
		c.signal(c.cmd.Process.Pid, syscall.SIGKILL)
		<-c.ended
	}
	if c.before = free - c.lastWork(); c.before < 0 {
		c.t.Errorf("worked %s after another client could hold the lock", -c.before)
	}
	c.checkStatus()
	c.checkLeftOver()
	if c.t.Failed() {
		c.t.Logf("%s\nzksh printed: %s", c, c.errs)
	}
}

// checkStatus checks the exit status of zksh.
func (c *trial) checkStatus() {
	got, want := status(c.cmd.ProcessState), c.statuses()
	if slices.Contains(want, got) {
		return
	}
	c.overdue = c.event == normalEnd && got == commands.StatusLockLost && strings.Contains(c.errs, "zksh terminated")
	if !c.overdue {
		c.t.Errorf("status %d, want one of %d", got, want)
		return
	}
	// A machine that is too slow may lose the lease. The last renewal is then long ago.
	end := c.lastWork()
	if age := end - c.link.lastRenewal(end); age < c.timeout/2 {
		c.t.Errorf("the command was terminated %s after the lease of %s was renewed", age, c.timeout)
	}
}

// start starts zksh. It has one more descriptor that all processes inherit, except for those that
// close it.
func (c *trial) start() {
	r, w, err := os.Pipe()
	zktest.Check(c.t, err)
	args := []string{"-q", "-server", c.link.addr(), "-timeout", fmt.Sprint(c.timeout.Milliseconds()),
		"lock", "-t", "500ms", "/" + filepath.Base(filepath.Dir(c.dir)), "--",
		c.world, "work", c.shared, fmt.Sprint(c.lasts.Milliseconds()), fmt.Sprint(c.status)}
	c.cmd = exec.Command("zksh", append(args, c.ways...)...)
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	as(c.cmd, c.uid)
	c.cmd.Dir, c.cmd.Env, c.cmd.ExtraFiles = c.dir, environment(c.dir), []*os.File{w}
	errs, err := os.Create(filepath.Join(c.dir, "errors"))
	zktest.Check(c.t, err)
	c.cmd.Stderr = errs
	zktest.Must(c.t, c.cmd.Start())
	zktest.Check(c.t, w.Close())
	c.closed, c.ended = make(chan struct{}), make(chan struct{})
	go func() { // ends when no process has the other end
		defer close(c.closed)
		defer r.Close()
		discard(bufio.NewReader(r))
	}()
	go func() { // ends with zksh; run waits for it
		defer close(c.ended)
		_ = c.cmd.Wait() // the status is checked by run
		zktest.Check(c.t, errs.Close())
		text, err := os.ReadFile(errs.Name())
		zktest.Check(c.t, err)
		c.errs = string(text)
	}()
	c.t.Cleanup(func() {
		killAll(processes(c.t, c.shared)) // only if the test has failed
		<-c.ended
		<-c.closed
	})
}

// happen waits until the command runs, or for the random moment of the event, and makes it happen.
func (c *trial) happen() {
	if !c.early && !until(zktest.Within(c.t), func() bool { return c.lastWork() > 0 || isClosed(c.ended) }) {
		c.t.Error("the command does not start")
	}
	if c.event == normalEnd {
		if c.disturb != nil {
			c.disturb(c)
		}
		return
	}
	select {
	case <-time.After(c.after): // any moment is correct
	case <-c.ended:
	}
	zkshPID := c.cmd.Process.Pid
	switch c.event {
	case terminate:
		c.signal(zkshPID, syscall.SIGTERM)
	case killZksh:
		c.signal(zkshPID, syscall.SIGKILL)
	case stopZksh:
		c.signal(zkshPID, syscall.SIGSTOP)
	case stopAndKill:
		c.signal(zkshPID, syscall.SIGSTOP)
		c.signal(zkshPID, syscall.SIGKILL)
	case loseServer:
		c.link.hold(true)
	case killKeeper:
		c.signal(c.keeper(), syscall.SIGKILL)
	case stopKeeper:
		c.signal(c.keeper(), syscall.SIGSTOP)
		c.link.hold(true)
	}
}

// keeper waits until zksh has a child, and returns its pid.
func (c *trial) keeper() (pid int) {
	until(zktest.Within(c.t), func() bool {
		for _, child := range children(c.cmd.Process.Pid) {
			// Between fork and exec, the child is a copy of zksh. The command itself is not a child.
			if line, _ := os.ReadFile("/proc/" + strconv.Itoa(child) + "/cmdline"); bytes.Contains(line, []byte("keeper")) {
				pid = child
			}
		}
		return pid > 0 || isClosed(c.ended)
	})
	return pid
}

// signal sends a signal to a process that may have ended.
func (c *trial) signal(pid int, sig syscall.Signal) {
	if pid > 0 {
		_ = syscall.Kill(pid, sig)
	}
}

// waitUntilFree waits until another client can hold the lock, and returns the time at which that
// began.
func (c *trial) waitUntilFree() (free time.Duration) {
	if !until(zktest.Within(c.t), func() bool {
		free = c.link.free(c.timeout)
		return bootTime(c.t) >= free
	}) {
		c.t.Error("zksh does not release the lock")
	}
	return free
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// commandOf describes those of the processes that belong to the command, not to zksh and its keeper.
func (c *trial) commandOf(pids []int) string {
	return describe(slices.DeleteFunc(slices.Clone(pids), func(pid int) bool {
		exe, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/exe")
		return err != nil || exe == c.zksh
	}))
}

// lastWork returns when a process of the command last worked, or 0 if the command did not start.
func (c *trial) lastWork() time.Duration {
	text, err := os.ReadFile(c.shared)
	zktest.Check(c.t, err)
	return time.Duration(binary.NativeEndian.Uint64(text))
}

// statuses returns the correct exit statuses of zksh.
func (c *trial) statuses() []int {
	const killed, terminated = 128 + int(syscall.SIGKILL), 128 + int(syscall.SIGTERM)
	switch c.event {
	case normalEnd:
		return []int{c.status}
	case killZksh, stopAndKill:
		return []int{killed}
	case terminate:
		return []int{terminated, killed, c.status}
	case killKeeper:
		return []int{killed}
	default:
		return []int{commands.StatusLockLost}
	}
}

// checkLeftOver waits until all processes have ended, and reports what is left.
func (c *trial) checkLeftOver() {
	limit := zktest.Within(c.t)
	var left []int
	if !until(limit, func() bool { left = processes(c.t, c.shared); return len(left) == 0 }) {
		c.t.Errorf("left: %s", describe(left))
	}
	if !until(limit, func() bool { return isClosed(c.closed) }) {
		c.t.Error("a process has a descriptor of zksh")
	}
	zktest.Check(c.t, filepath.WalkDir(c.dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && path != c.shared && path != filepath.Join(c.dir, "errors") {
			c.t.Errorf("the file %s is left", path)
		}
		return err
	}))
}
