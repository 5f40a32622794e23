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
	"testing"

	"github.com/zksh/zksh/internal/zktest"
)

func TestMain(m *testing.M) { zktest.MainWithProgram(m, "dev") }
