package shell

import (
	"context"
	"testing"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/shell/exit"
)

// The errors of the shell itself have the right exit statuses.
func TestStatusOfShellErrors(t *testing.T) {
	for want, err := range map[int]error{commands.StatusNoServer: expiredError{}, commands.StatusInterrupted: abandonedError{}} {
		if got := exit.Status(err); got != want {
			t.Errorf("%v has status %d, want %d", err, got, want)
		}
	}
}

func TestJavaDecode(t *testing.T) {
	for in, want := range map[string]int{"0": 0, "7": 7, "-1": -1, "+3": 3, "0x1f": 31, "0X1F": 31, "#10": 16, "010": 8, "-0x2": -2} {
		if got, err := javaDecode(in); err != nil || got != want {
			t.Errorf("javaDecode(%q) = %d, %v; want %d", in, got, err, want)
		}
	}
	for _, in := range []string{"", "abc", "0x", "08", "1_0", "99999999999", "--1", "+-1", "1 ", "0b1"} {
		if n, err := javaDecode(in); err == nil {
			t.Errorf("javaDecode(%q) = %d, want an error", in, n)
		}
	}
}

func TestPromptCountsLocks(t *testing.T) {
	session, err := zkconn.Open(zkconn.Config{Servers: "127.0.0.1:1", Timeout: time.Second})
	zktest.Must(t, err)
	defer func() {
		zktest.Check(t, session.Close(context.Background()))
	}()
	held := 0
	s := New(Config{Session: session, Commands: [][]*commands.Command{commands.All()}, Locks: fakeLocks{func() int { return held }}})
	for n, want := range []string{
		"[zk: 127.0.0.1:1(CONNECTING) 0] ", "[zk: 127.0.0.1:1(CONNECTING, 1 lock) 0] ", "[zk: 127.0.0.1:1(CONNECTING, 2 locks) 0] ",
	} {
		held = n
		if got := (&interactive{s: s}).prompt(); got.Text != want || !got.Alert {
			t.Errorf("%d: %+v, want %q", n, got, want)
		}
	}
	s.cfg.Locks = nil
	for folder, want := range map[string]string{
		"/": "", "/app": " /app", "/a\x1b[2J": ` /a\x1b[2J`, "/long/names/of/folders/and/文件": " /long/names…ers/and/文件",
	} {
		s.folder.move(folder)
		if got := (&interactive{s: s}).prompt().Text; got != "[zk: 127.0.0.1:1(CONNECTING)"+want+" 0] " {
			t.Errorf("%q in %s", got, folder)
		}
	}
}

// fakeLocks is a Locks that returns the number of held locks from a function.
type fakeLocks struct{ held func() int }

func (fakeLocks) Guarding() bool                            { return false }
func (c fakeLocks) Held() (held, gone int)                  { return c.held(), 0 }
func (fakeLocks) Paths() []string                           { return []string{"/locks/a", "/locks/文 b"} }
func (fakeLocks) Lost() error                               { return nil }
func (fakeLocks) Release(context.Context) ([]string, error) { return nil, nil }
