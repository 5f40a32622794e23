package line

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/zktest"
)

// openIfOdd stands in for a shell: an odd number of double quotes leaves one open.
func openIfOdd(before, line string) string {
	if strings.Count(before+line, `"`)%2 == 1 {
		return `"`
	}
	return ""
}

// output is what an editor has shown.
type output struct {
	mu   sync.Mutex
	text strings.Builder
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) shown() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func sharp() Prompt { return Prompt{Text: "# "} }

func TestPlain(t *testing.T) {
	long := strings.Repeat("x", maxTyped)
	for _, c := range []struct {
		typed, shown string
		want         []string // lines, or errors
	}{
		{"ls /\n\nls\r\nlast", "# # # # # \n", []string{"ls /", "", "ls", "last", "EOF"}},
		{"a \"b\n中\n\tc\" \"\n\"\nd\n", "# \"> \"> \"> # # \n", []string{"a \"b\n中\n\tc\" \"\n\"", "d", "EOF"}},
		{"a \"b\nc", "# \"> \"> \n# \n", []string{"interrupted", "EOF"}}, // the end leaves what is open first
		{long + "\nls\n", "# \n# # \n", []string{ErrTooLong.Error(), "ls", "EOF"}},
		{"a \"b\n" + long + "\nls\n", "# \"> \n# # \n", []string{ErrTooLong.Error(), "ls", "EOF"}},
	} {
		var out output
		e := newPlain(strings.NewReader(c.typed), &out, atOnce, openIfOdd, nil)
		for _, want := range c.want {
			got, err := e.ReadLine(zktest.Within(t), sharp)
			if err != nil {
				if got != "" {
					t.Errorf("%.20q: %v with the line %q", c.typed, err, got)
				}
				got = err.Error()
			}
			if got != want {
				t.Errorf("%.20q: %q, want %q", c.typed, got, want)
			}
		}
		if out.shown() != c.shown {
			t.Errorf("%.20q shows %q, want %q", c.typed, out.shown(), c.shown)
		}
	}
}

// Ctrl-C drops all lines that belong together; a message shows the prompt of the
// line it comes in again; an answer is one line.
func TestPlainInterrupted(t *testing.T) {
	in, keyboard := io.Pipe()
	defer keyboard.Close()
	var out output
	interrupts := make(chan os.Signal)
	e := newPlain(in, &out, atOnce, openIfOdd, interrupts)
	type result struct {
		line string
		err  error
	}
	results := make(chan result)
	read := func(how func(context.Context) (string, error)) {
		ctx := zktest.Within(t)
		go func() { // ends with the line, which is waited for
			line, err := how(ctx)
			results <- result{line, err}
		}()
	}
	want := func(line string, err error) {
		t.Helper()
		if r := <-results; r.line != line || !errors.Is(r.err, err) {
			t.Errorf("%q, %v; want %q, %v", r.line, r.err, line, err)
		}
	}
	shows := func(text string) {
		t.Helper()
		zktest.Eventually(t, text, func() bool { return strings.HasSuffix(out.shown(), text) })
	}
	typeIn := func(text string) {
		if _, err := io.WriteString(keyboard, text); err != nil {
			t.Fatal(err)
		}
	}
	line := func(ctx context.Context) (string, error) { return e.ReadLine(ctx, sharp) }
	read(line)
	typeIn("set \"a\n")
	shows("# \"> ")
	if err := e.Notify("an event\n"); err != nil {
		t.Fatal(err)
	}
	shows("\nan event\n\"> ")
	interrupts <- os.Interrupt
	want("", ErrInterrupted)
	read(line)
	typeIn("ls\n")
	want("ls", nil)
	read(func(ctx context.Context) (string, error) { return e.Ask(ctx, "sure? ") })
	shows("sure? ")
	typeIn("\"y\n")
	want(`"y`, nil)
	ctx, stop := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")
	go func() {
		line, err := line(ctx)
		results <- result{line, err}
	}()
	shows("# ")
	typeIn("\"\n")
	shows("\"> ")
	stop(stopped)
	want("", stopped)
}

