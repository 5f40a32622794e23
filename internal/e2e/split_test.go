//go:build unix

package e2e

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/internal/zktest/zksession"
)

var splits = flag.Int("split", 0, "so often a server is cut off together with the holders of locks, in each way "+
	"and with sessions of 10 s and of 30 s, and zksh has to stand it; 0: once, with 10 s")

// ZooKeeper's own defaults.
const (
	tick      = 2 * time.Second
	syncLimit = 5 // ticks
)

// cut is a way to cut a server off from the others, together with its clients.
type cut struct {
	name   string
	leader bool // it is the leader
	do     func(t *testing.T, s *zktest.Split, victim int)
	// fools tells that the server goes on long enough to fool, each time, whoever
	// believes each answer. Otherwise that depends on fractions of a tick.
	fools bool
}

var cuts = []cut{
	{"Follower", false, isolate, true},
	{"Leader", true, isolate, false},
	{"MutedLeader", true, muteAndIsolate, true},
}

func isolate(_ *testing.T, s *zktest.Split, victim int) { s.Isolate(victim) }

// muteAndIsolate lets a leader hear of the others for a while after they heard
// of it last, so that it goes on as a leader when they have another one.
func muteAndIsolate(t *testing.T, s *zktest.Split, victim int) {
	other := zksession.Open(t, zkconn.Config{Servers: s.Addr((victim + 1) % 3), Timeout: 20 * tick})
	s.Mute(victim)
	// The others give up after syncLimit ticks of silence, counted from a ping that
	// came half a tick before this or less, and must not be heard to do so. Until
	// then what this client asks is passed on to the leader: a sign of life.
	for range 2*syncLimit - 3 {
		ctx, cancel := context.WithTimeout(t.Context(), tick/2)
		if err := zkconn.Exec(ctx, other, zkconn.Sync("/")); err == nil {
			t.Error("a muted leader has answered")
		}
		cancel()
	}
	s.Isolate(victim)
}

// A server that has lost the others answers its clients for a while, during which
// their sessions end: no command under a lock may run on when another client
// holds that lock. A holder that takes each answer for a proof shows that the
// scene is as it should be.
func TestSplit(t *testing.T) {
	t.Parallel()
	zktest.Need(t, exec.Command("flock", "--version").Run() == nil, "util-linux")
	timeouts, rounds := []time.Duration{10 * time.Second}, 1
	if *splits > 0 {
		timeouts, rounds = append(timeouts, 30*time.Second), *splits
	}
	for _, c := range cuts {
		if !c.fools && *splits == 0 {
			continue
		}
		for _, timeout := range timeouts {
			t.Run(fmt.Sprintf("%s/%s", c.name, timeout), func(t *testing.T) {
				t.Parallel()
				s := zktest.StartSplit(t, zktest.Heap(64), zktest.Ticks(int(tick.Milliseconds()), 10, syncLimit))
				for i := range rounds {
					if i > 0 {
						s.Heal()
					}
					t.Run(strconv.Itoa(i+1), func(t *testing.T) { splitOnce(t, s, c, timeout) })
				}
			})
		}
	}
}

// splitOnce has two clients at one server hold a lock each, cuts them off with
// it, and looks at who else gets these locks, and when.
func splitOnce(t *testing.T, s *zktest.Split, c cut, timeout time.Duration) {
	victim := s.Leader()
	if !c.leader {
		victim = (victim + 1) % 3
	}
	others := s.Addr((victim+1)%3) + "," + s.Addr((victim+2)%3)
	contests := []*contest{believe(t, s.Addr(victim), timeout), trust(t, s.Addr(victim), timeout)}
	for _, k := range contests {
		zktest.Eventually(t, "the first holds", func() bool { return k.began("first") })
		k.second = k.zksh(t, "second", others, timeout, "-t", "1")
		zktest.Eventually(t, "the second waits", func() bool {
			return strings.Count(at(t, others, "ls", k.path), "lock-") == 2
		})
	}
	begin := time.Now()
	c.do(t, s, victim)
	for _, k := range contests {
		zktest.Eventually(t, "the second holds", func() bool { return k.began("second") })
		k.firstGone()
		k.finish(t)
		overlap, story := k.judge(t, begin)
		t.Logf("%s: %s", k.path, story)
		switch {
		case k.control && c.fools && !overlap:
			t.Errorf("%s: two clients that exclude each other less than zksh's did not hold together: this proves nothing", k.path)
		case !k.control && overlap:
			t.Errorf("%s: two clients held the lock together: %s", k.path, story)
		}
	}
}

// contest is a lock, its holder, the client that waits behind it, and what their
// commands have written.
type contest struct {
	control   bool
	path, dir string
	every     string // seconds between the lines of a command
	firstGone func() // waits until the first one's command has been ended
	second    *exec.Cmd
}

func newContest(t *testing.T, name string) *contest {
	return &contest{path: fmt.Sprintf("/%s-%d", name, time.Now().UnixNano()), dir: t.TempDir(), every: "0.1"}
}

