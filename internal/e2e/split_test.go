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

var splits = flag.Int("split", 0, "how often each kind of cut isolates a server together with holders of locks, "+
	"with sessions of 10 s and of 30 s; 0: once, with 10 s")

// tick and syncLimit are ZooKeeper's defaults.
const (
	tick      = 2 * time.Second
	syncLimit = 5 // ticks
)

// A cut is a way to isolate a server, together with its clients, from the other servers.
type cut struct {
	name   string
	leader bool // isolate the leader; otherwise a follower
	do     func(t *testing.T, s *zktest.Split, victim int)
	// deceives is set if the isolated server answers long enough to deceive a client that trusts
	// each answer, unless the other servers need seconds for their election. Without it, that
	// depends on fractions of a tick.
	deceives bool
}

var cuts = []cut{
	{"Follower", false, isolate, true},
	{"Leader", true, isolate, false},
	{"MutedLeader", true, muteAndIsolate, true},
}

func isolate(_ *testing.T, s *zktest.Split, victim int) { s.Isolate(victim) }

// muteAndIsolate first drops the leader's messages to the others, but not theirs to the leader,
// and then isolates it. So the leader still acts as one when the others have elected another.
func muteAndIsolate(t *testing.T, s *zktest.Split, victim int) {
	other := zksession.Open(t, zkconn.Config{Servers: s.Addr((victim + 1) % 3), Timeout: 20 * tick})
	s.Mute(victim)
	// The others give up after syncLimit ticks of silence, counted from a ping at most half a
	// tick before this moment. The isolation must begin before they do, so that the leader does
	// not notice. Until then, the others pass this client's requests on to the leader, which
	// takes them as signs of life.
	for range 2*syncLimit - 3 {
		ctx, cancel := context.WithTimeout(t.Context(), tick/2)
		if err := zkconn.Exec(ctx, other, zkconn.Sync("/")); err == nil {
			t.Error("a muted leader has answered")
		}
		cancel()
	}
	s.Isolate(victim)
}

// An isolated server answers its clients for a while, during which their sessions expire on the
// other servers. No command under a lock may keep running when another client holds that lock. A
// control holder, which trusts each answer, shows that the test really produces this situation.
func TestSplit(t *testing.T) {
	t.Parallel()
	zktest.NeedProgram(t, "flock", "util-linux")
	timeouts, rounds := []time.Duration{10 * time.Second}, 1
	if *splits > 0 {
		timeouts, rounds = append(timeouts, 30*time.Second), *splits
	}
	for _, c := range cuts {
		if !c.deceives && *splits == 0 {
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
					splitRound(t, s, c, timeout, i+1)
				}
			})
		}
	}
}

// splitRound runs splitOnce. If the cut deceives and the control holder has not overlapped with its
// successor, the run proves nothing, and splitRound repeats it. It fails if the last attempt proves
// nothing either.
func splitRound(t *testing.T, s *zktest.Split, c cut, timeout time.Duration, round int) {
	const attempts = 4
	for attempt := range attempts {
		if attempt > 0 {
			s.Heal()
		}
		overlap := false
		passed := t.Run(fmt.Sprintf("%d.%d", round, attempt+1), func(t *testing.T) { overlap = splitOnce(t, s, c, timeout) })
		if !passed || overlap || !c.deceives {
			return
		}
	}
	t.Errorf("in %d attempts, two clients that exclude each other less than zksh's did not hold together: this proves nothing", attempts)
}

// splitOnce makes two clients of one server hold a lock each, isolates that server with them,
// and checks when other clients get these locks. It reports whether the control holder and its
// successor held their lock together.
func splitOnce(t *testing.T, s *zktest.Split, c cut, timeout time.Duration) (deceived bool) {
	victim := s.Leader()
	if !c.leader {
		victim = (victim + 1) % 3
	}
	others := s.Addr((victim+1)%3) + "," + s.Addr((victim+2)%3)
	contests := []*contest{newControlContest(t, s.Addr(victim), timeout), newZkshContest(t, s.Addr(victim), timeout)}
	for _, k := range contests {
		zktest.Eventually(t, "the first holds", func() bool { return k.began("first") })
		k.second = k.zksh(t, "second", others, timeout, "-t", "1")
		zktest.Eventually(t, "the second waits", func() bool {
			return strings.Count(runAt(t, others, "ls", k.path), "lock-") == 2
		})
	}
	begin := time.Now()
	c.do(t, s, victim)
	for _, k := range contests {
		zktest.Eventually(t, "the second holds", func() bool { return k.began("second") })
		k.waitFirst()
		k.finish(t)
		overlap, story := k.judge(t, begin)
		t.Logf("%s: %s", k.path, story)
		switch {
		case k.control:
			deceived = overlap
		case overlap:
			t.Errorf("%s: two clients held the lock together: %s", k.path, story)
		}
	}
	return deceived
}

