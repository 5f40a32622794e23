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

// fencePatience is how long it waits, on a busy machine, for a write that comes too late.
const fencePatience = 5 * time.Minute

// fenceTimeout is that of the sessions of TestFence.
const fenceTimeout = 2 * time.Second

// tally is two rivals that increment one number, each in scripts under the lock, one
// after another, and what breaks them.
type tally struct {
	t      *testing.T
	addr   string
	chroot string
	dir    string
	option string // of zksh; may be empty
	expire func(node string, session int64)
	counter
	rivals [2]*rivalry
	over   context.Context // no more faults are made

	faults  map[string]int
	refused atomic.Int32 // writes whose lock was gone
	done    atomic.Int32 // writes that were said to be done
	unknown atomic.Int32 // scripts of which neither is known
}

// counter is the number, and how often it was written.
type counter struct{ *zkconn.Session }

func (c counter) read(t *testing.T) (number, writes int) {
	t.Helper()
	node, err := zkconn.Do(zktest.Within(t), c, zkconn.GetData("/n"))
	if err == nil {
		number, err = strconv.Atoi(string(node.Data))
	}
	if err != nil {
		t.Fatal(err)
	}
	return number, int(node.Stat.Version)
}

// rivalry is one of the two.
type rivalry struct {
	c     *tally
	name  string
	proxy *zktest.Proxy
	r     *rand.Rand

	mu   sync.Mutex
	stem string // of the files of the script that is under way
}

