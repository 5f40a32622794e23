//go:build unix

// Package e2e tests the built program as users run it: with scripts, through pipes, and on
// terminals.
//
// Most tests use one of these helpers. runScript runs a script inside the test process,
// openPipeline starts zksh on pipes, openConsole on a plain terminal, openRich on one with line
// editing, and openScreen on one whose screen tmux keeps. TestScripts runs the files in
// testdata/script.
package e2e

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/zksh/zksh/internal/zktest"
)

func TestMain(m *testing.M) {
	// Each random case runs two to four scripts of up to 200 lines. make full runs more cases.
	if err := flag.Set("rapid.checks", "25"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	zktest.MainWithProgram(m, "dev")
}
