//go:build unix

package e2e

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/internal/zktest/zksession"
)

var failovers = flag.Int("failovers", 0, "so many holders of locks, with sessions of 10 s to 30 s, lose the server they are at "+
	"to silence, and no command must notice; 0: six, with 12 s to 14 s")

// Of two servers the one that a holder is connected to falls silent, at any moment:
// no command under a lock is ended, and the lock stays its holder's, whose session
// would be over by the end had it not moved.
func TestFailoverKeepsTheCommand(t *testing.T) {
	t.Parallel()
	zktest.Need(t, exec.Command("flock", "--version").Run() == nil, "util-linux")
	servers := zktest.Ensemble(t, 3, zktest.Heap(64), zktest.Ticks(int(tick.Milliseconds()), 10, syncLimit))
	truth := zksession.Open(t, zkconn.Config{Servers: servers[2].Addr(), Timeout: zktest.Patience})
	if *failovers > 0 {
		reportAll(t, desert(t, servers, truth, *failovers, 10*time.Second, 30*time.Second))
		return
	}
	noticed := desert(t, servers, truth, 6, 12*time.Second, 14*time.Second)
	if len(noticed) > 0 { // the machine may be too busy for an eighth of such a session, in which all has to be done
		t.Logf("once more, with sessions that last longer, as: %s", noticed)
		noticed = desert(t, servers, truth, 6, 36*time.Second, 40*time.Second)
	}
	reportAll(t, noticed)
}

func reportAll(t *testing.T, noticed []string) {
	for _, what := range noticed {
		t.Error(what)
	}
}

// desert has the servers of so many holders fall silent, and returns what of it was
// noticed. That two held a lock together is an error at once.
func desert(t *testing.T, servers []*zktest.Server, truth *zkconn.Session, holders int, shortest, longest time.Duration) (noticed []string) {
	var all []*desertion
	for range holders {
		all = append(all, newDesertion(t, servers, shortest+rand.N(longest-shortest)))
	}
	for _, d := range all {
		d.prepare(t, truth, servers[2].Addr())
	}
	for _, d := range all {
		d.wait(t)
	}
	for _, d := range all {
		noticed = append(noticed, d.check(t, truth)...)
	}
	return noticed
}

// desertion is a lock whose holder's server falls silent.
type desertion struct {
	*contest
	timeout, after time.Duration // of the session; from when the command runs until the silence
	proxies        []*zktest.Proxy
	first          *exec.Cmd
	begin, silence time.Time
	names          []string // of the lock's znodes
	moved          bool     // the holder was at both servers before
}

func newDesertion(t *testing.T, servers []*zktest.Server, timeout time.Duration) *desertion {
	d := &desertion{contest: newContest(t, "left"), timeout: timeout, after: rand.N(timeout)}
	d.every = "1"
	for _, s := range servers[:2] {
		d.proxies = append(d.proxies, zktest.NewProxy(t, s.Addr()))
	}
	d.first = d.zksh(t, "first", d.proxies[0].Addr()+","+d.proxies[1].Addr(), timeout)
	return d
}

// prepare waits until the first client holds the lock and a second one waits for
// it, and orders the silence.
func (d *desertion) prepare(t *testing.T, truth *zkconn.Session, others string) {
	zktest.Eventually(t, "the first holds", func() bool { return d.began("first") })
	d.begin = time.Now()
	d.second = d.zksh(t, "second", others, d.timeout)
	zktest.Eventually(t, "the second waits", func() bool {
		d.names = d.znodes(t, truth)
		return len(d.names) == 2
	})
	if len(d.proxies[0].Requests()) == 0 {
		slices.Reverse(d.proxies)
	} else if len(d.proxies[1].Requests()) > 0 {
		d.moved = true
	}
	d.silence = d.begin.Add(d.after)
	hold := time.AfterFunc(time.Until(d.silence), func() { d.proxies[0].Hold(true) })
	t.Cleanup(func() { hold.Stop() })
}

func (d *desertion) znodes(t *testing.T, truth *zkconn.Session) []string {
	list, err := zkconn.Do(zktest.Within(t), truth, zkconn.List(d.path))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(list.Names)
	return list.Names
}

// wait waits until the silent server could have kept nobody's session.
func (d *desertion) wait(t *testing.T) {
	time.Sleep(time.Until(d.silence.Add(d.timeout + 2*tick)))
}

func (d *desertion) check(t *testing.T, truth *zkconn.Session) (noticed []string) {
	story := fmt.Sprintf("%s: a session of %s, silence after %s", d.path, d.timeout, d.after)
	if d.moved {
		noticed = append(noticed, story+": the holder was at both servers before")
	}
	if len(d.proxies[1].Requests()) == 0 {
		noticed = append(noticed, story+": nothing was asked of the other server")
	}
	if d.began("second") {
		noticed = append(noticed, story+": the lock has another holder")
	}
	if names := d.znodes(t, truth); !slices.Equal(names, d.names) {
		noticed = append(noticed, fmt.Sprintf("%s: the lock's znodes were %q and are %q", story, d.names, names))
	}
	d.stop(t)
	if status := exitStatus(t, d.first); status != 0 {
		noticed = append(noticed, fmt.Sprintf("%s: the holder ends with status %d", story, status))
	}
	wantExit(t, d.second, 0)
	overlap, _ := d.judge(t, d.begin)
	if overlap {
		t.Errorf("%s: two clients held the lock together", story)
	}
	t.Log(story)
	return noticed
}
