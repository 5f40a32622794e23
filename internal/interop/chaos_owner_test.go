//go:build linux

package interop

import (
	"bytes"
	"context"
	"os/exec"
	"path"
	"strings"
	"syscall"
	"time"

	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// holdAsOwner takes the lock as an owner, stays in the section without a running zksh, and
// releases the lock. A command that fails or is killed is repeated: it may have taken effect.
func (z *chaosClient) holdAsOwner(final bool) (held bool) {
	s := z.section()
	answer, ok := z.repeat(append(z.lockCommand(), "--owner", z.name, z.oracle.path)...)
	if !ok {
		return false
	}
	in, node, ok := z.entryOf(s, answer)
	if !ok {
		return false
	}
	zktest.Check(z.chaos.t, z.stayInSection(in, z.sectionLength(final), func() bool { return true }))
	z.wantOnePlace(node)
	answer, ok = z.repeat("unlock", "--owner", z.name, z.oracle.path)
	if ok && !strings.HasPrefix(answer, "unlocked ") && !strings.Contains(answer, "does not hold") { // an earlier try may have released it
		z.chaos.t.Errorf("%s: unlock answers %q", z.name, answer)
	}
	return ok
}

// entryOf returns the log entry for a section of the client, and the lock's znode. Both are in the
// answer of the command that acquired the lock.
func (z *chaosClient) entryOf(s section, answer string) (in logEntry, node string, ok bool) {
	in = logEntry{section: s, mode: z.mode}
	var err error
	for word := range strings.FieldsSeq(answer) {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "node":
			node = value
			in.number, err = sequenceNumber(value)
		case "token":
			in.token = value
		}
	}
	if err != nil || in.token == "" || !strings.HasPrefix(answer, "locked ") {
		z.chaos.t.Errorf("%s: lock answers %q", z.name, answer)
		return in, node, false
	}
	return in, node, true
}

// repeat runs a command of zksh until it succeeds, and returns its output.
func (z *chaosClient) repeat(args ...string) (answer string, ok bool) {
	return z.repeatLines("", args...)
}

// repeatLines is like repeat, for a command or a script of commands.
func (z *chaosClient) repeatLines(script string, args ...string) (answer string, ok bool) {
	var errs bytes.Buffer
	for end := time.Now().Add(3 * zktest.Patience); time.Now().Before(end); {
		var out bytes.Buffer
		errs.Reset()
		cmd := z.zksh(append(z.options(true), args...)...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(script), &out, &errs
		if err := z.startTrip(&trip{client: z}, cmd); err != nil {
			z.chaos.t.Error(err)
			return "", false
		}
		err := cmd.Wait()
		z.mu.Lock()
		z.currentTrip, z.process = nil, nil
		z.mu.Unlock()
		if err == nil {
			return out.String(), true
		}
		if ws, is := cmd.ProcessState.Sys().(syscall.WaitStatus); is && !ws.Signaled() {
			time.Sleep(50 * time.Millisecond) // without a server, the command may fail at once
		}
	}
	z.chaos.t.Errorf("%s: %q %q does not succeed any more: %s", z.name, args, script, errs.String())
	return "", false
}

// wantOnePlace checks that the owner has no other znodes in the queue than node.
func (z *chaosClient) wantOnePlace(node string) {
	answer, ok := z.repeatLines("sync " + path.Dir(node) + "\nls " + path.Dir(node) + "\n")
	_, list, found := strings.Cut(answer, "[")
	if !ok || !found {
		z.chaos.t.Errorf("%s: ls answers %q", z.name, answer)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(strings.TrimSpace(list), "]"), ", ") {
		if zklock.OwnedBy(name, z.name) && name != path.Base(node) {
			z.chaos.t.Errorf("%s holds %s, and also has %s", z.name, node, name)
		}
	}
}

// wantNoOrphans searches for orphans until the faults are repaired. There are none: the servers
// delete the znodes of each session that ends.
func (c *chaos) wantNoOrphans() {
	searches := 0
	for n := 0; ; n++ {
		select {
		case <-c.repaired:
			c.t.Logf("%d searches for orphans", searches)
			return
		case <-time.After(2 * time.Second):
		}
		ctx, cancel := context.WithTimeout(c.t.Context(), zktest.Patience)
		path := c.locks[n%len(c.locks)].path
		out, err := exec.CommandContext(ctx, "zksh", "-server", c.split.Addr(n%3), "-o", "json", "locks", path).Output()
		cancel()
		if strings.Contains(string(out), `"orphan"`) { // err is set if somebody holds the lock, or the server is isolated
			c.t.Errorf("%s: %v\n%s", path, err, out)
		}
		if len(out) > 0 {
			searches++
		}
	}
}
