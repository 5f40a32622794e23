package zktest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Ensemble starts an ensemble with the given number of members, and returns its servers once all
// of them serve clients. Like a server that Start starts, they end with the test.
func Ensemble(tb testing.TB, members int, opts ...Option) []*Server {
	tb.Helper()
	c := newConfig(opts)
	c.quorum, c.members = true, members
	return startMembers(tb, c)
}

// startMembers starts all servers of an ensemble. If it cannot, it skips the test or ends it with
// Fatal.
func startMembers(tb testing.TB, c config) []*Server {
	tb.Helper()
	if err := installed(config{}); err != nil {
		skipOrFail(tb, err)
	}
	made, err := launchAll(tb.TempDir(), c)
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

// launchAll starts all members of an ensemble. If another program uses one of their ports, it
// tries again with other ports, at most three times in all.
func launchAll(dir string, c config) ([]*instance, error) {
	for try := 1; ; try++ {
		made, err := prepare(filepath.Join(dir, strconv.Itoa(try)), c)
		if err != nil {
			return nil, err
		}
		errs := make([]error, len(made))
		var starting sync.WaitGroup
		for i, inst := range made {
			starting.Go(func() { errs[i] = inst.start() })
		}
		starting.Wait()
		if err = errors.Join(errs...); err == nil {
			return made, nil
		}
		for _, inst := range made {
			inst.stop()
		}
		if try == 3 || !slices.ContainsFunc(made, (*instance).portTaken) {
			return nil, fmt.Errorf("%w\n%s", err, made[0].logTail())
		}
	}
}

// leaderMode is the line by which a leader identifies itself in its output for the four-letter
// command srvr.
const leaderMode = "\nMode: leader"

// Leads reports whether the server is the leader of its ensemble.
func (s *Server) Leads() bool {
	s.tb.Helper()
	return strings.Contains(Ask(s.tb, s.Addr(), "srvr"), leaderMode)
}

// Ask sends a four-letter command to a server and returns its output. It waits at most for the
// time Patience. If it fails, it ends the test with Fatal.
func Ask(tb testing.TB, addr, command string) string {
	tb.Helper()
	output, err := FourLetter(addr, command, Patience)
	if err != nil {
		tb.Fatalf("zktest: %s: %v", command, err)
	}
	return output
}

// FourLetter sends a four-letter command to a server and returns its output. If the output is
// not complete within the time limit, FourLetter returns an error and the part that has arrived.
func FourLetter(addr, command string, limit time.Duration) (output string, err error) {
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
