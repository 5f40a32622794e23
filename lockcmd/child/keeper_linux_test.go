package child

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/zktest"
)

const nobody = 65534

// requireRoot skips a test that only root can run.
func requireRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: only root can try this")
	}
	if _, err := exec.LookPath("setpriv"); err != nil {
		t.Skip("SKIPPED: there is no setpriv")
	}
}

// fugitives is a script whose processes are hard to terminate and ignore TERM: a child in
// the group, a child in a session of its own whose parent ends, a child that becomes
// another user, and the program itself.
const fugitives = `trap "" TERM HUP
sleep 1000 & echo $!
(setsid sleep 1000 & echo $!)
setpriv --reuid 65534 --clear-groups sleep 1000 & echo $!
echo $$; wait`

// A holder is a helper with the processes that it has started.
type holder struct {
	*script
	cmd  *exec.Cmd
	errs string // name of the file with its standard error
	pids []int
}

// startHolder starts a helper with a script that prints as many process ids as pids says.
func startHolder(t *testing.T, text string, pids int, change func(*exec.Cmd)) *holder {
	t.Helper()
	dir := t.TempDir()
	open := func(name string) *os.File {
		f, err := os.Create(filepath.Join(dir, name))
		zktest.Must(t, err)
		t.Cleanup(func() { f.Close() })
		return f
	}
	h := &holder{cmd: helper(t, text)}
	out, errs := open("out"), open("err")
	h.cmd.Stdout, h.cmd.Stderr, h.errs = out, errs, errs.Name()
	if change != nil {
		change(h.cmd)
	}
	zktest.Must(t, h.cmd.Start())
	t.Cleanup(func() {
		_ = h.cmd.Process.Kill() // has ended, or the test has failed
		_ = h.cmd.Wait()         // any status; fails if it was waited for
	})
	h.script = &script{t: t, spec: Spec{Out: out}}
	h.pids = h.script.waitForPIDs(pids)
	return h
}

// stderr returns the helper's standard error.
func (h *holder) stderr() string {
	h.t.Helper()
	b, err := os.ReadFile(h.errs)
	zktest.Must(h.t, err)
	return string(b)
}

func (h *holder) signal(sig syscall.Signal) {
	h.t.Helper()
	zktest.Must(h.t, h.cmd.Process.Signal(sig))
}

// waitForAllGone waits until all processes have ended.
func waitForAllGone(t *testing.T, pids []int) {
	t.Helper()
	for i, pid := range pids {
		zktest.Eventually(t, "the end of process "+strconv.Itoa(i), func() bool { return !zktest.Runs(pid) })
	}
}

func TestKilledHolderLeavesNothing(t *testing.T) {
	requireRoot(t)
	h := startHolder(t, fugitives, 4, nil)
	h.signal(syscall.SIGKILL)
	waitForAllGone(t, h.pids)
}

// A program that has become another user is killed with its holder, although the kernel
// does not send it the parent-death signal.
func TestKilledHolderOfAnotherUser(t *testing.T) {
	requireRoot(t)
	h := startHolder(t, "echo $$; exec setpriv --reuid 65534 --clear-groups sleep 1000", 1, nil)
	zktest.Eventually(t, "the other user", func() bool {
		st, err := os.Stat("/proc/" + strconv.Itoa(h.pids[0]))
		return err == nil && st.Sys().(*syscall.Stat_t).Uid == nobody
	})
	h.signal(syscall.SIGKILL)
	waitForAllGone(t, h.pids)
}

// While the holder is stopped, the keeper terminates the program before the lease ends.
func TestStoppedHolder(t *testing.T) {
	requireRoot(t)
	h := startHolder(t, fugitives, 4, func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, leaseVariable+"=8s") })
	h.signal(syscall.SIGSTOP)
	waitForAllGone(t, h.pids)
	h.signal(syscall.SIGCONT)
	zktest.Check(t, h.cmd.Wait())
	if got := h.stderr(); !strings.Contains(got, "helper: status 137, "+ErrOverdue.Error()) {
		t.Errorf("it said %q", got)
	}
}

func TestStopReachesAll(t *testing.T) {
	requireRoot(t)
	s := newScript(t, fugitives).start()
	pids := s.waitForPIDs(4)
	s.stop <- time.Now()
	if got := s.wait(); got != 137 {
		t.Errorf("status %d", got)
	}
	for i, pid := range pids {
		if zktest.Runs(pid) {
			t.Errorf("process %d is alive", i)
		}
	}
}

