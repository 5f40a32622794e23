//go:build linux

package interop

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/internal/zktest/zksession"
)

var fenceTime = flag.Duration("fence", 20*time.Second, "how long TestFence makes faults; a minute in make full")

// fencePatience is the additional time that TestFence waits, on a busy machine, for a write
// after the loss of the lock.
const fencePatience = 5 * time.Minute

// fenceTimeout is the session timeout of the scripts in TestFence.
const fenceTimeout = 2 * time.Second

// A fenceTest is two rivals that increment the same number. Each runs one script under the
// lock after another, while the test injects faults.
type fenceTest struct {
	t      *testing.T
	addr   string
	chroot string
	dir    string
	option string // additional option of zksh, or ""
	expire func(node string, session int64)
	counter
	rivals   [2]*rival
	faultCtx context.Context // done at the end of the faults

	faults   map[string]int
	rejected atomic.Int32 // writes that failed because the lock was lost
	done     atomic.Int32 // writes that were reported as done
	unknown  atomic.Int32 // scripts whose write has an unknown outcome
}

// A counter reads the number and the number of its writes.
type counter struct{ *zkconn.Session }

func (c counter) read(t *testing.T) (number, writes int) {
	t.Helper()
	node, err := zkconn.Do(zktest.Within(t), c, zkconn.GetData("/n"))
	if err == nil {
		number, err = strconv.Atoi(string(node.Data))
	}
	zktest.Must(t, err)
	return number, int(node.Stat.Version)
}

// A rival is one of the two clients.
type rival struct {
	test  *fenceTest
	name  string
	proxy *zktest.Proxy
	rand  *rand.Rand

	mu   sync.Mutex
	stem string // prefix of the names of the files of the running script, or ""
}

// With the fence, no increment is lost or done twice. Two rivals increment a number under a
// lock. The test cuts their connections, stops them for longer than the session timeout, and
// ends their sessions, while zksh and its keeper are stopped, so that they cannot end the
// script in time.
//
// Each script reads the number and writes the number plus one. So the number equals the
// number of writes, unless an increment was lost; then it stays smaller. Without the fence
// this happens, which shows that the test would find it.
func TestFence(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	t.Parallel()
	for name, start := range map[string]func(*testing.T) (addr string, expire func(string, int64)){
		"server": func(t *testing.T) (string, func(string, int64)) {
			addr := zktest.Shared(t).Addr()
			s := zksession.Open(t, zkconn.Config{Servers: addr, Timeout: zktest.Patience})
			return addr, func(node string, _ int64) { // deleting the znode has the same effect on the lock as the end of the session
				if err := zkconn.Exec(zktest.Within(t), s, zkconn.Delete(node, -1)); err != nil && !errors.Is(err, zkconn.NoNode) {
					t.Error(err)
				}
			}
		},
		"sandbox": func(t *testing.T) (string, func(string, int64)) {
			box := zktest.Sandbox(t, sandbox.Options{})
			return box.Addr(), func(_ string, session int64) { box.Expire(session) }
		},
	} {
		t.Run(name+"/fenced", func(t *testing.T) {
			t.Parallel()
			addr, expire := start(t)
			c := newFenceTest(t, addr, expire, "")
			begin := time.Now()
			number, writes := c.run(*fenceTime+fencePatience, func() bool { return c.rejected.Load() > 0 && time.Since(begin) > *fenceTime })
			if number != writes {
				t.Errorf("%d increments are lost", writes-number)
			}
			if c.rejected.Load() == 0 {
				t.Error("no write came too late: nothing is proven")
			}
			if done, unknown := int(c.done.Load()), int(c.unknown.Load()); writes < done || writes > done+unknown {
				t.Errorf("%d increments were said to be done, and of %d it was not said", done, unknown)
			}
		})
		t.Run(name+"/control", func(t *testing.T) {
			t.Parallel()
			addr, expire := start(t)
			c := newFenceTest(t, addr, expire, "--no-fence")
			number, writes := c.run(*fenceTime+fencePatience, func() bool {
				number, writes := c.read(t)
				return number < writes
			})
			if number == writes {
				t.Error("no increment is lost without the fence: with it nothing is proven")
			}
		})
	}
}

