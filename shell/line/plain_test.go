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

// openIfOdd is an Assistant.Open: an odd number of double quotes leaves one open.
func openIfOdd(before, line string) string {
	if strings.Count(before+line, `"`)%2 == 1 {
		return `"`
	}
	return ""
}

// recorder records the output of an editor.
type recorder struct {
	mu   sync.Mutex
	text strings.Builder
}

func (o *recorder) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *recorder) shown() string {
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
		{"a \"b\nc", "# \"> \"> \n# \n", []string{"interrupted", "EOF"}}, // the end of input first abandons the open quote
		{long + "\nls\n", "# \n# # \n", []string{ErrTooLong.Error(), "ls", "EOF"}},
		{"a \"b\n" + long + "\nls\n", "# \"> \n# # \n", []string{ErrTooLong.Error(), "ls", "EOF"}},
	} {
		var out recorder
		e := newPlainEditor(strings.NewReader(c.typed), &out, atOnce, openIfOdd, nil)
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

// Ctrl-C discards a line with all its continuation lines. After a message, the prompt of the current
// line is shown again. An answer is a single line.
func TestPlainInterrupted(t *testing.T) {
	in, keyboard := io.Pipe()
	defer keyboard.Close()
	var out recorder
	interrupts := make(chan os.Signal)
	e := newPlainEditor(in, &out, atOnce, openIfOdd, interrupts)
	type result struct {
		line string
		err  error
	}
	results := make(chan result)
	read := func(how func(context.Context) (string, error)) {
		ctx := zktest.Within(t)
		go func() { // returns with the line, which want waits for
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

// On a console where Ctrl-C also ends the current read with io.EOF, before or after the signal, the
// editor reports only the interrupt. A Ctrl-C that does not end the read does not affect the next
// line.
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
	e := newPlainEditor(in, io.Discard, atOnce, openIfOdd, interrupts)
	e.interruptDelay = 20 * time.Second
	want := func(text string, err error) {
		t.Helper()
		if got, e := e.ReadLine(zktest.Within(t), sharp); got != text || !errors.Is(e, err) {
			t.Errorf("%q, %v; want %q, %v", got, e, text, err)
		}
	}
	types := func(do func()) { // do returns with the line, which want waits for
		e.readBegan.Store(false) // may still be true from the previous line
		go do()
	}
	types(func() { read <- ""; interrupts <- os.Interrupt })
	want("", ErrInterrupted)
	types(func() { read <- "ls\n" })
	want("ls", nil)
	types(func() { waitForRead(e); interrupts <- os.Interrupt })
	want("", ErrInterrupted)
	types(func() { read <- ""; read <- "pwd\n" })
	want("pwd", nil)
	types(func() { waitForRead(e); interrupts <- os.Interrupt })
	want("", ErrInterrupted)
	types(func() { read <- "stat\n" })
	want("stat", nil)
	e.interruptDelay = time.Millisecond
	types(func() { read <- "" })
	want("", io.EOF)
}

// waitForRead waits until a read has begun.
func waitForRead(e *plainEditor) {
	for !e.readBegan.Load() {
		time.Sleep(time.Millisecond)
	}
}

// A Ctrl-C before the first key does not end the read, so a later io.EOF is the end of input.
func TestPlainCtrlCBeforeTheFirstKey(t *testing.T) {
	key, interrupts := make(chan struct{}), make(chan os.Signal, 1)
	e := newPlainEditor(strings.NewReader(""), io.Discard, func() error { <-key; return nil }, openIfOdd, interrupts)
	e.interruptDelay = time.Millisecond
	interrupts <- os.Interrupt
	if _, err := e.ReadLine(zktest.Within(t), sharp); !errors.Is(err, ErrInterrupted) {
		t.Error(err)
	}
	close(key)
	if _, err := e.ReadLine(zktest.Within(t), sharp); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}

// The editor does not start to read a line before its first key. Otherwise, on a console, a message
// and the new prompt would be printed after the position at which the read began.
func TestPlainAwaitsTheFirstKey(t *testing.T) {
	key, pressed := make(chan struct{}), false
	in := consoleFunc(func(b []byte) (int, error) {
		if !pressed {
			t.Error("it was read too early")
		}
		return copy(b, "ls\n"), nil
	})
	var out recorder
	e := newPlainEditor(in, &out, func() error { <-key; return nil }, openIfOdd, nil)
	go func() { // returns when it closes key, which ReadLine waits for
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

// atOnce returns at once, for an editor that need not wait for the first key.
func atOnce() error { return nil }

// consoleFunc is a reader that calls a function.
type consoleFunc func([]byte) (int, error)

func (f consoleFunc) Read(b []byte) (int, error) { return f(b) }
