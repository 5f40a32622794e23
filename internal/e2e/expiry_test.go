//go:build unix

package e2e

import (
	"bytes"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/lockcmd"
	"github.com/zksh/zksh/shell"
)

// A session that expires while a batch waits for its next line fails that line
// with -e before it runs in the new session; without -e the failure is told and
// the line's own answer still comes.
func TestExpiryBetweenLines(t *testing.T) {
	t.Parallel()
	for _, flag := range []string{"-e", "-q"} {
		server := zktest.Sandbox(t, sandbox.Options{})
		p := openPipeline(t, flag, "-server", server.Addr())
		p.ask(t, "create -e /lock", "Created /lock")
		expire(t, server, owner(t, server.Addr(), "/lock"))
		if flag == "-e" {
			if _, err := p.in.Write([]byte("create /after\n")); err != nil {
				t.Fatal(err)
			}
		} else {
			p.ask(t, "create /after", "Created /after")
			p.in.Close()
		}
		wantExit(t, p.cmd, 69)
		if !strings.Contains(p.errs.String(), "stdin:2: the session expired") || !strings.Contains(p.errs.String(), "/lock") {
			t.Errorf("%s: told %q", flag, p.errs.String())
		}
		made := at(t, server.Addr(), "ls", "/")
		if want := flag == "-q"; strings.Contains(made, "after") != want {
			t.Errorf("%s: the line ran: %v, want %v", flag, !want, want)
		}
	}
}

// owner is the session an ephemeral znode belongs to.
func owner(t *testing.T, server, path string) int64 {
	t.Helper()
	for line := range strings.Lines(at(t, server, "stat", path)) {
		if hex, ok := strings.CutPrefix(strings.TrimSpace(line), "ephemeralOwner = 0x"); ok {
			id, err := strconv.ParseUint(hex, 16, 64)
			if err != nil {
				t.Fatal(err)
			}
			return int64(id)
		}
	}
	t.Fatalf("%s has no owner", path)
	return 0
}

// expire ends a session, and waits until whoever had it has another one. Nobody else is
// to begin one meanwhile.
func expire(t *testing.T, box *zktest.Box, id int64) {
	t.Helper()
	before := sessions(t, box)
	if !box.Expire(id) {
		t.Fatalf("the sandbox knows no session %#x", id)
	}
	zktest.Eventually(t, "another session", func() bool {
		return slices.ContainsFunc(sessions(t, box), func(id int64) bool { return !slices.Contains(before, id) })
	})
}

// sessions are those of all who are connected to a sandbox, perhaps about to close.
func sessions(t *testing.T, box *zktest.Box) (ids []int64) {
	t.Helper()
	for _, m := range regexp.MustCompile(`sid=0x([0-9a-f]+)`).FindAllStringSubmatch(zktest.Ask(t, box.Addr(), "cons"), -1) {
		id, err := strconv.ParseUint(m[1], 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, int64(id))
	}
	return ids
}

// A line that waits for the connection when the session turns out to have expired is not
// run in the next one, and says what went with the session although nothing follows it.
func TestExpiryMeetsALine(t *testing.T) {
	t.Parallel()
	for _, cfg := range []shell.Config{{Window: 64}, {Window: 64, StopAtError: true}, {Window: 1}} {
		box := zktest.Sandbox(t, sandbox.Options{})
		proxy := zktest.NewProxy(t, box.Addr())
		cfg.Session = sessionOf(t, proxy.Addr())
		in, lines := io.Pipe()
		var errs bytes.Buffer
		d := &dialogue{}
		status := make(chan int)
		go func() { status <- shellOf(cfg, lockcmd.New(), answersOf{d}, &errs).RunLines(t.Context(), "script", in) }()
		if _, err := io.WriteString(lines, "create -e /mine\n"); err != nil {
			t.Fatal(err)
		}
		d.until(t, "Created /mine\n")
		proxy.HoldReplies(true)
		box.Expire(cfg.Session.Info().ID)
		proxy.Cut()
		zktest.Eventually(t, "it has no connection", func() bool { return cfg.Session.State() == zkconn.StateConnecting })
		if _, err := io.WriteString(lines, "create /after\n"); err != nil {
			t.Fatal(err)
		}
		lines.Close()
		time.Sleep(100 * time.Millisecond) // the line waits, most often; what is wanted is the same
		proxy.HoldReplies(false)
		if got := <-status; got != 69 || !strings.Contains(errs.String(), "script:2: ") ||
			!strings.Contains(errs.String(), "the session expired, and its watches and its ephemeral znodes /mine are gone;") {
			t.Errorf("status %d, told %q", got, errs.String())
		}
		if got := at(t, box.Addr(), "ls", "/"); cfg.StopAtError && strings.Contains(got, "after") {
			t.Errorf("the line has run: %s", got)
		}
	}
}