func newFenceTest(t *testing.T, addr string, expire func(string, int64), option string) *fenceTest {
	c := &fenceTest{t: t, addr: addr, chroot: "/" + strings.ReplaceAll(t.Name(), "/", "-") + fmt.Sprint(time.Now().UnixNano()), dir: t.TempDir(),
		option: option, faults: map[string]int{}}
	c.expire = func(node string, session int64) { expire(c.chroot+node, session) }
	for _, path := range []string{"", "/n"} {
		s := zksession.Open(t, zkconn.Config{Servers: addr, Timeout: zktest.Patience})
		zktest.Must(t, zkconn.Exec(zktest.Within(t), s, zkconn.Create(c.chroot+path, []byte("0"), zkconn.OpenACL(), zkconn.CreateMode{})))
	}
	c.counter = counter{zksession.Open(t, zkconn.Config{Servers: addr + c.chroot, Timeout: zktest.Patience})}
	for i := range c.rivals {
		c.rivals[i] = &rival{test: c, name: fmt.Sprint("rival-", i), proxy: zktest.NewProxy(t, addr), rand: rand.New(rand.NewPCG(rand.Uint64(), 0))}
	}
	return c
}

// run makes the rivals increment, and injects faults, until enough returns true or the time
// most has passed.
func (c *fenceTest) run(most time.Duration, enough func() bool) (number, writes int) {
	var stop context.CancelFunc
	c.faultCtx, stop = context.WithTimeout(c.t.Context(), most)
	defer stop()
	var running sync.WaitGroup
	for _, z := range c.rivals {
		running.Go(z.run)
	}
	kinds := []string{"cut", "cut off", "stopped", "ended"}
	for r := rand.New(rand.NewPCG(rand.Uint64(), 0)); c.faultCtx.Err() == nil && !enough(); {
		c.rivals[r.IntN(len(c.rivals))].injectFault(kinds[r.IntN(len(kinds))], r)
	}
	stop()
	running.Wait()
	for _, z := range c.rivals {
		if left, _ := z.processes(); len(left) > 0 {
			c.t.Errorf("processes of %s that are left: %v", z.name, left)
		}
	}
	number, writes = c.read(c.t)
	c.t.Logf("%d after %d writes; said to be done: %d, refused: %d, unknown: %d; faults: %v",
		number, writes, c.done.Load(), c.rejected.Load(), c.unknown.Load(), c.faults)
	return number, writes
}

// run increments the number again and again until the end of the faults.
func (z *rival) run() {
	for n := 0; z.test.faultCtx.Err() == nil; n++ {
		stem := filepath.Join(z.test.dir, fmt.Sprint(z.name, "-", n))
		z.setStem(stem)
		z.increment(stem, fmt.Sprintf("0.%02d", z.rand.IntN(50)))
		z.setStem("")
	}
}

func (z *rival) setStem(stem string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.stem = stem
}

func (z *rival) currentStem() string {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.stem
}

// increment runs a script under the lock until zksh exits.
func (z *rival) increment(stem, pause string) {
	script, err := filepath.Abs("testdata/increment.sh")
	if err != nil {
		z.test.t.Error(err)
		return
	}
	args := []string{"-timeout", fmt.Sprint(fenceTimeout.Milliseconds()), "lock", "/l", "--", "sh", script, stem, pause}
	if z.test.option != "" {
		args = append([]string{z.test.option}, args...)
	}
	errs, err := os.Create(stem + ".errs")
	if err != nil {
		z.test.t.Error(err)
		return
	}
	defer errs.Close()
	cmd := exec.Command("zksh", args...)
	cmd.Stderr = errs
	cmd.Env = append(os.Environ(), "HOME="+z.test.dir, "XDG_CONFIG_HOME="+z.test.dir, markName+"="+z.mark(),
		"ZKSH_SERVER="+z.proxy.Addr()+z.test.chroot)
	if err := cmd.Start(); err != nil {
		z.test.t.Error(err)
		return
	}
	hangs := time.AfterFunc(clientTimeout, func() {
		z.test.t.Errorf("%s hangs", filepath.Base(stem))
		_ = cmd.Process.Signal(syscall.SIGABRT)
	})
	_ = cmd.Wait() // the result is in the files of the script
	hangs.Stop()
	zktest.Eventually(z.test.t, "the script has ended with its zksh", func() bool {
		left, _ := z.processes()
		return len(left) == 0
	})
	status, err := os.ReadFile(stem + ".wrote")
	switch told := strings.TrimSpace(string(status)); {
	case err == nil && told == "0":
		z.test.done.Add(1)
	case err == nil && told == fmt.Sprint(commands.StatusLockLost):
		z.test.rejected.Add(1)
	case fileExists(stem + ".read"):
		z.test.unknown.Add(1)
	}
}