// A process that has left the group is killed although the program itself has ended.
func TestSweepReachesAll(t *testing.T) {
	requireRoot(t)
	s := newScript(t, `(setsid sleep 1000 & echo $!); echo $$; exec sleep 1000`).start()
	pids := s.waitForPIDs(2)
	s.stop <- farDeadline()
	if got := s.wait(); got != 143 || zktest.Runs(pids[0]) {
		t.Errorf("status %d, alive: %t", got, zktest.Runs(pids[0]))
	}
}

func TestKilledKeeper(t *testing.T) {
	s := newScript(t, "trap 'echo heard' USR1; sleep 1000 & echo $!; echo $$; echo $PPID; while :; do wait $!; done")
	s.wantErr = true
	pids := s.start().waitForLines(3)
	zktest.Must(t, syscall.Kill(os.Getpid(), syscall.SIGUSR1))
	s.waitForLines(4) // zksh passes on the signal only once it knows the program
	keeper, err := strconv.Atoi(pids[2])
	zktest.Must(t, err)
	members := s.waitForPIDs(2)
	zktest.Must(t, syscall.Kill(keeper, syscall.SIGKILL))
	if got := s.wait(); got != 137 || !errors.Is(s.err, errKeeper) {
		t.Errorf("status %d, %v", got, s.err)
	}
	waitForAllGone(t, members)
}

// zksh kills the program if the keeper is stopped, even right after the start.
func TestStoppedKeeper(t *testing.T) {
	s := newScript(t, `trap "" TERM; echo $PPID; while :; do sleep 0.02; done`).start()
	keeper := s.waitForPIDs(1)[0]
	// The second time, the keeper has just been continued for the first order.
	for _, due := range []time.Time{farDeadline(), time.Now()} {
		zktest.Must(t, syscall.Kill(keeper, syscall.SIGSTOP))
		s.stop <- due
	}
	if got := s.wait(); got != 137 {
		t.Errorf("status %d", got)
	}
}

// dismissKeeper continues a stopped keeper instead of waiting for ever.
func TestDismissWakes(t *testing.T) {
	ordersEnd, orders, err := os.Pipe()
	zktest.Must(t, err)
	reports, reportsEnd, err := os.Pipe()
	zktest.Must(t, err)
	c := &child{keeper: exec.Command("cat")} // cat also ends when its input ends
	c.keeper.Stdin, c.keeper.Stdout, c.orders.file = ordersEnd, reportsEnd, orders
	zktest.Must(t, c.keeper.Start())
	ordersEnd.Close()
	reportsEnd.Close()
	zktest.Must(t, c.keeper.Process.Signal(syscall.SIGSTOP))
	done := make(chan struct{})
	go func() { // ends with the keeper
		defer close(done)
		c.dismissKeeper(readMessages[report](reports))
	}()
	select {
	case <-done:
	case <-zktest.Within(t).Done():
		_ = c.keeper.Process.Kill() // lets dismissKeeper return
		t.Error("a stopped keeper is waited for")
		<-done
	}
}

// KILL comes in time after the machine was asleep and its monotonic clock stood still.
func TestKillAfterSleep(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	zktest.Must(t, cmd.Start())
	r, w, err := os.Pipe()
	zktest.Must(t, err)
	defer r.Close()
	defer w.Close()
	slept := time.Duration(0)
	k := &keeper{
		messageWriter: messageWriter{file: w}, pid: cmd.Process.Pid, program: program{Argv: []string{"sleep"}}, timer: time.NewTimer(time.Hour),
		now: func() moment { n := now(); n.wall = n.wall.Add(slept); return n },
	}
	due := momentAt(farDeadline())
	k.killAt = &due
	if k.checkClocks(); !zktest.Runs(cmd.Process.Pid) {
		t.Error("it was killed before its time")
	}
	slept = 2 * time.Hour
	k.checkClocks()
	if err := cmd.Wait(); err == nil || err.Error() != "signal: killed" {
		t.Errorf("it ended with %v", err)
	}
}

// zksh catches Ctrl-Z while a program runs, and has the default action again afterwards,
// also the second time.
func TestStopKeyComesBack(t *testing.T) {
	caught := func() bool {
		status, err := os.ReadFile("/proc/self/status")
		zktest.Must(t, err)
		_, mask, _ := strings.Cut(string(status), "\nSigCgt:")
		set, err := strconv.ParseUint(strings.Fields(mask)[0], 16, 64)
		zktest.Must(t, err)
		return set&(1<<(syscall.SIGTSTP-1)) != 0
	}
	for i := range 2 {
		s := newScript(t, "echo begun; while :; do sleep 0.02; done").start()
		s.waitForLines(1)
		if !caught() {
			t.Errorf("program %d: Ctrl-Z would stop who holds its lock", i)
		}
		s.stop <- time.Now()
		s.wait()
		if caught() {
			t.Errorf("behind program %d Ctrl-Z does nothing", i)
		}
	}
}
