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
	zktest.Must(t, err)
	zktest.Check(t, c.Close())
	if left := c.s.Events(); len(left) > 0 {
		t.Errorf("%d events are left: %v", len(left), left)
	}
}
