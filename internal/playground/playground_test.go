package playground

import (
	"strings"
	"testing"
)

// The first one runs the sandbox, the next one joins it and learns of its end.
func TestJoin(t *testing.T) {
	dir := t.TempDir()
	first, err := Open(dir, "", "")
	if err != nil {
		t.Fatal(err)
	}
	second, err := Open(dir, "", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, "", "3.4"); err == nil || !strings.Contains(err.Error(), "another terminal answers as 3.8") {
		t.Errorf("joining one that answers otherwise: %v", err)
	}
	if same, err := Open(dir, "", "3.8"); err != nil || same.Addr != first.Addr || same.Close() != nil {
		t.Errorf("joining one that answers as wished: %v", err)
	}
	if first.Joined() || !second.Joined() || first.Addr != second.Addr {
		t.Errorf("the first joined: %v, the second: %v; they are at %s and %s", first.Joined(), second.Joined(), first.Addr, second.Addr)
	}
	if err := second.Pause(true); err != errJoined {
		t.Errorf("pausing another's: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	<-second.Ended()
	if err := second.Close(); err != nil {
		t.Error(err)
	}
}
