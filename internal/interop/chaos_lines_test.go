//go:build linux

package interop

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/zktest"
)

// beatInterval is the interval between log entries of a section in the process of the test.
const beatInterval = 50 * time.Millisecond

// stayInSection runs a section in the process of the test. It lasts as long as one of
// witness.sh, or until mayGoOn returns false.
func (z *chaosClient) stayInSection(s logEntry, during time.Duration, mayGoOn func() bool) error {
	end := time.Now().Add(during)
	for s.what = "begin"; mayGoOn(); s.what = "beat" {
		if time.Now().After(end) && !exists(z.holdFile()) {
			s.what = "end"
			return z.oracle.record(s)
		}
		if err := z.oracle.record(s); err != nil {
			return err
		}
		time.Sleep(beatInterval)
	}
	return nil
}

// sequenceNumber returns the number at the end of a znode's name.
func sequenceNumber(node string) (int64, error) {
	return strconv.ParseInt(node[max(0, len(node)-10):], 10, 64)
}

// lockNotices holds the state of a lock that zksh reports to a user who holds the lock
// between the lines of a script.
type lockNotices struct {
	mu        sync.Mutex
	safeUntil time.Time // end of the time for which the lock is safe; zero if zksh reported no limit
	lost      bool
	text      strings.Builder
}

func (n *lockNotices) read(line string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.text.WriteString(line + "\n")
	_, safe, told := strings.Cut(line, "the lock is safe for another ")
	switch {
	case told:
		d, err := time.ParseDuration(safe)
		if err == nil {
			n.safeUntil = time.Now().Add(d)
		}
		n.lost = n.lost || err != nil
	case strings.Contains(line, "still held"):
		n.safeUntil, n.lost = time.Time{}, false
	case strings.Contains(line, "presumed lost"), strings.Contains(line, "is lost"):
		n.lost = true
	}
}

// safe reports whether the lock is still safe according to the notices.
func (n *lockNotices) safe() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.lost && (n.safeUntil.IsZero() || time.Now().Before(n.safeUntil))
}

// A lineSession is a zksh whose input lines are sent one by one, each after the answer to the
// line before.
type lineSession struct {
	in      io.WriteCloser
	answers chan string   // lines of standard output; closed when zksh has ended
	failed  chan struct{} // receives a value when a line has failed
	notices lockNotices
	readers sync.WaitGroup // goroutines that end with zksh
}

// readOutput starts reading the outputs of zksh.
func (c *lineSession) readOutput(out, errs io.Reader) {
	c.answers, c.failed = make(chan string, 1), make(chan struct{}, 1)
	c.readers.Go(func() {
		defer close(c.answers)
		for s := bufio.NewScanner(out); s.Scan(); {
			c.answers <- s.Text()
		}
	})
	c.readers.Go(func() {
		for s := bufio.NewScanner(errs); s.Scan(); {
			c.notices.read(s.Text())
			if strings.HasPrefix(s.Text(), "stdin:") {
				select {
				case c.failed <- struct{}{}:
				default: // only the first failure counts
				}
			}
		}
	})
}

// ask sends a line and waits for its answer. ok is false if the line fails or zksh ends.
func (c *lineSession) ask(words ...string) (answer string, ok bool) {
	if _, err := fmt.Fprintln(c.in, strings.Join(words, " ")); err != nil {
		return "", false
	}
	select {
	case answer, ok = <-c.answers:
	case <-c.failed:
	}
	return answer, ok
}

