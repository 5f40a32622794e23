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

// Ensemble starts an ensemble, and returns its servers once all of them serve clients.
// They end like a server of Start.
func Ensemble(tb testing.TB, members int, opts ...Option) []*Server {
	tb.Helper()
	c := newConfig(opts)
	c.quorum, c.members = true, members
	return startMembers(tb, c)
}

// startMembers starts all servers of an ensemble, or ends the test.
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

// launchAll starts all members of an ensemble. If another program takes one of their
// ports, it tries again with other ports.
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

// leaderMode is the line in a leader's answer to srvr.
const leaderMode = "\nMode: leader"

// Leads reports whether the server is the leader of its ensemble.
func (s *Server) Leads() bool {
	s.tb.Helper()
	return strings.Contains(Ask(s.tb, s.Addr(), "srvr"), leaderMode)
}

// Ask sends a four-letter command to a server and returns the answer. It waits up to
// Patience and ends the test if it fails.
func Ask(tb testing.TB, addr, word string) string {
	tb.Helper()
	answer, err := FourLetter(addr, word, Patience)
	if err != nil {
		tb.Fatalf("zktest: %s: %v", word, err)
	}
	return answer
}

// FourLetter sends a four-letter command to a server, and returns the part of the answer
// that arrives within limit, even with an error.
func FourLetter(addr, word string, limit time.Duration) (answer string, err error) {
	conn, err := net.DialTimeout("tcp", addr, limit)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	err = conn.SetDeadline(time.Now().Add(limit))
	if err == nil {
		_, err = io.WriteString(conn, word)
	}
	text, readErr := io.ReadAll(conn)
	return string(text), errors.Join(err, readErr)
}
