package ensemble

import (
	"testing"

	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zktest"
)

// A client drops session events. Otherwise they would accumulate for as long as the program
// runs.
func TestEventsAreDropped(t *testing.T) {
	t.Parallel()
	c, err := Dial(zktest.Within(t), zktest.Sandbox(t, sandbox.Options{}).Addr(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if left := c.s.Events(); len(left) > 0 {
		t.Errorf("%d events are left: %v", len(left), left)
	}
}
