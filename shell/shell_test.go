package shell

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktree"
)

func TestStatus(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("any"), 1},
		{&zkconn.Error{Code: zkconn.NoNode}, 1},
		{commands.Unmet{}, 1},
		{&commands.UsageError{Problem: "x"}, 2},
		{&zkconn.NoServerError{}, 69},
		{&zkconn.LostError{Cause: errors.New("cut")}, 69},
		{zkconn.ErrNotConnected, 69},
		{&zkconn.Error{Code: zkconn.SessionExpired}, 69},
		{expiredError{}, 69},
		{unknownCommand{"x", ""}, 127},
		{ErrInterrupted, 130},
		{&zkconn.AbandonedError{Cause: ErrInterrupted}, 130},
		{&zktree.PartialError{Cause: ErrInterrupted}, 130},
		{wrapWrite(fmt.Errorf("write: %w", syscall.EPIPE)), 141},
		{ErrTerminated, 143},
		{context.Canceled, 143},
	} {
		if got := Status(c.err); got != c.want {
			t.Errorf("Status(%v) = %d, want %d", c.err, got, c.want)
		}
	}
	listed := map[int]bool{}
	for _, s := range Statuses() {
		listed[s.Status] = true
	}
	for _, s := range []int{0, 1, 2, 69, 127, 130, 141, 143} {
		if !listed[s] {
			t.Errorf("status %d is not listed", s)
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

func TestNearest(t *testing.T) {
	r := New(Config{Commands: [][]*commands.Command{commands.All()}}).Registry()
	for in, want := range map[string]string{
		"gte": "get", "gett": "get", "sl": "ls", "creat": "create", "getacl": "getAcl", "delteall": "deleteall",
		"exti": "exit", "bogus": "", "x": "", "xyzzy": "",
	} {
		if got := r.Nearest(in); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", in, got, want)
		}
	}
}

func parse(t *testing.T, config, server string, args ...string) (Options, error) {
	t.Helper()
	dir := t.TempDir()
	if config != "" {
		if err := os.MkdirAll(filepath.Join(dir, "zksh"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "zksh", "config"), []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return ParseOptions(args, Environment{Getenv: func(k string) string {
		if k == "ZKSH_SERVER" {
			return server
		}
		return ""
	}, ConfigDir: dir, StateDir: dir})
}

func TestOptionsPrecedence(t *testing.T) {
	const config = "# mine\nserver = conf:1\ntimeout=5000\n output = json \nhistory = 0\n"
	for _, c := range []struct{ config, env, arg, want string }{
		{"", "", "", DefaultServer},
		{config, "", "", "conf:1"},
		{config, "env:2", "", "env:2"},
		{config, "env:2", "arg:3", "arg:3"},
	} {
		var args []string
		if c.arg != "" {
			args = []string{"-server", c.arg}
		}
		o, err := parse(t, c.config, c.env, args...)
		if err != nil || o.Server != c.want {
			t.Errorf("%+v: server %q, %v", c, o.Server, err)
		}
		if c.config != "" && (o.Timeout.Milliseconds() != 5000 || o.Format != render.JSON || o.HistoryLines != 0) {
			t.Errorf("the configuration was not taken: %+v", o)
		}
	}
}

func TestOptionsEndAtTheCommand(t *testing.T) {
	for _, args := range [][]string{
		{"-server", "h:1", "-timeout", "7", "-r", "ls", "-R", "/", "-server", "x"},
		{"--server=h:1", "--timeout=7", "--readonly", "ls", "-R", "/", "-server", "x"},
	} {
		o, err := parse(t, "", "", args...)
		if err != nil || o.Server != "h:1" || o.Timeout.Milliseconds() != 7 || !o.ReadOnly || strings.Join(o.Command, " ") != "ls -R / -server x" {
			t.Errorf("%v: %+v, %v", args, o, err)
		}
	}
}

func TestBadOptions(t *testing.T) {
	for _, c := range []struct {
		config string
		args   []string
		want   string
	}{
		{"", []string{"-x"}, "-x"},
		{"", []string{"--nope"}, "--nope"},
		{"", []string{"-server"}, "-server"},
		{"", []string{"-server", ""}, "no host"},
		{"", []string{"-server", "h:abc"}, "abc"},
		{"", []string{"-server", "h:1/bad/"}, "chroot"},
		{"", []string{"-timeout", "abc"}, "abc"},
		{"", []string{"-timeout", "0"}, `"0"`},
		{"", []string{"-o", "xml"}, "xml"},
		{"", []string{"-f", "x", "ls"}, "ls"},
		{"server h:1\n", nil, "config:1"},
		{"\nnope = 1\n", nil, "config:2"},
		{"timeout = x\n", nil, "config:1"},
	} {
		_, err := parse(t, c.config, "", c.args...)
		if Status(err) != StatusUsage || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q %q: %v", c.config, c.args, err)
		}
	}
}

func TestPromptCountsLocks(t *testing.T) {
	session, err := zkconn.Open(zkconn.Config{Servers: "127.0.0.1:1", Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := session.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	held := 0
	s := New(Config{Session: session, Commands: [][]*commands.Command{commands.All()}, Locks: counted{func() int { return held }}})
	for n, want := range []string{
		"[zk: 127.0.0.1:1(CONNECTING) 0] ", "[zk: 127.0.0.1:1(CONNECTING, 1 lock) 0] ", "[zk: 127.0.0.1:1(CONNECTING, 2 locks) 0] ",
	} {
		held = n
		if got := s.prompt(); got.Text != want || !got.Alert {
			t.Errorf("%d: %+v, want %q", n, got, want)
		}
	}
	s.cfg.Locks = nil
	if got := s.prompt().Text; got != "[zk: 127.0.0.1:1(CONNECTING) 0] " {
		t.Errorf("%q", got)
	}
}

// counted are locks of which only the number is asked for.
type counted struct{ held func() int }

func (counted) Guarding() bool                            { return false }
func (c counted) Held() int                               { return c.held() }
func (counted) Lost() error                               { return nil }
func (counted) Release(context.Context) ([]string, error) { return nil, nil }
