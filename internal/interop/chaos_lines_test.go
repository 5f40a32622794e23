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

// beat is how often a section in the test's own process tells of itself.
const beat = 50 * time.Millisecond

// stay is such a section: it lasts as a witness does, or until it is not to go on.
func (z *contestant) stay(s sight, during time.Duration, mayGoOn func() bool) error {
	end := time.Now().Add(during)
	for s.what = "begin"; mayGoOn(); s.what = "beat" {
		if time.Now().After(end) && !exists(z.stays()) {
			s.what = "end"
			return z.o.say(s)
		}
		if err := z.o.say(s); err != nil {
			return err
		}
		time.Sleep(beat)
	}
	return nil
}

// number is the end of a znode's name.
func number(node string) (int64, error) {
	return strconv.ParseInt(node[max(0, len(node)-10):], 10, 64)
}

// news is what a person who holds a lock between the lines of a batch is told.
type news struct {
	mu    sync.Mutex
	until time.Time // how long it is safe; zero: as far as is known
	lost  bool
	all   strings.Builder
}

func (n *news) hear(line string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all.WriteString(line + "\n")
	_, safe, told := strings.Cut(line, "the lock is safe for another ")
	switch {
	case told:
		d, err := time.ParseDuration(safe)
		if err == nil {
			n.until = time.Now().Add(d)
		}
		n.lost = n.lost || err != nil
	case strings.Contains(line, "still held"):
		n.until, n.lost = time.Time{}, false
	case strings.Contains(line, "presumed lost"), strings.Contains(line, "is lost"):
		n.lost = true
	}
}

// safe reports whether one may go on.
func (n *news) safe() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.lost && (n.until.IsZero() || time.Now().Before(n.until))
}

// conversation is a batch whose lines are written one after the other was answered.
type conversation struct {
	in      io.WriteCloser
	answers chan string   // closed when zksh has ended
	refused chan struct{} // receives when a line has failed
	news    news
	readers sync.WaitGroup // until zksh ends
}

// listen reads what zksh says.
func (c *conversation) listen(out, errs io.Reader) {
	c.answers, c.refused = make(chan string, 1), make(chan struct{}, 1)
	c.readers.Go(func() {
		defer close(c.answers)
		for s := bufio.NewScanner(out); s.Scan(); {
			c.answers <- s.Text()
		}
	})
	c.readers.Go(func() {
		for s := bufio.NewScanner(errs); s.Scan(); {
			c.news.hear(s.Text())
			if strings.HasPrefix(s.Text(), "stdin:") {
				select {
				case c.refused <- struct{}{}:
				default: // the first one ends the conversation
				}
			}
		}
	})
}

// ask writes a line and waits for its answer; there is none when it fails, or zksh
// ends.
func (c *conversation) ask(words ...string) (answer string, ok bool) {
	if _, err := fmt.Fprintln(c.in, strings.Join(words, " ")); err != nil {
		return "", false
	}
	select {
	case answer, ok = <-c.answers:
	case <-c.refused:
	}
	return answer, ok
}

// byLines locks and unlocks by the lines of a batch, and works between them as long
// as it is not told of a loss.
func (z *contestant) byLines(calm bool) (held bool) {
	t := &trip{z: z}
	cmd := z.zksh(append(z.options(true), "-q")...)
	c := &conversation{}
	in, err := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	errs, errsErr := cmd.StderrPipe()
	if err = errors.Join(err, outErr, errsErr); err == nil {
		err = z.set(t, cmd)
	}
	if err != nil {
		z.c.t.Error(err)
		return false
	}
	c.in = in
	c.listen(out, errs)
	asked, whole := 1+z.r.IntN(4), 0
	for ; whole < asked; whole++ {
		if !z.byLine(t, c, calm) {
			break
		}
	}
	_ = in.Close() // it may have ended
	for range c.answers {
		// What was told of a failure first, such as the end of a session in which the
		// lock was waited for, can have had an answer, too.
	}
	c.readers.Wait()
	_ = cmd.Wait() // its status is judged later
	t.errs = c.news.all.String()
	t.claim = func(status int) string {
		switch {
		case status == commands.StatusOK && whole == asked && !c.news.lost,
			status == commands.StatusLockLost && whole < asked && strings.Contains(t.errs, "lost"),
			status == commands.StatusNoServer && (whole < asked || strings.Contains(t.errs, "the session expired")),
			status == commands.StatusFailed && whole < asked && strings.Contains(t.errs, "not confirmed"):
			return ""
		}
		return fmt.Sprintf("%d of %d locks were held and released", whole, asked)
	}
	z.arrived(t, cmd)
	return whole == asked
}

