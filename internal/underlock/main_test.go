// Package underlock tests commands under a lock with the built program: they see the same world as
// without the lock, and nothing that they started is alive when another client can hold the lock.
//
// testdata/world.c is the command of most tests. The package contains only tests.
package underlock

import (
	"testing"

	"github.com/zksh/zksh/internal/zktest"
)

func TestMain(m *testing.M) { zktest.MainWithProgram(m, "dev") }