// lineBatch takes and releases the lock with lines of a script, and enters sections between
// them. A section ends early if zksh reports that the lock is lost.
func (z *chaosClient) lineBatch(final bool) (held bool) {
	t := &trip{client: z}
	cmd := z.zksh(append(z.options(true), "-q")...)
	c := &lineSession{}
	in, err := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	errs, errsErr := cmd.StderrPipe()
	if err = errors.Join(err, outErr, errsErr); err == nil {
		err = z.startTrip(t, cmd)
	}
	if err != nil {
		z.chaos.t.Error(err)
		return false
	}
	c.in = in
	c.readOutput(out, errs)
	asked, whole := 1+z.rand.IntN(4), 0
	for ; whole < asked; whole++ {
		if !z.lockByLine(t, c, final) {
			break
		}
	}
	_ = in.Close() // fails if zksh has ended
	for range c.answers {
		// Discard answers. A line can fail and still get an answer, for example if the session
		// ended while zksh was waiting for the lock.
	}
	c.readers.Wait()
	_ = cmd.Wait() // mismatch checks the status later
	t.errs = c.notices.text.String()
	t.checkStatus = func(status int) string {
		switch {
		case status == commands.StatusOK && whole == asked && !c.notices.lost,
			status == commands.StatusLockLost && whole < asked && strings.Contains(t.errs, "lost"),
			status == commands.StatusNoServer && (whole < asked || strings.Contains(t.errs, "the session expired")),
			status == commands.StatusUnconfirmed && whole < asked && strings.Contains(t.errs, "not confirmed"):
			return ""
		}
		return fmt.Sprintf("%d of %d locks were held and released", whole, asked)
	}
	z.finishTrip(t, cmd)
	return whole == asked
}

// lockByLine takes and releases the lock once.
func (z *chaosClient) lockByLine(t *trip, c *lineSession, final bool) (held bool) {
	s := z.section()
	c.notices.mu.Lock()
	c.notices.safeUntil = time.Time{}
	c.notices.mu.Unlock()
	answer, ok := c.ask(append(z.lockCommand(), z.oracle.path)...)
	if !ok {
		return false
	}
	in, _, ok := z.entryOf(s, answer)
	if !ok {
		return false
	}
	alive := func() bool {
		z.mu.Lock()
		defer z.mu.Unlock()
		return !t.killed && c.notices.safe()
	}
	zktest.Check(z.chaos.t, z.stayInSection(in, z.sectionLength(final), alive))
	answer, ok = c.ask("unlock", z.oracle.path)
	if ok && !strings.HasPrefix(answer, "unlocked ") {
		z.chaos.t.Errorf("%s: unlock answers %q", z.name, answer)
	}
	return ok
}

// A foreignClient is a client of Curator or kazoo in a separate program.
type foreignClient struct {
	kind    string
	program []string
	client  *remote // nil while there is no session
}

// hold takes the lock and releases it. After an error, or if it did not get the lock in time,
// the next trip uses another session, or another program. Otherwise kazoo could deadlock with
// itself: if it has no connection when it gives up, its znode may stay in the queue.
func (s *foreignClient) hold(z *chaosClient, final bool) (held bool) {
	ctx, cancel := context.WithTimeout(context.Background(), zktest.Patience)
	defer cancel()
	err := s.open(ctx, z)
	if err == nil {
		held, err = s.once(ctx, z, final)
	}
	if err == nil && held && !final {
		return true
	}
	if d := s.client.d; s.client.do(ctx, "close") != nil {
		d.kill()
		<-d.done
	}
	s.client = nil
	return held
}

// open starts the program and opens a session, unless they exist.
func (s *foreignClient) open(ctx context.Context, z *chaosClient) error {
	if s.client != nil {
		return nil
	}
	z.mu.Lock()
	if z.driver == nil || z.driver.ended() {
		d, err := newDriver(z.chaos.t, s.program)
		if err != nil {
			z.mu.Unlock()
			return err
		}
		z.driver, z.process = d, d.cmd.Process
	}
	s.client = z.driver.remote(z.name)
	z.mu.Unlock()
	return s.client.do(ctx, "open", z.servers(true), fmt.Sprint(chaosTimeout.Milliseconds()))
}

// once takes and releases the lock. It returns false if it does not get the lock in time.
func (s *foreignClient) once(ctx context.Context, z *chaosClient, final bool) (held bool, err error) {
	const patience = 20 * time.Second
	answer, err := s.client.ask(ctx, "acquire", s.kind, z.oracle.path, fmt.Sprint(patience.Milliseconds()))
	if err != nil || answer == "busy" {
		return false, err
	}
	in := logEntry{section: z.section(), mode: foreign, token: "-"}
	node, err := s.client.ask(ctx, "node")
	if err == nil {
		in.number, err = sequenceNumber(node)
	}
	if err != nil {
		return false, fmt.Errorf("%s, %s: %w", answer, node, err)
	}
	alive := func() bool { return !s.client.d.ended() }
	if err := z.stayInSection(in, z.sectionLength(final), alive); err != nil {
		return false, err
	}
	err = s.client.do(ctx, "release")
	return err == nil, err
}