// byLine takes the lock once.
func (z *contestant) byLine(t *trip, c *conversation, calm bool) (held bool) {
	s := z.section()
	c.news.mu.Lock()
	c.news.until = time.Time{}
	c.news.mu.Unlock()
	answer, ok := c.ask(append(z.lock(), z.o.path)...)
	if !ok {
		return false
	}
	in := sight{section: s, mode: z.mode}
	var err error
	for word := range strings.FieldsSeq(answer) {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "node":
			in.number, err = number(value)
		case "token":
			in.token = value
		}
	}
	if err != nil || in.token == "" || !strings.HasPrefix(answer, "locked ") {
		z.c.t.Errorf("%s: lock answers %q", z.name, answer)
		return false
	}
	alive := func() bool {
		z.mu.Lock()
		defer z.mu.Unlock()
		return !t.killed && c.news.safe()
	}
	if err := z.stay(in, z.during(calm), alive); err != nil {
		z.c.t.Error(err)
	}
	answer, ok = c.ask("unlock", z.o.path)
	if ok && !strings.HasPrefix(answer, "unlocked ") {
		z.c.t.Errorf("%s: unlock answers %q", z.name, answer)
	}
	return ok
}

// stranger is a client of Curator or kazoo, in a program of its own.
type stranger struct {
	kind    string
	program []string
	client  *remote // nil without a session
}

// hold takes the lock and releases it, as its client sees it. After any error, and
// a wait that was given up, it goes on in another session, or in another program:
// kazoo may leave its znode in the queue if it has no connection just then, and would
// wait for that itself.
func (s *stranger) hold(z *contestant, calm bool) (held bool) {
	ctx, cancel := context.WithTimeout(context.Background(), zktest.Patience)
	defer cancel()
	err := s.open(ctx, z)
	if err == nil {
		held, err = s.once(ctx, z, calm)
	}
	if err == nil && held && !calm {
		return true
	}
	if d := s.client.d; s.client.want(ctx, "ok", "close") != nil {
		d.kill()
		<-d.done
	}
	s.client = nil
	return held
}

// open starts the program and a session, if need be.
func (s *stranger) open(ctx context.Context, z *contestant) error {
	if s.client != nil {
		return nil
	}
	z.mu.Lock()
	if z.driver == nil || z.driver.ended() {
		d, err := newDriver(z.c.t, s.program)
		if err != nil {
			z.mu.Unlock()
			return err
		}
		z.driver, z.process = d, d.cmd.Process
	}
	s.client = z.driver.remote(z.name)
	z.mu.Unlock()
	return s.client.want(ctx, "ok", "open", z.servers(true), fmt.Sprint(chaosTimeout.Milliseconds()))
}

// once takes the lock if it can be had in time.
func (s *stranger) once(ctx context.Context, z *contestant, calm bool) (held bool, err error) {
	const patience = 20 * time.Second
	answer, err := s.client.ask(ctx, "acquire", s.kind, z.o.path, fmt.Sprint(patience.Milliseconds()))
	if err != nil || answer == "busy" {
		return false, err
	}
	in := sight{section: z.section(), mode: foreign, token: "-"}
	node, err := s.client.ask(ctx, "node")
	if err == nil {
		in.number, err = number(node)
	}
	if err != nil {
		return false, fmt.Errorf("%s, %s: %w", answer, node, err)
	}
	alive := func() bool { return !s.client.d.ended() }
	if err := z.stay(in, z.during(calm), alive); err != nil {
		return false, err
	}
	err = s.client.want(ctx, "ok", "release")
	return err == nil, err
}