// witness is a command under a lock, in the directory $0, called $1. It knows
// nothing of ZooKeeper but the token, and takes a lock of the kernel's. It writes
// a line each $2 seconds as long as it runs, and TERM does not end it.
const witness = `
trap '' TERM
cd "$0"
exec 9>kernel
flock -n 9 || echo "$1 $ZK_LOCK_TOKEN taken" >>log
until [ -e stop ]; do
	now=$(exec 9>&-; date +%s%N)
	echo "$1 $ZK_LOCK_TOKEN $now" >>log
	sleep "$2" 9>&-
done`

func (k *contest) began(name string) bool {
	text, err := os.ReadFile(filepath.Join(k.dir, "log"))
	return err == nil && strings.Contains("\n"+string(text), "\n"+name+" ")
}

// zksh starts a zksh that waits for the lock and then runs a witness.
func (k *contest) zksh(t *testing.T, name, servers string, timeout time.Duration, options ...string) *exec.Cmd {
	args := []string{"-server", servers, "-timeout", strconv.FormatInt(timeout.Milliseconds(), 10), "lock"}
	args = append(append(args, options...), k.path, "--", "sh", "-c", witness, k.dir, name, k.every)
	cmd := exec.Command("zksh", args...)
	errs := &strings.Builder{}
	cmd.Env, cmd.Stderr = homeEnv(t.TempDir()), errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it has ended, or the test has failed
		t.Logf("%s %s says:\n%s", k.path, name, errs)
	})
	return cmd
}

// trust has a zksh be the first holder.
func trust(t *testing.T, server string, timeout time.Duration) *contest {
	k := newContest(t, "zksh")
	cmd := k.zksh(t, "first", server, timeout, "-t", "1")
	k.firstGone = func() { wantExit(t, cmd, 74) }
	return k
}

// believe has the first holder be a client that counts its time from the latest
// request that was answered, whoever answered, and asks all the time.
func believe(t *testing.T, server string, timeout time.Duration) *contest {
	k := newContest(t, "control")
	k.control = true
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	p, err := zksession.Open(t, zkconn.Config{Servers: server, Timeout: timeout}).Ensemble().Pin(ctx)
	if err == nil {
		err = p.CreateContainer(ctx, k.path, zkconn.OpenACL())
	}
	if err != nil {
		t.Fatal(err)
	}
	node := &zk.CreateRequest{Path: k.path + "/lock-", Acl: zkconn.OpenACL(), Flags: zk.FlagEphemeral | zk.FlagSequence}
	paths, czxid, _, err := p.CreateAndList(ctx, []*zk.CreateRequest{node}, k.path)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", witness, k.dir, "first", k.every)
	cmd.Env = append(os.Environ(), "ZK_LOCK_TOKEN="+render.Hex(czxid))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { // ends with the lease, or with the test
		defer close(done)
		var last time.Time
		for ctx.Err() == nil {
			if sent := p.State(time.Now()).Sent; sent.After(last) {
				last = sent
			}
			end := last.Add(timeout)
			if !time.Now().Before(end) {
				break
			}
			asking, stop := context.WithDeadline(ctx, end)
			_, _ = p.Exists(asking, paths[0]) // no answer is just that
			stop()
			time.Sleep(50 * time.Millisecond)
		}
		_ = cmd.Process.Kill() // it has not been waited for
		_ = cmd.Wait()         // killed
	}()
	t.Cleanup(func() { cancel(); <-done })
	k.firstGone = func() { <-done }
	return k
}

// finish ends the commands, and waits for the end of the second client. That may have
// lost the lock again, if its servers elected for longer than its session lasts.
func (k *contest) finish(t *testing.T) {
	k.stop(t)
	if status := exitStatus(t, k.second); status != 0 && status != commands.StatusLockLost {
		t.Errorf("%s: the second ends with status %d", k.path, status)
	}
}

// stop ends the commands.
func (k *contest) stop(t *testing.T) {
	if err := os.WriteFile(filepath.Join(k.dir, "stop"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// judge reads what the witnesses have written, in the order in which they wrote
// it, and reports whether both held the lock together.
func (k *contest) judge(t *testing.T, begin time.Time) (overlap bool, story string) {
	text, err := os.ReadFile(filepath.Join(k.dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	var gone, held time.Duration
	var token int64
	for line := range strings.Lines(string(text)) {
		var name, hex, when string
		if _, err := fmt.Sscan(line, &name, &hex, &when); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		n, err := strconv.ParseInt(hex, 0, 64)
		if err != nil {
			t.Fatal(err)
		}
		// A token of an earlier holder after that of a later one, or the kernel's
		// word, that it has given the lock already.
		overlap = overlap || n < token || when == "taken"
		token = max(token, n)
		nano, err := strconv.ParseInt(when, 10, 64)
		switch {
		case err != nil: // taken
		case name == "first":
			gone = time.Unix(0, nano).Sub(begin)
		case held == 0:
			held = time.Unix(0, nano).Sub(begin)
		}
	}
	return overlap, fmt.Sprintf("the first was gone %.1f s after the cut, the second held at %.1f s", gone.Seconds(), held.Seconds())
}
