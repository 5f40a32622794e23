package playground

import (
	"strings"
	"testing"

	"github.com/zksh/zksh/internal/zktest"
)

// The first shell runs the sandbox. The second one joins it and is notified when it ends.
func TestJoin(t *testing.T) {
	dir := t.TempDir()
	first, err := Open(dir, "", "", false)
	zktest.Must(t, err)
	second, err := Open(dir, "", "", false)
	zktest.Must(t, err)
	if _, err := Open(dir, "", "3.4", false); err == nil || !strings.Contains(err.Error(), "another terminal is already running a sandbox that acts as 3.8") {
		t.Errorf("joining one that answers otherwise: %v", err)
	}
	if same, err := Open(dir, "", "3.8", false); err != nil || same.Addr != first.Addr || same.Close() != nil {
		t.Errorf("joining one that answers as wished: %v", err)
	}
	if first.Joined() || !second.Joined() || first.Addr != second.Addr {
		t.Errorf("the first joined: %v, the second: %v; they are at %s and %s", first.Joined(), second.Joined(), first.Addr, second.Addr)
	}
	if err := second.Pause(true); err != errJoined {
		t.Errorf("pausing another's: %v", err)
	}
	zktest.Check(t, first.Close())
	<-second.Ended()
	zktest.Check(t, second.Close())
}

// Other shells do not join the sandbox of a single command, which ends with that command. The
// command itself joins a running sandbox.
func TestBriefSandboxIsNotJoined(t *testing.T) {
	dir := t.TempDir()
	brief, err := Open(dir, "", "", true)
	zktest.Must(t, err)
	defer brief.Close()
	lasting, err := Open(dir, "", "", false)
	zktest.Must(t, err)
	defer lasting.Close()
	if brief.Joined() || lasting.Joined() || Running(dir) != lasting.Addr {
		t.Errorf("the brief one joined: %t, the lasting one: %t; the one that is offered is at %q, not %s",
			brief.Joined(), lasting.Joined(), Running(dir), lasting.Addr)
	}
	another, err := Open(dir, "", "", true)
	zktest.Must(t, err)
	defer another.Close()
	if !another.Joined() || another.Addr != lasting.Addr {
		t.Errorf("a command joined: %t, at %s", another.Joined(), another.Addr)
	}
}

// Without a directory, shells cannot find each other's sandboxes.
func TestSandboxWithoutDirectory(t *testing.T) {
	for dir, joinable := range map[string]bool{"": false, t.TempDir(): true} {
		p, err := Open(dir, "", "", false)
		zktest.Must(t, err)
		if p.Joined() || p.Joinable() != joinable || (Running(dir) == p.Addr) != joinable {
			t.Errorf("%q: joined %t, joinable %t; the one that is offered is at %q, not %s", dir, p.Joined(), p.Joinable(), Running(dir), p.Addr)
		}
		zktest.Check(t, p.Close())
	}
}
