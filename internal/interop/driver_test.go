package interop

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/zktest"
)

// A driver is a program that runs many clients. It reads commands, one per line, in the format
// CLIENT COMMAND ARG…, and answers CLIENT ANSWER when a command is done. The programs are in
// testdata.
type driver struct {
	t    *testing.T
	cmd  *exec.Cmd
	end  context.CancelCauseFunc // prints the program's stacks and kills it, for this reason
	errs bytes.Buffer
	done chan struct{} // closed at the end of the program's output

	retries atomic.Int32 // number of locks that were acquired only by a second check, without a watch event

	mu      sync.Mutex
	killed  bool // kill was called
	in      io.WriteCloser
	remotes map[string]*remote
}

// A remote is a client of a driver. It executes one command at a time.
type remote struct {
	d       *driver
	name    string
	answers chan string
	revoked chan struct{} // receives a value when the holder is asked to release the lock
}

// startDriver starts a driver. It ends with the test.
func startDriver(t *testing.T, args []string) *driver {
	t.Helper()
	d, err := newDriver(t, args)
	zktest.Must(t, err)
	return d
}

// newDriver is startDriver for goroutines other than that of the test.
func newDriver(t *testing.T, args []string) (*driver, error) {
	ctx, end := context.WithCancelCause(context.Background())
	t.Cleanup(func() { end(nil) })
	d := &driver{t: t, end: end, done: make(chan struct{}), remotes: map[string]*remote{}}
	d.cmd = zktest.Command(ctx, t, args[0], args[1:]...)
	d.cmd.Stderr = &d.errs
	out, err := d.cmd.StdoutPipe()
	if err == nil {
		d.in, err = d.cmd.StdinPipe()
	}
	if err == nil {
		err = d.cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	go d.read(out) // ends with the program
	t.Cleanup(d.stop)
	return d, nil
}

// kill kills the program, as in a crash.
func (d *driver) kill() {
	d.mu.Lock()
	d.killed = true
	d.mu.Unlock()
	_ = d.cmd.Process.Kill() // fails if the program has ended
}

// ended reports whether the program has ended.
func (d *driver) ended() bool {
	select {
	case <-d.done:
		return true
	default:
		return false
	}
}

// stop closes the program's input, which makes the program exit.
func (d *driver) stop() {
	zktest.Check(d.t, d.in.Close())
	late := time.AfterFunc(zktest.Patience, func() { d.end(errors.New("it did not end with its input")) })
	defer late.Stop()
	<-d.done
	if err := d.cmd.Wait(); err != nil && !d.killed {
		d.t.Errorf("%s: %v\n%s", d.cmd.Path, err, d.errs.Bytes())
	}
}

func (d *driver) read(out io.Reader) {
	defer close(d.done)
	for s := bufio.NewScanner(out); s.Scan(); {
		name, answer, _ := strings.Cut(s.Text(), " ")
		d.mu.Lock()
		r := d.remotes[name]
		d.mu.Unlock()
		if r == nil {
			d.t.Errorf("%s says %q", d.cmd.Path, s.Text())
			continue
		}
		if answer != "asked" {
			r.answers <- answer
			continue
		}
		select {
		case r.revoked <- struct{}{}:
		default: // one value is enough
		}
	}
}

// remote creates a client without a connection.
func (d *driver) remote(name string) *remote {
	r := &remote{d: d, name: name, answers: make(chan string, 1), revoked: make(chan struct{}, 1)}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.remotes[name] = r
	return r
}

// client creates a client that is connected until the end of the test.
func (d *driver) client(ctx context.Context, t *testing.T, name, addr string) (*remote, error) {
	r := d.remote(name)
	if err := r.do(ctx, "open", addr, fmt.Sprint(sessionTimeout.Milliseconds())); err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), zktest.Patience)
		defer cancel()
		zktest.Check(t, r.do(ctx, "close"))
	})
	return r, nil
}

// do sends a command, and returns an error if the answer is not ok.
func (r *remote) do(ctx context.Context, words ...string) error {
	answer, err := r.ask(ctx, words...)
	if err == nil && answer != "ok" {
		err = fmt.Errorf("%s: %s", strings.Join(words, " "), answer)
	}
	return err
}

// ask sends a command and waits for its answer.
func (r *remote) ask(ctx context.Context, words ...string) (answer string, err error) {
	r.d.mu.Lock()
	_, err = fmt.Fprintln(r.d.in, r.name, strings.Join(words, " "))
	r.d.mu.Unlock()
	if err != nil {
		return "", err
	}
	select {
	case answer := <-r.answers:
		return answer, nil
	case <-r.d.done:
		return "", errors.New("the driver has ended")
	case <-ctx.Done():
		return "", fmt.Errorf("%s: no answer: %w", strings.Join(words, " "), context.Cause(ctx))
	}
}

// acquire waits for the lock. The driver gives up a little before ctx ends.
func (r *remote) acquire(ctx context.Context, kind, path string) (int64, error) {
	wait := zktest.Patience
	if end, ok := ctx.Deadline(); ok {
		wait = time.Until(end) * 9 / 10
	}
	answer, err := r.ask(ctx, "acquire", kind, path, fmt.Sprint(wait.Milliseconds()))
	switch {
	case err == nil && answer == "got again":
		r.d.retries.Add(1)
	case err == nil && answer != "got":
		err = fmt.Errorf("acquire %s %s: %s", kind, path, answer)
	}
	return 0, err
}

func (r *remote) release(ctx context.Context) error { return r.do(ctx, "release") }

func (r *remote) revoke(ctx context.Context, node string) error {
	return r.do(ctx, "revoke", node)
}
