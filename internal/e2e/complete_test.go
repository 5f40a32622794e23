//go:build unix

package e2e

import (
	"strings"
	"testing"

	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zktest"
)

// While the user types, the menu offers commands, aliases, flags and paths, each with a
// description.
func TestCompletionMenu(t *testing.T) {
	t.Parallel()
	s := openScreen(t, 100, 40)
	for _, path := range []string{"/app", "/app/with blank", "/app/with blank/deep", "/app/中文"} {
		runAt(t, s.server, "create", path)
	}
	s.text("ex")
	s.want(`^ +exists +check whether a znode exists`)
	s.want(`^ +exit +the same as quit`)
	s.keys("C-u")
	s.text("get -")
	s.want(`^ +-s +also print the znode's stat`)
	s.want(`^ +-f +write the data to this file`)
	s.keys("C-u")
	s.text("printwatches ")
	s.want(`^ +on\b`)
	s.want(`^ +off\b`)
	s.keys("C-u")
	s.text("sandbox ")
	s.want(`^ +pause\n +resume$`)
	s.keys("C-u")
	s.text("setAcl /app wor")
	s.want(`^ +world:anyone: +everybody`)
	s.keys("Tab")
	s.want(`\] setAcl /app world:anyone:$`)
	s.keys("C-u")

	// Tab completes a single proposal at once; Tab and Shift-Tab move through several. A
	// completed path can be continued, and a name with spaces is quoted.
	s.text("deletea")
	s.want(`delete a znode and everything below it`)
	s.keys("Tab")
	s.text("/a")
	s.want(`^ +app$`)
	s.keys("Tab")
	s.want(`\] deleteall /app$`)
	s.keys("C-u")
	s.text("ls /app/w")
	s.want(`^ +with blank$`)
	s.keys("Tab")
	s.want(`\] ls "/app/with blank"$`)
	s.text("/")
	s.want(`^ +deep$`)
	s.keys("Tab")
	s.want(`\] ls "/app/with blank/deep"$`)
	s.keys("Enter")
	s.want(`^\[\]$`)
	s.text("ls /")
	s.want(`^ +zookeeper$`)
	s.keys("Tab")
	s.want(`\] ls /app$`)
	s.keys("Down")
	s.want(`\] ls /zookeeper$`)
	s.keys("BTab")
	s.want(`\] ls /app$`)
	s.keys("Escape")
	s.want(`\] ls /$`)
	s.keys("Tab")
	s.want(`\] ls /app$`)
	s.text("/")
	s.want(`^ +中文$`)
	s.keys("Tab", "Tab", "Enter")
	s.wantEnd("[]", s.prompt(2))
	s.text("redo ")
	s.want(`^ +1 +ls /app/中文$`)
	s.keys("C-c")

	// After a complete name, another Tab continues below the znode if it has children.
	s.text("ls /ap")
	s.want(`^ +app$`)
	s.keys("Tab")
	s.want(`\] ls /app$`)
	s.keys("Tab")
	s.want(`\] ls /app/$`)
	s.keys("Tab", "Tab")
	s.want(`\] ls /app/中文$`)
	s.keys("Escape", "C-u")
	s.text("ls /app/中文")
	s.keys("Tab")
	s.text(" ")
	s.want(`\] ls /app/中文$`)
	s.keys("C-u")

	// The menu shows changes that other clients make.
	s.text("ls /app/")
	s.want(`^ +中文$`)
	runAt(t, s.server, "create", "/app/another")
	s.want(`^ +another$`)
}

func TestCompletionInAChroot(t *testing.T) {
	t.Parallel()
	server := zktest.Sandbox(t, sandbox.Options{}).Addr()
	for _, path := range []string{"/root", "/root/inside", "/outside"} {
		runAt(t, server, "create", path)
	}
	s := openScreenOn(t, server+"/root", 100, 30)
	s.text("get /")
	shown := s.want(`\] get /\n +inside$`)
	if strings.Contains(shown, "outside") {
		t.Error("the menu shows what is outside of the chroot")
	}
}

// zksh answers typing mistakes with a hint.
func TestHints(t *testing.T) {
	t.Parallel()
	s := openScreen(t, 100, 140)
	s.line("gte /a")
	s.want(`^unknown command "gte"; did you mean get\? \(to list all commands, run: help all\)$`)
	s.line("ls -r /")
	s.want(`^unknown flag -r; did you mean -R\?\nsee: help ls\nexample: ls -R /app$`)
	s.line("get")
	s.want(`^missing path\nsee: help get\nexample: get -s /app/config$`)
	s.line("create /json {")
	s.want(`^unquoted \{ at the end of the line; quote the whole value, even if it is only \{$`)
	s.line("create /json '{'")
	s.want(`^Created /json$`)
	s.keys("C-l")
	s.line("help")
	s.want(`^Everyday commands\n  ls `)
	s.keys("C-l")
	s.line("help create")
	s.want(`^Flags\n  -s, --sequential `)
	s.want(`^Examples\n  create -s -e`)
}
