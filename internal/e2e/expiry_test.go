//go:build unix

package e2e

import (
	"strconv"
	"strings"
	"testing"

	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
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
		id := owner(t, server.Addr(), "/lock")
		if !server.Expire(id) {
			t.Fatal("the sandbox knows no such session")
		}
		untilAnotherSession(t, server.Addr(), id)
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

// untilAnotherSession waits until the server has exactly one session, not this one.
func untilAnotherSession(t *testing.T, server string, old int64) {
	t.Helper()
	mine := "sid=0x" + strconv.FormatUint(uint64(old), 16)
	zktest.Eventually(t, "another session", func() bool {
		cons, err := zkconn.FourLetter(zktest.Within(t), server, "cons")
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(cons, "sid=0x") && !strings.Contains(cons, mine)
	})
}
