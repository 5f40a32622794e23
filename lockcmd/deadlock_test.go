package lockcmd

import (
	"context"
	"errors"
	"path"
	"strings"
	"testing"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// user is an interactive shell with its own session and locks.
type user struct {
	*testEnv
	t     *testing.T
	table *Table
	fix   *fixture
}

func (b *fixture) newUser() *user {
	p := &user{testEnv: newTestEnv(open(b.t, b.addr, usualTimeout), render.Text), t: b.t.(*testing.T), table: New(), fix: b}
	p.Mode = commands.ByHand
	p.t.Cleanup(func() {
		// A test that removes a znode of the shell may end before or after the shell reports
		// the loss.
		if _, err := p.table.Release(context.Background()); err != nil && !errors.Is(err, zklock.ErrLost) {
			p.t.Error(err)
		}
	})
	return p
}

// lock acquires a lock, or waits for it in the background.
func (p *user) lock(kind int, name string) {
	p.t.Helper()
	f := &lockFlags{family: string(lockKinds[kind].family), background: true}
	zktest.Must(p.t, p.table.lockAndRun(zktest.Within(p.t), &p.Env, lockKinds[kind], f, p.fix.root+name, nil))
}

// expectDeadlock waits until the shell has reported a deadlock, exactly once: that it "waits"
// or, if the deadlock was predicted, that it "would wait" for lock.
func (p *user) expectDeadlock(what, holds, waits, lock string) {
	p.t.Helper()
	want := "deadlock: this zksh holds " + p.fix.root + holds + " and " + waits + " for " + p.fix.root + lock + "; "
	late := strings.Replace(want, "would wait for", "waits for", 1) // the prediction has only a second
	zktest.Eventually(p.t, what, func() bool {
		output := p.Alerts()
		return strings.Contains(output, want) || strings.Contains(output, late)
	})
	if n := strings.Count(p.Alerts(), "deadlock"); n != 1 {
		p.t.Errorf("%s %d times: %s", what, n, p.Alerts())
	}
}

const exclusive, shared = 0, 2 // indices of lockKinds

// Two shells that wait for each other both report the deadlock; the second one does so before
// it waits. This also holds if one began to wait before it acquired the lock that the other
// waits for, so that its znode does not list that lock.
func TestCrossedPair(t *testing.T) {
	onBoth(t, func(t *testing.T, addr string) {
		b := newFixture(t, addr)
		ann, ben := b.newUser(), b.newUser()
		ben.lock(exclusive, "/y")
		ann.lock(exclusive, "/y")
		ann.lock(exclusive, "/x")
		ben.lock(exclusive, "/x")
		ann.expectDeadlock("ann is output", "/x", "waits", "/y")
		ben.expectDeadlock("ben is output", "/y", "would wait", "/x")
	})
}

// Three shells that wait for each other all report the deadlock. A fourth shell, which waits
// for one of them, does not.
func TestDeadlockOfThree(t *testing.T) {
	onBoth(t, func(t *testing.T, addr string) {
		b := newFixture(t, addr)
		ann, ben, col, dan := b.newUser(), b.newUser(), b.newUser(), b.newUser()
		for p, name := range map[*user]string{ann: "/x", ben: "/y", col: "/z", dan: "/w"} {
			p.lock(exclusive, name)
		}
		dan.lock(exclusive, "/x") // waits for a member of the cycle, but is not part of it
		ann.lock(exclusive, "/y")
		ben.lock(exclusive, "/z")
		col.lock(exclusive, "/x")
		ann.expectDeadlock("ann is output", "/x", "waits", "/y")
		ben.expectDeadlock("ben is output", "/y", "waits", "/z")
		col.expectDeadlock("col is output", "/z", "would wait", "/x")
		if strings.Contains(dan.Alerts(), "deadlock") {
			t.Error(dan.Alerts())
		}
		found := runCommand(t, b.Session, render.Text, 0, "locks", "-R", b.root).Alerts()
		if !strings.HasPrefix(found, "possible deadlock: ") || strings.Count(found, " is ahead in ") != 2 ||
			strings.Count(found, "to resolve it, run: unlock --force ") != 1 {
			t.Error(found)
		}
	})
}

// A shell that wants the read lock reports a deadlock if a writer ahead of it waits for the
// read lock of the shell's own parent process.
func TestReaderBehindBlockedWriter(t *testing.T) {
	b := newFixture(t, zktest.Shared(t).Addr())
	ann, ben, nested := b.newUser(), b.newUser(), b.newUser()
	ann.lock(shared, "/l")
	ben.lock(exclusive, "/l")
	node := ann.table.heldNodes()
	if len(node) != 1 || path.Dir(node[0]) != b.root+"/l" {
		t.Fatalf("held: %q", node)
	}
	t.Setenv(heldName, node[0])
	nested.lock(shared, "/l")
	nested.expectDeadlock("the reader is output", "/l", "would wait", "/l")
}