func fileExists(file string) bool {
	_, err := os.Stat(file)
	return !errors.Is(err, fs.ErrNotExist)
}

func (z *rival) mark() string { return z.test.dir + "/" + z.name }

// processes returns the processes of the script, and zksh with its keeper as guards.
func (z *rival) processes() (script, guards []int) {
	all, err := filepath.Glob("/proc/[0-9]*/environ")
	zktest.Check(z.test.t, err)
	for _, file := range all {
		env, _ := os.ReadFile(file)
		text := "\x00" + string(env)
		if !strings.Contains(text, "\x00"+markName+"="+z.mark()+"\x00") {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		cmdline, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline")) // fails if the process has just ended
		if !strings.Contains(text, "\x00ZK_LOCK_NODE=") || strings.HasPrefix(string(cmdline), "lock-keeper\x00") {
			guards = append(guards, pid)
		} else {
			script = append(script, pid)
		}
	}
	return script, guards
}

func signalAll(pids []int, sig syscall.Signal) {
	for _, pid := range pids {
		_ = syscall.Kill(pid, sig) // fails if the process has ended
	}
}

// await waits until what returns true. It returns false after the end of the faults, or after
// two session timeouts.
func (c *fenceTest) await(what func() bool) bool {
	ctx, cancel := context.WithTimeout(c.faultCtx, 2*fenceTimeout)
	defer cancel()
	for !what() {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(5 * time.Millisecond):
		}
	}
	return true
}

// injectFault injects a fault into a script in the middle of its increment, and repairs it.
func (z *rival) injectFault(kind string, r *rand.Rand) {
	var stem string
	if !z.test.await(func() bool {
		stem = z.currentStem()
		return stem != "" && fileExists(stem+".read") && !fileExists(stem+".wrote")
	}) {
		return
	}
	z.test.faults[kind]++
	if kind == "ended" {
		zktest.Check(z.test.t, os.WriteFile(stem+".hold", nil, 0o600))
	}
	time.Sleep(randomDuration(r, 0, 200*time.Millisecond)) // so that the script is at a random point
	_, before := z.test.read(z.test.t)
	another := func() bool {
		_, writes := z.test.read(z.test.t)
		return writes > before
	}
	switch kind {
	case "cut":
		z.proxy.Cut()
	case "cut off":
		z.proxy.Hold(true)
		z.test.await(another)
		z.proxy.Hold(false)
	case "stopped": // stop all processes; continue those that would end the script last
		script, guards := z.processes()
		signalAll(guards, syscall.SIGSTOP)
		signalAll(script, syscall.SIGSTOP)
		z.test.await(another)
		signalAll(script, syscall.SIGCONT)
		z.test.await(func() bool { return fileExists(stem + ".wrote") })
		signalAll(guards, syscall.SIGCONT)
	case "ended":
		place, err := os.ReadFile(stem + ".read")
		if err != nil {
			z.test.t.Error(err)
			return
		}
		words := strings.Fields(string(place))
		session, err := strconv.ParseUint(words[1], 0, 64)
		if err != nil {
			z.test.t.Error(err)
			return
		}
		_, guards := z.processes()
		signalAll(guards, syscall.SIGSTOP)
		z.test.expire(words[0], int64(session))
		z.test.await(another)
		zktest.Check(z.test.t, os.Remove(stem+".hold"))
		z.test.await(func() bool { return fileExists(stem + ".wrote") })
		signalAll(guards, syscall.SIGCONT)
	}
}