// Two scripts that increment a number under a lock, whose sessions are cut off, stopped
// for longer than they last, and ended, while zksh and what it has beside its command
// stand still, so that they cannot end that in time: with the fence no increment is
// ever lost, nor done twice. Each writes what it has read and one more, so that the
// number is how often it was written; once it is less it stays less. Without the fence it
// becomes that, which shows that there is something to be fenced.
func TestFence(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	t.Parallel()
	for name, start := range map[string]func(*testing.T) (addr string, expire func(string, int64)){
		"server": func(t *testing.T) (string, func(string, int64)) {
			addr := zktest.Shared(t).Addr()
			s := zksession.Open(t, zkconn.Config{Servers: addr, Timeout: zktest.Patience})
			return addr, func(node string, _ int64) { // what else the end of a session does is not to be seen here
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
			c := newTally(t, addr, expire, "")
			begin := time.Now()
			number, writes := c.run(*fenceTime+fencePatience, func() bool { return c.refused.Load() > 0 && time.Since(begin) > *fenceTime })
			if number != writes {
				t.Errorf("%d increments are lost", writes-number)
			}
			if c.refused.Load() == 0 {
				t.Error("no write came too late: nothing is proven")
			}
			if done, unknown := int(c.done.Load()), int(c.unknown.Load()); writes < done || writes > done+unknown {
				t.Errorf("%d increments were said to be done, and of %d it was not said", done, unknown)
			}
		})
		t.Run(name+"/control", func(t *testing.T) {
			t.Parallel()
			addr, expire := start(t)
			c := newTally(t, addr, expire, "--no-fence")
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

func newTally(t *testing.T, addr string, expire func(string, int64), option string) *tally {
	c := &tally{t: t, addr: addr, chroot: "/" + strings.ReplaceAll(t.Name(), "/", "-") + fmt.Sprint(time.Now().UnixNano()), dir: t.TempDir(),
		option: option, faults: map[string]int{}}
	c.expire = func(node string, session int64) { expire(c.chroot+node, session) }
	for _, path := range []string{"", "/n"} {
		s := zksession.Open(t, zkconn.Config{Servers: addr, Timeout: zktest.Patience})
		if err := zkconn.Exec(zktest.Within(t), s, zkconn.Create(c.chroot+path, []byte("0"), zkconn.OpenACL(), zkconn.CreateMode{})); err != nil {
			t.Fatal(err)
		}
	}
	c.counter = counter{zksession.Open(t, zkconn.Config{Servers: addr + c.chroot, Timeout: zktest.Patience})}
	for i := range c.rivals {
		c.rivals[i] = &rivalry{c: c, name: fmt.Sprint("rival-", i), proxy: zktest.NewProxy(t, addr), r: rand.New(rand.NewPCG(rand.Uint64(), 0))}
	}
	return c
}

// run has the rivals increment until enough has been seen, for so long at the most.
func (c *tally) run(most time.Duration, enough func() bool) (number, writes int) {
	var stop context.CancelFunc
	c.over, stop = context.WithTimeout(c.t.Context(), most)
	defer stop()
	var running sync.WaitGroup
	for _, z := range c.rivals {
		running.Go(z.run)
	}
	kinds := []string{"cut", "cut off", "stopped", "ended"}
	for r := rand.New(rand.NewPCG(rand.Uint64(), 0)); c.over.Err() == nil && !enough(); {
		c.rivals[r.IntN(len(c.rivals))].fault(kinds[r.IntN(len(kinds))], r)
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
		number, writes, c.done.Load(), c.refused.Load(), c.unknown.Load(), c.faults)
	return number, writes
}

// run makes one increment after another.
func (z *rivalry) run() {
	for n := 0; z.c.over.Err() == nil; n++ {
		stem := filepath.Join(z.c.dir, fmt.Sprint(z.name, "-", n))
		z.set(stem)
		z.increment(stem, fmt.Sprintf("0.%02d", z.r.IntN(50)))
		z.set("")
	}
}

func (z *rivalry) set(stem string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.stem = stem
}

func (z *rivalry) now() string {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.stem
}

// increment runs the script under the lock, to its end.
func (z *rivalry) increment(stem, pause string) {
	script, err := filepath.Abs("testdata/increment.sh")
	if err != nil {
		z.c.t.Error(err)
		return
	}
	args := []string{"-timeout", fmt.Sprint(fenceTimeout.Milliseconds()), "lock", "/l", "--", "sh", script, stem, pause}
	if z.c.option != "" {
		args = append([]string{z.c.option}, args...)
	}
	errs, err := os.Create(stem + ".errs")
	if err != nil {
		z.c.t.Error(err)
		return
	}
	defer errs.Close()
	cmd := exec.Command("zksh", args...)
	cmd.Stderr = errs
	cmd.Env = append(os.Environ(), "HOME="+z.c.dir, "XDG_CONFIG_HOME="+z.c.dir, markName+"="+z.mark(),
		"ZKSH_SERVER="+z.proxy.Addr()+z.c.chroot)
	if err := cmd.Start(); err != nil {
		z.c.t.Error(err)
		return
	}
	hangs := time.AfterFunc(limit, func() {
		z.c.t.Errorf("%s hangs", filepath.Base(stem))
		_ = cmd.Process.Signal(syscall.SIGABRT)
	})
	_ = cmd.Wait() // what counts is what the script has written
	hangs.Stop()
	zktest.Eventually(z.c.t, "the script has ended with its zksh", func() bool {
		left, _ := z.processes()
		return len(left) == 0
	})
	status, err := os.ReadFile(stem + ".wrote")
	switch told := strings.TrimSpace(string(status)); {
	case err == nil && told == "0":
		z.c.done.Add(1)
	case err == nil && told == fmt.Sprint(commands.StatusLockLost):
		z.c.refused.Add(1)
	case hasFile(stem + ".read"):
		z.c.unknown.Add(1)
	}
}

func hasFile(file string) bool {
	_, err := os.Stat(file)
	return !errors.Is(err, fs.ErrNotExist)
}

func (z *rivalry) mark() string { return z.c.dir + "/" + z.name }

// processes are those of the script, and zksh with what it has beside the script.
func (z *rivalry) processes() (script, guards []int) {
	all, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		z.c.t.Error(err)
	}
	for _, file := range all {
		env, _ := os.ReadFile(file)
		text := "\x00" + string(env)
		if !strings.Contains(text, "\x00"+markName+"="+z.mark()+"\x00") {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		cmdline, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline")) // it may end just now
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
		_ = syscall.Kill(pid, sig) // it may have ended
	}
}

// await waits for something, not longer than there are faults, nor than twice as long as
// a session lasts.
func (c *tally) await(what func() bool) bool {
	ctx, cancel := context.WithTimeout(c.over, 2*fenceTimeout)
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

// fault breaks a script in the middle of its increment, and mends it.
func (z *rivalry) fault(kind string, r *rand.Rand) {
	var stem string
	if !z.c.await(func() bool {
		stem = z.now()
		return stem != "" && hasFile(stem+".read") && !hasFile(stem+".wrote")
	}) {
		return
	}
	z.c.faults[kind]++
	if kind == "ended" {
		if err := os.WriteFile(stem+".hold", nil, 0o600); err != nil {
			z.c.t.Error(err)
		}
	}
	time.Sleep(between(r, 0, 200*time.Millisecond)) // so that it is at any point
	_, before := z.c.read(z.c.t)
	another := func() bool {
		_, writes := z.c.read(z.c.t)
		return writes > before
	}
	switch kind {
	case "cut":
		z.proxy.Cut()
	case "cut off":
		z.proxy.Hold(true)
		z.c.await(another)
		z.proxy.Hold(false)
	case "stopped": // all of it, and what would end the script comes to itself last
		script, guards := z.processes()
		signalAll(guards, syscall.SIGSTOP)
		signalAll(script, syscall.SIGSTOP)
		z.c.await(another)
		signalAll(script, syscall.SIGCONT)
		z.c.await(func() bool { return hasFile(stem + ".wrote") })
		signalAll(guards, syscall.SIGCONT)
	case "ended":
		place, err := os.ReadFile(stem + ".read")
		if err != nil {
			z.c.t.Error(err)
			return
		}
		words := strings.Fields(string(place))
		session, err := strconv.ParseUint(words[1], 0, 64)
		if err != nil {
			z.c.t.Error(err)
			return
		}
		_, guards := z.processes()
		signalAll(guards, syscall.SIGSTOP)
		z.c.expire(words[0], int64(session))
		z.c.await(another)
		if err := os.Remove(stem + ".hold"); err != nil {
			z.c.t.Error(err)
		}
		z.c.await(func() bool { return hasFile(stem + ".wrote") })
		signalAll(guards, syscall.SIGCONT)
	}
}
