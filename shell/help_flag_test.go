package shell_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/shell"
)

// NAME --help prints the same as help NAME, with exit status 0, for each command and alias: as a single
// command, in a script, in a transaction, and after the session has been closed.
func TestHelpFlag(t *testing.T) {
	run := func(do func(s *shell.Shell) int) (out string) {
		session, err := zkconn.Open(zkconn.Config{Servers: "127.0.0.1:1", Timeout: time.Second})
		zktest.Must(t, err)
		var text, errs bytes.Buffer
		s := shell.New(shell.Config{Session: session, Out: shell.Output{W: &text}, Err: shell.Output{W: &errs}, Window: 64, Commands: commandTable()})
		if status := do(s); status != 0 || errs.Len() > 0 {
			t.Errorf("status %d, standard error %q", status, errs.String())
		}
		return text.String()
	}
	single := func(words ...string) string {
		return run(func(s *shell.Shell) int { return s.RunCommand(context.Background(), words) })
	}
	script := func(lines ...string) string {
		return run(func(s *shell.Shell) int {
			return s.RunLines(context.Background(), "script", strings.NewReader(strings.Join(lines, "\n")))
		})
	}
	for _, c := range every(t).Registry().All() {
		for _, name := range append([]string{c.Name}, c.Aliases...) {
			want, asked := single("help", name), name+" --help"
			if !strings.HasPrefix(want, c.Usage()+"\n") {
				t.Fatalf("help %s prints %q", name, want)
			}
			if got := single(name, "--help"); got != want {
				t.Errorf("%s prints %q", asked, got)
			}
			if got := script(asked, asked); got != want+want {
				t.Errorf("in a script, %s prints %q", asked, got)
			}
			if got := script("begin", asked, "abort", "close", asked); strings.Count(got, want) != 2 {
				t.Errorf("in a transaction and after close, %s prints %q", asked, got)
			}
		}
	}
}
