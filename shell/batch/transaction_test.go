package batch

import (
	"testing"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/sandbox"
)

// A transaction applies all of its lines or none, and commit prints their answers.
func TestTransactionLines(t *testing.T) {
	for _, c := range []struct {
		name, script string
		status       int
		want         []string
	}{
		{"commit", "begin\ncreate /a x\ncheck /a 0\nset /a y\ncommit\nget /a\n", 0,
			[]string{"", "", "", "", "line 2: Created /a\nCommitted 3", "y"}},
		{"one fails", "begin\ncreate /a\ndelete /none\ncommit\nls /\n", commands.StatusFailed,
			[]string{"", "", "", "error: script:4: commit: nothing was done, because line 3 of the transaction failed: delete: Node does not exist: /none", "[zookeeper]"}},
		{"one cannot join", "begin\ncreate /a\nls /\ncommit\n", commands.StatusUsage, []string{"", "",
			"error: script:3: ls: only check, create, set and delete can be part of a transaction; first commit or abort the transaction that began on line 1",
			"error: script:4: commit: nothing was done, because line 3 of the transaction failed"}},
		{"one has a flag", "begin\ncreate -sp /a\ncreate -s /b\nabort\n", commands.StatusUsage, []string{"",
			"error: script:2: create: -p cannot be used in a transaction; omit it, or first commit or abort the transaction that began on line 1", "", ""}},
		{"abort", "begin\ncreate /a\nabort\nls /\n", 0, []string{"", "", "", "[zookeeper]"}},
		{"twice", "begin\nbegin\nabort\nabort\n", commands.StatusFailed, []string{"",
			"error: script:2: begin: the transaction that began on line 1 is still open; commit or abort it first", "",
			"error: script:4: abort: no transaction is open; to open one, run: begin"}},
		{"never committed", "begin\ncreate /a\n", 0, []string{"", "",
			"error: the transaction that began on line 1 was never committed, so nothing in it took effect"}},
		{"empty", "begin\ncommit\ncheck /a 0\n", commands.StatusFailed, []string{"", "Committed 0",
			"error: script:3: check: check works only in a transaction, and none is open; put check between begin and commit"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			newSandboxShell(t, sandbox.Options{}).check(t, c.script, Options{}, c.status, c.want...)
		})
	}
}

// In JSON, each line of a transaction has an answer when it joins, and commit prints all results.
func TestTransactionInJSON(t *testing.T) {
	s := newSandboxShell(t, sandbox.Options{})
	s.env.Format = render.JSON
	s.check(t, "begin\ncreate /a x\ncommit\n", Options{}, 0, `{"done":"begin"}`, `{"joined":1}`,
		`{"committed":[{"line":2,"command":"create","answer":{"created":"/a"}}]}`)
}

// A full transaction rejects the next line without running its command.
func TestTransactionIsBounded(t *testing.T) {
	full := &Transactions{open: &transaction{lines: make([]*joinedLine, maxJoined)}}
	err := full.join(t.Context(), &commands.Env{}, "check", commands.Line{})
	if err == nil || err.Error() != "a transaction can have at most 20000 lines; use several transactions" {
		t.Error(err)
	}
}
