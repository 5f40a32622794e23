//go:build unix

// Package e2e runs the built program as its users do: by scripts, by pipes, and
// through a terminal.
package e2e

import (
	"testing"

	"github.com/zksh/zksh/internal/zktest"
)

func TestMain(m *testing.M) { zktest.MainWithProgram(m, "dev") }
