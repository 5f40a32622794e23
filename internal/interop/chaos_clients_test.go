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

// contestant is a client that takes a lock again and again, in one trip of a program
// after another. All its servers are behind proxies of its own.
type contestant struct {
	c        *chaos
	o        *oracle
	mode     mode
	name     string
	proxies  []*zktest.Proxy
	r        *rand.Rand // for its goroutine alone
	sections int        // so many it has tried to come into
	trip     func(z *contestant, calm bool) (held bool)
	noStop   bool        // it is never stopped
	atFault  atomic.Bool // a fault of its own is under way
	done     atomic.Bool

	mu      sync.Mutex
	now     *trip       // nil without one
	process *os.Process // of the trip, or the driver's; nil without one
	driver  *driver     // of Curator or kazoo
}

// run has the client make trips, and once all is mended one more until it has had
// the lock.
func (z *contestant) run() {
	defer z.done.Store(true)
	for calm := false; !calm; {
		select {
		case <-z.c.calm:
			calm = true
		default:
			z.trip(z, false)
		}
	}
	for range 20 { // of which one is enough, but on a very busy machine
		if z.trip(z, true) {
			return
		}
	}
	z.c.t.Errorf("%s does not get the lock any more", z.name)
}

// section begins the next one.
func (z *contestant) section() section {
	z.sections++
	return section{z.name, z.sections}
}

// mark tells the client's processes.
func (z *contestant) mark() string { return z.o.dir + "/" + z.name }

// stays is a file that keeps the client in its section.
func (z *contestant) stays() string { return z.o.stay(z.name) }

// servers is a connect string, of one server or of all.
func (z *contestant) servers(all bool) string {
	var addrs []string
	for _, p := range z.proxies {
		addrs = append(addrs, p.Addr())
	}
	if !all {
		return addrs[z.r.IntN(len(addrs))]
	}
	return strings.Join(addrs, ",")
}

func (z *contestant) oneIn(n int) bool { return z.r.IntN(n) == 0 }

// during is how long a section lasts.
func (z *contestant) during(calm bool) time.Duration {
	switch {
	case calm || z.c.over.Err() != nil:
		return 100 * time.Millisecond
	case z.oneIn(4):
		return between(z.r, chaosTimeout/2, 2*longCut)
	}
	return between(z.r, 50*time.Millisecond, time.Second)
}

// lock is the command that takes the lock.
func (z *contestant) lock() []string {
	switch {
	case z.o.path == "/alone":
		return []string{"lock", "--as", "all"} // excludes Curator's and kazoo's
	case z.mode == shared:
		return []string{"rlock"}
	}
	return []string{"wlock"}
}

// oneShot runs a command under the lock.
func (z *contestant) oneShot(calm bool) (held bool) {
	s := z.section()
	t := &trip{z: z, sections: []section{s}, own: []int{0, 3, 42}[z.r.IntN(3)]}
	flags := z.lock()
	flag := func(often int, set *bool, words ...string) {
		if *set = !calm && z.oneIn(often); *set {
			flags = append(flags, words...)
		}
	}
	var short, try, wait bool
	flag(2, &short, "-t", "1")
	flag(4, &t.confirm, "--confirm")
	flag(4, &t.strict, "--strict")
	if flag(12, &try, "-n"); !try {
		flag(6, &wait, "-w", "3")
	}
	t.busy = try || wait
	args := append(z.options(calm || !z.oneIn(3)), flags...)
	args = append(args, z.o.path, "--", "sh")
	args = append(args, z.o.witness(z.c.t, s, z.mode, z.during(calm), t.own, !calm && z.oneIn(3))...)
	z.travel(t, "", args)
	return z.o.saw(s, "end")
}

// batch runs a few commands under the lock, in one session.
func (z *contestant) batch(calm bool) (held bool) {
	t := &trip{z: z}
	var script strings.Builder
	for range 2 + z.r.IntN(3) {
		s := z.section()
		t.sections = append(t.sections, s)
		words := append(z.lock(), "-t", "1", z.o.path, "--", "sh")
		words = append(words, z.o.witness(z.c.t, s, z.mode, z.during(calm), 0, z.oneIn(3))...)
		script.WriteString(strings.Join(words, " ") + "\n")
	}
	z.travel(t, script.String(), append(z.options(true), "-q"))
	return z.o.saw(t.sections[len(t.sections)-1], "end")
}

// options are zksh's own.
func (z *contestant) options(all bool) []string {
	return []string{"-server", z.servers(all), "-timeout", fmt.Sprint(chaosTimeout.Milliseconds())}
}

// zksh is the program, to be started by set.
func (z *contestant) zksh(args ...string) *exec.Cmd {
	cmd := exec.Command("zksh", args...)
	cmd.Env = append(os.Environ(), "HOME="+z.o.dir, "XDG_CONFIG_HOME="+z.o.dir, markName+"="+z.mark(), "GOTRACEBACK=all")
	return cmd
}

// travel runs a zksh to its end. Its errors go into a file: a pipe would be its
// command's, too, and not end with it.
func (z *contestant) travel(t *trip, script string, args []string) {
	errs, err := os.CreateTemp(z.o.dir, z.name)
	if err != nil {
		z.c.t.Error(err)
		return
	}
	defer errs.Close()
	cmd := z.zksh(args...)
	cmd.Stdin, cmd.Stderr = strings.NewReader(script), errs
	if err := z.set(t, cmd); err != nil {
		z.c.t.Error(err)
		return
	}
	_ = cmd.Wait() // its status is judged later
	z.arrived(t, cmd)
	text, err := os.ReadFile(errs.Name())
	if err != nil {
		z.c.t.Error(err)
	}
	t.errs = string(text)
}

// set starts a trip.
func (z *contestant) set(t *trip, cmd *exec.Cmd) error {
	z.mu.Lock()
	defer z.mu.Unlock()
	if err := cmd.Start(); err != nil {
		return err
	}
	z.now, z.process = t, cmd.Process
	return nil
}

// arrived ends one, and looks for what it leaves. When zksh has ended nothing of its command runs, but for a
// moment what the command has killed as it ended by itself; when zksh was killed
// there is the keeper, which has until the end of the lease.
func (z *contestant) arrived(t *trip, cmd *exec.Cmd) {
	z.mu.Lock()
	z.now, z.process, t.exit = nil, nil, cmd.ProcessState.Sys().(syscall.WaitStatus)
	z.mu.Unlock()
	end := time.Now()
	switch last := (section{z.name, z.sections}); {
	case t.killed:
		end = end.Add(chaosTimeout)
	case z.o.saw(last, "end"), z.o.saw(last, "term"):
		end = end.Add(10 * time.Second)
	}
	for {
		if t.left = survivors(z.c.t, z.mark()); len(t.left) == 0 || time.Now().After(end) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	z.c.mu.Lock()
	defer z.c.mu.Unlock()
	z.c.trips = append(z.c.trips, t)
}
