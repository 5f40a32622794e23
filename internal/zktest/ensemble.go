package zktest

import (
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// Ensemble starts servers that replicate one another, and returns them once they
// all serve clients. They end as one of Start's does.
func Ensemble(tb testing.TB, members int, opts ...Option) []*Server {
	tb.Helper()
	c := newConfig(opts)
	c.quorum, c.members = true, members
	return startMembers(tb, c)
}

// startMembers starts all the servers of an ensemble.
func startMembers(tb testing.TB, c config) []*Server {
	tb.Helper()
	if err := installed(config{}); err != nil {
		giveUp(tb, err)
	}
	made, err := prepare(tb.TempDir(), c)
	if err != nil {
		giveUp(tb, err)
	}
	servers := make([]*Server, c.members)
	errs := make([]error, c.members)
	var starting sync.WaitGroup
	for i, inst := range made {
		servers[i] = &Server{tb: tb, inst: inst}
		tb.Cleanup(inst.stop)
		logIfFailed(tb, inst)
		starting.Go(func() { errs[i] = inst.start() })
	}
	starting.Wait()
	if err := errors.Join(errs...); err != nil {
		giveUp(tb, err)
	}
	return servers
}

// leads is what a leader says of itself when it is asked with srvr.
const leads = "\nMode: leader"

// Leads tells whether the server is its ensemble's leader.
func (s *Server) Leads() bool {
	s.tb.Helper()
	return strings.Contains(s.Ask("srvr"), leads)
}

// Ask sends the server a four letter word and returns the answer.
func (s *Server) Ask(word string) string {
	s.tb.Helper()
	answer, err := fourLetters(s.Addr(), word, 5*time.Second)
	if err != nil {
		s.tb.Fatalf("zktest: %s: %v", word, err)
	}
	return answer
}

// fourLetters sends a four letter word to a server, and returns what it says in time.
func fourLetters(addr, word string, limit time.Duration) (answer string, err error) {
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
