package demo

import (
	"testing"

	"github.com/zksh/zksh/internal/zktest"
)

func TestMain(m *testing.M) { zktest.Main(m) }
