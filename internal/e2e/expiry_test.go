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

// If the session expires while a script waits for its next line, that line reports the expiry.
// With -e the line does not run; without -e it runs in the new session, and its own answer
// follows the report.
func TestExpiryBetweenLines(t *testing.T) {
	t.Parallel()
	for _, flag := range []string{"-e", "-q"} {
		server := zktest.Sandbox(t, sandbox.Options{})
		p := openPipeline(t, flag, "-server", server.Addr())
		p.ask(t, "create -e /lock", "Created /lock")
		expireSession(t, server, owner(t, server.Addr(), "/lock"))
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
		made := runAt(t, server.Addr(), "ls", "/")
		if want := flag == "-q"; strings.Contains(made, "after") != want {
			t.Errorf("%s: the line ran: %v, want %v", flag, !want, want)
		}
	}
}

// owner returns the id of the session that owns an ephemeral znode.
func owner(t *testing.T, server, path string) int64 {
	t.Helper()
	for line := range strings.Lines(runAt(t, server, "stat", path)) {
		if hex, ok := strings.CutPrefix(strings.TrimSpace(line), "ephemeralOwner = 0x"); ok {
			id, err := strconv.ParseUint(hex, 16, 64)
			zktest.Must(t, err)
			return int64(id)
		}
	}
	t.Fatalf("%s has no owner", path)
	return 0
}

// expireSession ends a session and waits until its client has another one. No other client may
// open a session meanwhile.
func expireSession(t *testing.T, box *zktest.Box, id int64) {
	t.Helper()
	before := sessionIDs(t, box)
	if !box.Expire(id) {
		t.Fatalf("the sandbox knows no session %#x", id)
	}
	zktest.Eventually(t, "another session", func() bool {
		return slices.ContainsFunc(sessionIDs(t, box), func(id int64) bool { return !slices.Contains(before, id) })
	})
}

// sessionIDs returns the ids of the sessions of all clients that are connected to a sandbox,
// including those about to close.
func sessionIDs(t *testing.T, box *zktest.Box) (ids []int64) {
	t.Helper()
	for _, m := range regexp.MustCompile(`sid=0x([0-9a-f]+)`).FindAllStringSubmatch(zktest.Ask(t, box.Addr(), "cons"), -1) {
		id, err := strconv.ParseUint(m[1], 16, 64)
		zktest.Must(t, err)
		ids = append(ids, int64(id))
	}
	return ids
}

// A line that waits for a connection while the session expires does not run in the next session
// with -e. It reports the expiry and the deleted ephemeral znodes, even if no line follows.
func TestExpiryWhileLineWaits(t *testing.T) {
	t.Parallel()
	for _, cfg := range []shell.Config{{Window: 64}, {Window: 64, StopAtError: true}, {Window: 1}} {
		box := zktest.Sandbox(t, sandbox.Options{})
		proxy := zktest.NewProxy(t, box.Addr())
		cfg.Session = openSession(t, proxy.Addr())
		in, lines := io.Pipe()
		var errs bytes.Buffer
		d := &dialogue{}
		status := make(chan int)
		go func() {
			status <- newShell(cfg, lockcmd.New(), dialogueWriter{d}, &errs).RunLines(t.Context(), "script", in)
		}()
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
		time.Sleep(100 * time.Millisecond) // usually enough for the line to wait; the expected result is the same if it does not
		proxy.HoldReplies(false)
		if got := <-status; got != 69 || !strings.Contains(errs.String(), "script:2: ") ||
			!strings.Contains(errs.String(), "the session expired, and its watches and its ephemeral znodes /mine are gone;") {
			t.Errorf("status %d, told %q", got, errs.String())
		}
		if got := runAt(t, box.Addr(), "ls", "/"); cfg.StopAtError && strings.Contains(got, "after") {
			t.Errorf("the line has run: %s", got)
		}
	}
}
