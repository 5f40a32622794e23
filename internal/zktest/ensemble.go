package zktest

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// Ensemble starts an ensemble with the given number of members. It returns the servers once all of
// them serve clients. Like Start, it kills the servers when the test ends.
func Ensemble(tb testing.TB, members int, opts ...Option) []*Server {
	tb.Helper()
	c := newConfig(opts)
	c.quorum, c.members = true, members
	return startMembers(tb, c)
}

// startMembers starts the servers with the configuration c, as launch does. If that fails, it skips
// the test or ends it with Fatal.
func startMembers(tb testing.TB, c config) []*Server {
	tb.Helper()
	// Call TempDir before Cleanup. Cleanups run in reverse order, and the directory must be removed
	// after the servers have stopped.
	made, err := launch(tb.TempDir(), c)
	if err != nil {
		skipOrFail(tb, err)
	}
	var servers []*Server
	for _, inst := range made {
		servers = append(servers, &Server{tb: tb, inst: inst})
		tb.Cleanup(inst.stop)
		logIfFailed(tb, inst)
	}
	return servers
}

// leaderMode is the line in the output of the four-letter command srvr that only a leader prints.
const leaderMode = "\nMode: leader"

// Leads reports whether the server is currently the leader of its ensemble.
func (s *Server) Leads() bool {
	s.tb.Helper()
	return strings.Contains(Ask(s.tb, s.Addr(), "srvr"), leaderMode)
}

// Ask returns a server's output for a four-letter command. If the server does not answer within
// Patience, the test ends with Fatal.
func Ask(tb testing.TB, addr, command string) string {
	tb.Helper()
	output, err := fourLetter(addr, command, Patience)
	if err != nil {
		tb.Fatalf("zktest: %s: %v", command, err)
	}
	return output
}

// fourLetter returns a server's output for a four-letter command. If the output is not complete
// within the limit, it returns an error, and the output received so far.
func fourLetter(addr, command string, limit time.Duration) (output string, err error) {
	conn, err := net.DialTimeout("tcp", addr, limit)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	err = conn.SetDeadline(time.Now().Add(limit))
	if err == nil {
		_, err = io.WriteString(conn, command)
	}
	text, readErr := io.ReadAll(conn)
	return string(text), errors.Join(err, readErr)
}