// A console's Ctrl-C also ends the read under way, as if the person had left, before it is
// told of or after; one that does not end it leaves what comes next alone.
func TestPlainCtrlCEndsTheRead(t *testing.T) {
	read, keyboard := make(chan string), make(chan struct{})
	t.Cleanup(func() { close(keyboard) })
	in := consoleFunc(func(b []byte) (int, error) {
		select {
		case text := <-read:
			if text == "" {
				return 0, io.EOF
			}
			return copy(b, text), nil
		case <-keyboard:
			return 0, io.EOF
		}
	})
	interrupts := make(chan os.Signal, 1)
	e := newPlain(in, io.Discard, atOnce, openIfOdd, interrupts)
	e.broken = 20 * time.Second
	want := func(text string, err error) {
		t.Helper()
		if got, e := e.ReadLine(zktest.Within(t), sharp); got != text || !errors.Is(e, err) {
			t.Errorf("%q, %v; want %q, %v", got, e, text, err)
		}
	}
	types := func(do func()) { // ends with the line, which is waited for
		e.began.Store(false) // which it may be of the line before
		go do()
	}
	types(func() { read <- ""; interrupts <- os.Interrupt })
	want("", ErrInterrupted)
	types(func() { read <- "ls\n" })
	want("ls", nil)
	types(func() { whenBegun(e); interrupts <- os.Interrupt })
	want("", ErrInterrupted)
	types(func() { read <- ""; read <- "pwd\n" })
	want("pwd", nil)
	types(func() { whenBegun(e); interrupts <- os.Interrupt })
	want("", ErrInterrupted)
	types(func() { read <- "stat\n" })
	want("stat", nil)
	e.broken = time.Millisecond
	types(func() { read <- "" })
	want("", io.EOF)
}

// whenBegun returns once a read has, which it has to within the time of a test.
func whenBegun(e *plainEditor) {
	for !e.began.Load() {
		time.Sleep(time.Millisecond)
	}
}

// A Ctrl-C before the first key ends no read, and the end of input behind it is one.
func TestPlainCtrlCBeforeTheFirstKey(t *testing.T) {
	key, interrupts := make(chan struct{}), make(chan os.Signal, 1)
	e := newPlain(strings.NewReader(""), io.Discard, func() error { <-key; return nil }, openIfOdd, interrupts)
	e.broken = time.Millisecond
	interrupts <- os.Interrupt
	if _, err := e.ReadLine(zktest.Within(t), sharp); !errors.Is(err, ErrInterrupted) {
		t.Error(err)
	}
	close(key)
	if _, err := e.ReadLine(zktest.Within(t), sharp); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}

// A line is not read before its first key, so that a message does not come between where
// a console has it begin and where the prompt stands.
func TestPlainAwaitsTheFirstKey(t *testing.T) {
	key, pressed := make(chan struct{}), false
	in := consoleFunc(func(b []byte) (int, error) {
		if !pressed {
			t.Error("it was read too early")
		}
		return copy(b, "ls\n"), nil
	})
	var out output
	e := newPlain(in, &out, func() error { <-key; return nil }, openIfOdd, nil)
	go func() { // ends with the key, which the line waits for
		defer close(key)
		zktest.Eventually(t, "the prompt", func() bool { return out.shown() == "# " })
		if err := e.Notify("an event\n"); err != nil {
			t.Error(err)
		}
		pressed = true
	}()
	if line, err := e.ReadLine(zktest.Within(t), sharp); line != "ls" || err != nil || out.shown() != "# \nan event\n# " {
		t.Errorf("%q, %v: %q", line, err, out.shown())
	}
}

// atOnce is a terminal whose lines may be read at any time.
func atOnce() error { return nil }

// consoleFunc is what reading from a console comes to.
type consoleFunc func([]byte) (int, error)

func (f consoleFunc) Read(b []byte) (int, error) { return f(b) }
