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

var failovers = flag.Int("failovers", 0, "number of holders of locks whose server falls silent, with sessions of 10 s to 30 s; "+
	"no command may notice; 0: six, with 12 s to 14 s")

// When the server of a lock's holder falls silent at a random moment, the holder's client moves
// to the other server: the command is not terminated and the holder keeps the lock. Without the
// move, the session would have expired by the end of the test.
func TestFailoverKeepsTheCommand(t *testing.T) {
	t.Parallel()
	zktest.NeedProgram(t, "flock", "util-linux")
	servers := zktest.Ensemble(t, 3, zktest.Heap(64), zktest.Ticks(int(tick.Milliseconds()), 10, syncLimit))
	observer := zksession.Open(t, zkconn.Config{Servers: servers[2].Addr(), Timeout: zktest.Patience})
	if *failovers > 0 {
		reportAll(t, silenceServers(t, servers, observer, *failovers, 10*time.Second, 30*time.Second))
		return
	}
	noticed := silenceServers(t, servers, observer, 6, 12*time.Second, 14*time.Second)
	if len(noticed) > 0 { // a busy machine may need more than an eighth of such a session, the time that the client has
		t.Logf("once more, with sessions that last longer, as: %s", noticed)
		noticed = silenceServers(t, servers, observer, 6, 36*time.Second, 40*time.Second)
	}
	reportAll(t, noticed)
}

func reportAll(t *testing.T, noticed []string) {
	for _, what := range noticed {
		t.Error(what)
	}
}

// silenceServers makes the servers of the given number of holders fall silent and returns the
// problems that the holders noticed. If two clients hold a lock together, the test fails at
// once.
func silenceServers(t *testing.T, servers []*zktest.Server, observer *zkconn.Session, holders int, shortest, longest time.Duration) (noticed []string) {
	var all []*silencedHolder
	for range holders {
		all = append(all, newSilencedHolder(t, servers, shortest+rand.N(longest-shortest)))
	}
	for _, d := range all {
		d.prepare(t, observer, servers[2].Addr())
	}
	for _, d := range all {
		d.wait()
	}
	for _, d := range all {
		noticed = append(noticed, d.check(t, observer)...)
	}
	return noticed
}

// A silencedHolder is the holder of a lock whose server falls silent.
type silencedHolder struct {
	*contest
	timeout, after time.Duration // session timeout; time from the start of the command to the silence
	proxies        []*zktest.Proxy
	first          *exec.Cmd
	begin, silence time.Time
	names          []string // names of the lock's znodes
	moved          bool     // the holder had been connected to both servers before the silence
}

func newSilencedHolder(t *testing.T, servers []*zktest.Server, timeout time.Duration) *silencedHolder {
	d := &silencedHolder{contest: newContest(t, "left"), timeout: timeout, after: rand.N(timeout)}
	d.every = "1"
	for _, s := range servers[:2] {
		d.proxies = append(d.proxies, zktest.NewProxy(t, s.Addr()))
	}
	d.first = d.zksh(t, "first", d.proxies[0].Addr()+","+d.proxies[1].Addr(), timeout)
	return d
}

// prepare waits until the first client holds the lock and a second one waits for it, then
// schedules the silence.
func (d *silencedHolder) prepare(t *testing.T, observer *zkconn.Session, others string) {
	zktest.Eventually(t, "the first holds", func() bool { return d.began("first") })
	d.begin = time.Now()
	d.second = d.zksh(t, "second", others, d.timeout)
	zktest.Eventually(t, "the second waits", func() bool {
		d.names = d.znodes(t, observer)
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

func (d *silencedHolder) znodes(t *testing.T, observer *zkconn.Session) []string {
	list, err := zkconn.Do(zktest.Within(t), observer, zkconn.List(d.path))
	zktest.Must(t, err)
	slices.Sort(list.Names)
	return list.Names
}

// wait waits until any session at the silent server would have expired.
func (d *silencedHolder) wait() {
	time.Sleep(time.Until(d.silence.Add(d.timeout + 2*tick)))
}

func (d *silencedHolder) check(t *testing.T, observer *zkconn.Session) (noticed []string) {
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
	if names := d.znodes(t, observer); !slices.Equal(names, d.names) {
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
