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

// person is a shell of somebody's own, by hand.
type person struct {
	*stage
	t     *testing.T
	table *Table
	bed   *bed
}

func (b *bed) person() *person {
	p := &person{stage: newStage(open(b.t, b.addr, usual), render.Text), t: b.t.(*testing.T), table: New(), bed: b}
	p.Mode = commands.ByHand
	p.t.Cleanup(func() {
		// A test that takes a lock away may or may not have had it told by now.
		if _, err := p.table.Release(context.Background()); err != nil && !errors.Is(err, zklock.ErrLost) {
			p.t.Error(err)
		}
	})
	return p
}

// lock takes a lock, or waits for it in the background.
func (p *person) lock(kind int, name string) {
	p.t.Helper()
	f := &lockFlags{family: string(lockKinds[kind].family), background: true}
	if err := p.table.take(zktest.Within(p.t), &p.Env, lockKinds[kind], f, p.bed.root+name, nil); err != nil {
		p.t.Fatal(err)
	}
}

// told waits until the person is told of a deadlock, once: that he waits, or, if it
// was foretold, that he would.
func (p *person) told(what, holds, waits, lock string) {
	p.t.Helper()
	want := "deadlock: this zksh holds " + p.bed.root + holds + " and " + waits + " for " + p.bed.root + lock + "; "
	late := strings.Replace(want, "would wait for", "waits for", 1) // to look ahead there is a second only
	zktest.Eventually(p.t, what, func() bool {
		told := p.Alerts()
		return strings.Contains(told, want) || strings.Contains(told, late)
	})
	if n := strings.Count(p.Alerts(), "deadlock"); n != 1 {
		p.t.Errorf("%s %d times: %s", what, n, p.Alerts())
	}
}

const exclusive, shared = 0, 2 // of lockKinds

// Both of a crossed pair are told, the second before it waits, also when one has begun to wait before it held
// what the other waits for, of which its znode tells nothing.
func TestCrossedPair(t *testing.T) {
	onBoth(t, func(t *testing.T, addr string) {
		b := newBed(t, addr)
		ann, ben := b.person(), b.person()
		ben.lock(exclusive, "/y")
		ann.lock(exclusive, "/y")
		ann.lock(exclusive, "/x")
		ben.lock(exclusive, "/x")
		ann.told("ann is told", "/x", "waits", "/y")
		ben.told("ben is told", "/y", "would wait", "/x")
	})
}

// So are all of three, and no other.
func TestCircleOfThree(t *testing.T) {
	onBoth(t, func(t *testing.T, addr string) {
		b := newBed(t, addr)
		ann, ben, col, dan := b.person(), b.person(), b.person(), b.person()
		for p, name := range map[*person]string{ann: "/x", ben: "/y", col: "/z", dan: "/w"} {
			p.lock(exclusive, name)
		}
		dan.lock(exclusive, "/x") // waits for the circle, and is in none
		ann.lock(exclusive, "/y")
		ben.lock(exclusive, "/z")
		col.lock(exclusive, "/x")
		ann.told("ann is told", "/x", "waits", "/y")
		ben.told("ben is told", "/y", "waits", "/z")
		col.told("col is told", "/z", "would wait", "/x")
		if strings.Contains(dan.Alerts(), "deadlock") {
			t.Error(dan.Alerts())
		}
		text := printed(t, b.Session, render.Text, 1, "locks", "--deadlocks", b.root).Printed()
		if !strings.HasPrefix(text, "possible deadlock: 3 sessions are waiting for each other\n") || strings.Count(text, "to resolve it: ") != 1 {
			t.Error(text)
		}
	})
}

// A reader whose own reading, further up, is what the writer before it waits for.
func TestReaderBehindTheWriterItHoldsUp(t *testing.T) {
	b := newBed(t, zktest.Shared(t).Addr())
	ann, ben, nested := b.person(), b.person(), b.person()
	ann.lock(shared, "/l")
	ben.lock(exclusive, "/l")
	node := ann.table.heldNow()
	if len(node) != 1 || path.Dir(node[0]) != b.root+"/l" {
		t.Fatalf("held: %q", node)
	}
	t.Setenv(heldName, node[0])
	nested.lock(shared, "/l")
	nested.told("the reader is told", "/l", "would wait", "/l")
}