// A contest is a lock with its holder, the client that waits behind the holder, and the output
// of their commands.
type contest struct {
	control   bool // the holder is a naive client, not zksh
	path, dir string
	every     string // seconds between the lines of a command
	waitFirst func() // waits until the command of the first holder has ended
	second    *exec.Cmd
}

func newContest(t *testing.T, name string) *contest {
	return &contest{path: fmt.Sprintf("/%s-%d", name, time.Now().UnixNano()), dir: t.TempDir(), every: "0.1"}
}

// witness is a command under a lock. It runs in the directory $0 and is called $1. Of ZooKeeper
// it knows only the token; besides, it takes a lock of the kernel. It writes a line every $2
// seconds until the file stop exists, and ignores TERM.
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

// zksh starts a zksh that acquires the lock and then runs a witness.
func (k *contest) zksh(t *testing.T, name, servers string, timeout time.Duration, options ...string) *exec.Cmd {
	args := []string{"-server", servers, "-timeout", strconv.FormatInt(timeout.Milliseconds(), 10), "lock"}
	args = append(append(args, options...), k.path, "--", "sh", "-c", witness, k.dir, name, k.every)
	cmd := exec.Command("zksh", args...)
	errs := &strings.Builder{}
	cmd.Env, cmd.Stderr = homeEnv(t.TempDir()), errs
	zktest.Must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // if the test has failed; else it has already ended
		t.Logf("%s %s says:\n%s", k.path, name, errs)
	})
	return cmd
}

// newZkshContest returns a contest whose first holder is a zksh.
func newZkshContest(t *testing.T, server string, timeout time.Duration) *contest {
	k := newContest(t, "zksh")
	cmd := k.zksh(t, "first", server, timeout, "-t", "1")
	k.waitFirst = func() { wantExit(t, cmd, 74) }
	return k
}

// newControlContest returns a contest whose first holder is a naive client. It sends requests
// all the time and counts its lease from the latest answered request, whichever server answered.
func newControlContest(t *testing.T, server string, timeout time.Duration) *contest {
	k := newContest(t, "control")
	k.control = true
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	p, err := zksession.Open(t, zkconn.Config{Servers: server, Timeout: timeout}).Ensemble().Pin(ctx)
	if err == nil {
		err = p.CreateContainer(ctx, k.path, zkconn.OpenACL())
	}
	zktest.Must(t, err)
	node := &zk.CreateRequest{Path: k.path + "/lock-", Acl: zkconn.OpenACL(), Flags: zk.FlagEphemeral | zk.FlagSequence}
	made, czxid, _, err := p.CreateAndList(ctx, node, k.path)
	zktest.Must(t, err)
	cmd := exec.Command("sh", "-c", witness, k.dir, "first", k.every)
	cmd.Env = append(os.Environ(), "ZK_LOCK_TOKEN="+render.Hex(czxid))
	zktest.Must(t, cmd.Start())
	done := make(chan struct{})
	go func() { // ends when the lease does, or with the test
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
			_, _ = p.Exists(asking, made) // a missing answer only fails to extend the lease
			stop()
			time.Sleep(50 * time.Millisecond)
		}
		_ = cmd.Process.Kill() // cannot fail before Wait
		_ = cmd.Wait()         // reports the kill
	}()
	t.Cleanup(func() { cancel(); <-done })
	k.waitFirst = func() { <-done }
	return k
}

// finish ends the commands and checks the second client's exit status. The second client may
// have lost the lock again, if its servers needed longer for the election than its session
// lasts.
func (k *contest) finish(t *testing.T) {
	k.stop(t)
	if status := exitStatus(t, k.second); status != 0 && status != commands.StatusLockLost {
		t.Errorf("%s: the second ends with status %d", k.path, status)
	}
}

// stop makes the commands end.
func (k *contest) stop(t *testing.T) {
	zktest.Must(t, os.WriteFile(filepath.Join(k.dir, "stop"), nil, 0o600))
}

// judge reads the lines of the witnesses in the order in which they wrote them, and reports
// whether both held the lock at the same time.
func (k *contest) judge(t *testing.T, begin time.Time) (overlap bool, story string) {
	text, err := os.ReadFile(filepath.Join(k.dir, "log"))
	zktest.Must(t, err)
	var gone, held time.Duration
	var token int64
	for line := range strings.Lines(string(text)) {
		var name, hex, when string
		if _, err := fmt.Sscan(line, &name, &hex, &when); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		n, err := strconv.ParseInt(hex, 0, 64)
		zktest.Must(t, err)
		// Both held the lock if a smaller token follows a larger one, or if the kernel's lock
		// was taken.
		overlap = overlap || n < token || when == "taken"
		token = max(token, n)
		nano, err := strconv.ParseInt(when, 10, 64)
		switch {
		case err != nil: // the word "taken" in place of a time
		case name == "first":
			gone = time.Unix(0, nano).Sub(begin)
		case held == 0:
			held = time.Unix(0, nano).Sub(begin)
		}
	}
	return overlap, fmt.Sprintf("the first was gone %.1f s after the cut, the second held at %.1f s", gone.Seconds(), held.Seconds())
}
