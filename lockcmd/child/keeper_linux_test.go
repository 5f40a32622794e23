package child

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

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

// installForNobody copies the test binary, and setpriv with the set-uid bit, to a directory
// that every user can read. becomesRoot is a program that runs as root.
func installForNobody(t *testing.T) (self, becomesRoot string) {
	t.Helper()
	requireRoot(t)
	dir := t.TempDir()
	install := func(from, name string, mode os.FileMode) string {
		data, err := os.ReadFile(from)
		zktest.Must(t, err)
		file := filepath.Join(dir, name)
		zktest.Must(t, os.WriteFile(file, data, 0o755))
		zktest.Must(t, os.Chmod(file, mode))
		return file
	}
	setpriv, err := exec.LookPath("setpriv")
	zktest.Must(t, err)
	for up := dir; up != os.TempDir(); up = filepath.Dir(up) {
		zktest.Must(t, os.Chmod(up, 0o755))
	}
	return install("/proc/self/exe", "zksh", 0o755), install(setpriv, "becomes-root", 0o755|os.ModeSetuid)
}

func asNobody(self string) func(*exec.Cmd) {
	return func(cmd *exec.Cmd) {
		cmd.Path = self
		cmd.Env = append(cmd.Env, leaseVariable+"=8s")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
}

// zksh cannot terminate a program that becomes root, if zksh runs as an ordinary user. Run names it.
func TestEscape(t *testing.T) {
	self, becomesRoot := installForNobody(t)
	h := startHolder(t, becomesRoot+` --reuid 0 --keep-groups sleep 1000 & echo $!; echo $$; wait`, 2, asNobody(self))
	zktest.Check(t, h.cmd.Wait())
	want := fmt.Sprintf("cannot terminate these processes, which continue without the lock: %d (sleep)", h.pids[0])
	if got := h.stderr(); !strings.Contains(got, ErrEscaped.Error()) || !strings.Contains(got, want) {
		t.Errorf("it said %q", got)
	}
}

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

// The program is terminated, and KILL is due, after the machine was asleep and timers stood still.
func TestKillAfterSleep(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	zktest.Must(t, cmd.Start())
	slept := time.Duration(0)
	zksh, theirs, err := newLink()
	zktest.Must(t, err)
	k := newKeeper(cmd.Process.Pid, link{os.NewFile(uintptr(theirs), "zksh")})
	reports := zksh.receive()
	defer zksh.close(reports)
	defer k.zksh.file.Close()
	k.program = cmd.Process.Pid
	k.now = func() int64 { return now() + int64(slept) }
	k.lease, k.grace = k.now()+int64(time.Hour), int64(time.Minute)
	if k.checkClock(); k.killAt != never || !zktest.Runs(cmd.Process.Pid) {
		t.Error("it was terminated before its time")
	}
	slept = 2 * time.Hour
	k.checkClock()
	k.execute(record{Kind: orderLease, Time: k.lease}) // zksh repeats the old lease, but knows no newer one
	slept += doubtTime
	if k.checkClock(); k.killAt > k.now() {
		t.Fatalf("KILL comes in %s", time.Duration(k.killAt-k.now()))
	}
	if r := <-reports; r.Kind != reportOverdue {
		t.Errorf("the report is %+v", r)
	}
	if err := cmd.Wait(); err == nil || err.Error() != "signal: terminated" {
		t.Errorf("it ended with %v", err)
	}
}

// The keeper does not act on an old lease if a newer one arrives within a moment.
func TestNewerLeaseCounts(t *testing.T) {
	k := newKeeper(os.Getpid(), link{})
	k.ended = true // nothing gets a signal
	past := time.Duration(0)
	k.now = func() int64 { return now() + int64(past) }
	k.lease, k.grace = k.now(), int64(time.Minute)
	k.checkClock()
	k.execute(record{Kind: orderLease, Time: k.now() + int64(time.Hour)})
	past = doubtTime
	if k.checkClock(); k.killAt != never {
		t.Error("a healthy program was terminated")
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

// Run returns when a daemon in a session of its own has ended. By then it has named the daemon.
func TestDaemonIsWaitedFor(t *testing.T) {
	s := newScript(t, `setsid sh -c 'echo $$; while :; do sleep 0.02; done' & exit 3`).start()
	daemon := s.waitForPIDs(1)[0]
	zktest.Eventually(t, "the alert", func() bool {
		return strings.Contains(s.alertText(), "sh has ended; zksh holds the lock") &&
			strings.Contains(s.alertText(), fmt.Sprintf(" %d (sh)", daemon))
	})
	select {
	case <-s.ended:
		t.Error("it was not waited for")
	default:
	}
	zktest.Must(t, syscall.Kill(daemon, syscall.SIGKILL))
	if got := s.wait(); got != 3 {
		t.Errorf("status %d", got)
	}
}

// A program that has left its group receives signals, too.
func TestSignalReachesAnotherSession(t *testing.T) {
	s := newScript(t, `exec setsid sh -c 'trap "exit 9" TERM; echo ready; while :; do sleep 0.05; done'`).start()
	s.waitForLines(1)
	zktest.Must(t, syscall.Kill(os.Getpid(), syscall.SIGTERM))
	if got := s.wait(); got != 9 {
		t.Errorf("status %d", got)
	}
}

// INT, TERM, QUIT and HUP terminate what the program has left, although it ignores INT.
func TestSignalTerminatesTheRest(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGHUP} {
		s := newScript(t, `trap "" INT; setsid sh -c 'echo $$; exec sleep 1000' & echo $!; exit 3`).start()
		pids := s.waitForPIDs(2)
		zktest.Eventually(t, "the end of the program", func() bool { return strings.Contains(s.alertText(), "sh has ended") })
		zktest.Must(t, syscall.Kill(os.Getpid(), sig))
		if got := s.wait(); got != 3 || zktest.Runs(pids[0]) || zktest.Runs(pids[1]) {
			t.Errorf("%s: status %d", sig, got)
		}
	}
}

// HUP, INT, TSTP, TTIN, TTOU and CONT stay ignored, and no other signal becomes ignored, except that QUIT
// follows INT.
func TestIgnoredSignalsReachTheProgram(t *testing.T) {
	for ignored, want := range map[string]string{
		"":                            "0000000000000000",
		"HUP":                         "0000000000000001",
		"INT QUIT":                    "0000000000000006",
		"HUP INT TSTP TTIN TTOU CONT": "00000000003a0007",
	} {
		cmd := helper(t, "exec grep SigIgn /proc/self/status")
		cmd.Args = []string{"sh", "-c", `test -z "$1" || trap "" $1; exec "$0"`, cmd.Path, ignored}
		var err error
		cmd.Path, err = exec.LookPath("sh")
		zktest.Must(t, err)
		out, err := cmd.Output()
		// Signals 32 and 33 belong to the C library. A parent such as make can ignore them.
		mask, parseErr := strconv.ParseUint(strings.TrimSpace(strings.TrimPrefix(string(out), "SigIgn:")), 16, 64)
		if got := fmt.Sprintf("%016x", mask&(1<<31-1)); errors.Join(err, parseErr) != nil || got != want {
			t.Errorf("%q: %q, %v; want %s", ignored, got, err, want)
		}
	}
}

// What the program leaves does not become a child of zksh, which would not reap it.
func TestDaemonIsNotAdopted(t *testing.T) {
	s := newScript(t, `setsid sleep 1000 & echo $!`)
	s.spec.Leave = true
	daemon := s.start().waitForPIDs(1)[0]
	s.wait()
	if isChild(daemon, nil) {
		t.Error("zksh has adopted the daemon")
	}
}

// A daemon that double-forks, and leaves the session and the group, ends with its holder.
func TestDaemonEndsWithItsKilledHolder(t *testing.T) {
	const text = `(setsid sh -c 'sleep 1000 </dev/null >/dev/null 2>&1 & echo $!') ; echo $$; exec sleep 1000`
	h := startHolder(t, text, 2, nil)
	h.signal(syscall.SIGKILL)
	waitForAllGone(t, h.pids)
}

// The processes in /proc are not named if they belong to another namespace, where numbers mean other processes.
func TestProcOfAnotherNamespace(t *testing.T) {
	describe := func(args ...string) string {
		cmd := zktest.Command(zktest.Within(t), t, args[0], args[1:]...)
		cmd.Env = append(os.Environ(), treeVariable+"="+strconv.Itoa(os.Getpid()))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Skipf("SKIPPED: the system forbids containers: %s", out)
		}
		return string(out)
	}
	if got := describe(os.Args[0]); got == "" {
		t.Error("nothing is named")
	}
	if got := describe("unshare", "--pid", "--fork", os.Args[0]); got != "" {
		t.Errorf("named: %s", got)
	}
}

// Processes that end at once remain as zombies, in their groups, and leave this process as it was.
func TestNothingIsStarted(t *testing.T) {
	runtime.LockOSThread() // the thread's signal mask changes meanwhile
	defer runtime.UnlockOSThread()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() { // moves and interrupts goroutines; ends with stop
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				runtime.GC()
			}
		}
	}()
	var masks [2]unix.Sigset_t
	zktest.Must(t, unix.PthreadSigmask(unix.SIG_SETMASK, nil, &masks[0]))
	for i := range 2000 {
		leads := i%2 == 0
		pid := startNothing(leads)
		want := unix.Getpgrp()
		if leads {
			want = pid
		}
		group, err := syscall.Getpgid(pid)
		zktest.Must(t, err)
		if group != want {
			t.Errorf("process %d (%d) is in group %d", i, pid, group)
		}
		var status syscall.WaitStatus
		_, err = syscall.Wait4(pid, &status, 0, nil)
		zktest.Must(t, err)
		if status != 0 {
			t.Errorf("process %d has ended with status %#x", i, int(status))
		}
	}
	close(stop)
	<-stopped
	zktest.Must(t, unix.PthreadSigmask(unix.SIG_SETMASK, nil, &masks[1]))
	if masks[0] != masks[1] {
		t.Errorf("the signal mask is %x, was %x", masks[1], masks[0])
	}
}
