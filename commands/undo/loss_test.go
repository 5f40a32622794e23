package undo

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/shell/exit"
)

// If the connection is lost during a line that writes, the error says that nothing was written, or
// which line shows what was. This holds for a cut before and after each request, such as the one
// that reads the old data for undo.
func TestLossSaysWhatWasWritten(t *testing.T) {
	editor := filepath.Join(t.TempDir(), "editor")
	zktest.Must(t, os.WriteFile(editor, []byte("#!/bin/sh\necho edited > \"$1\"\n"), 0o700))
	t.Setenv("EDITOR", editor)
	for line, look := range map[string]string{
		"set /t/a new":                    "get -s /t/a",
		"set -v 0 /t/a new":               "get -s /t/a",
		"edit /t/a":                       "get -s /t/a",
		"delete /t/b/c":                   "exists /t/b/c",
		"deleteall -y /t/b":               "exists /t/b",
		"rmr -y /t/b":                     "exists /t/b",
		"create /t/new":                   "exists /t/new",
		"create -p /t/x/y/z":              "exists /t/x/y/z",
		"create -s /t/b/n-":               "ls /t/b",
		"create -c /t/b/n":                "exists /t/b/n",
		"setAcl /t/a world:anyone:cdra":   "getAcl -s /t/a",
		"setAcl -R /t world:anyone:cdrwa": "getAcl -s /t",
		"setquota -n 10 /t/b":             "listquota /t/b",
		"delquota /t/a":                   "listquota /t/a",
	} {
		s := newLossScene(t)
		s.p.Requests()
		s.h.do(line)
		ops := s.p.Requests()
		for i, op := range ops {
			for _, after := range []bool{false, true} {
				s := newLossScene(t)
				before, cut := s.contents(), s.p.CutBeforeSkipping
				if after {
					cut = s.p.CutAfterSkipping
				}
				cut(op, countOf(ops[:i], op))
				err := s.h.try(line)
				s.p.Disarm()
				s.check(fmt.Sprintf("%s, cut at request %d, %s, after it: %v", line, i, jute.OpName(op), after), look, before, err)
			}
		}
	}
}

// A lossScene is a shell whose connection can be cut.
type lossScene struct {
	t *testing.T
	p *zktest.Proxy
	h *testShell
}

func newLossScene(t *testing.T) lossScene {
	t.Helper()
	p := zktest.NewProxy(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
	_, port, _ := strings.Cut(p.Addr(), ":")
	h := newTestShell(t, p.Addr()+",localhost:"+port, t.TempDir()) // the client tries the second name at once
	h.plant()
	h.do("setquota -n 5 /t/a")
	return lossScene{t, p, h}
}

// contents returns descriptions of the znodes that the lines can change.
func (s lossScene) contents() map[string]string {
	s.t.Helper()
	all := s.h.tree("/t")
	maps.Copy(all, s.h.tree("/zookeeper/quota"))
	return all
}

// check checks the error of a line. before is what the znodes contained before the line ran.
func (s lossScene) check(what, look string, before map[string]string, err error) {
	s.t.Helper()
	if err == nil || !errors.Is(err, zkconn.ConnectionLoss) { // zksh sent the request again, or it was not needed
		return
	}
	text := err.Error()
	changed := !maps.Equal(before, s.contents())
	unwritten := strings.HasSuffix(text, "; nothing was written") || strings.Contains(text, "the request was not sent")
	_, run, shows := strings.Cut(text, ", run: ")
	switch {
	case unwritten == shows, unwritten && changed, shows && run != look, unwritten != (exit.Code(err) == "NotSent"):
		s.t.Errorf("%s: changed: %v: %s (%s)", what, changed, text, exit.Code(err))
	case shows:
		// exists fails without a text if there is no znode, and listquota if there is no quota.
		err := s.h.try(look)
		if err != nil && !errors.As(err, new(*commands.StatusError)) && !strings.HasPrefix(err.Error(), "quota for ") {
			s.t.Errorf("%s: %s: %v", what, look, err)
		}
	}
}
