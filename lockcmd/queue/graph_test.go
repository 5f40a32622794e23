package queue

import (
	"fmt"
	"strings"
	"testing"

	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/lockcmd/zklock"
)

const (
	lock1  = uuid + "-lock-0000000001"
	lock2  = "_c_44444444-0000-4000-8000-0123456789ab-lock-0000000002"
	lock3  = "_c_55555555-0000-4000-8000-0123456789ab-lock-0000000003"
	read2  = uuid + "-__READ__0000000002"
	read3  = "_c_11111111-0000-4000-8000-0123456789ab-__READ__0000000003"
	write4 = "_c_22222222-0000-4000-8000-0123456789ab-__WRIT__0000000004"
)

func TestAhead(t *testing.T) {
	f := newFakeEnsemble()
	f.make(1, "", "/l")
	f.make(1, "", "/l/"+read2)
	f.make(2, "", "/l/"+read3)
	f.make(3, "", "/l/"+write4)
	f.make(4, "", "/l/"+hex32+"__lock__0000000005")
	q := f.read(t)
	for i, want := range []int{0, 0, 2, 0} { // kazoo's lock ignores Curator's
		if got := q.ahead(q.Contenders[i]); len(got) != want {
			t.Errorf("%s: %d ahead, want %d", q.Contenders[i], len(got), want)
		}
	}
	for mode, want := range map[zklock.Mode]bool{zklock.Shared: false, zklock.Exclusive: true, zklock.Counted: false} {
		if q.Contender(read2).Excludes(mode) != want {
			t.Errorf("a reader excludes %s: %v", mode, !want)
		}
	}
}

// makeRing creates n queues and n sessions. Each session holds the lock of one queue, and the
// next session waits for it.
func makeRing(f *fakeEnsemble, n int) {
	for i := range n {
		f.make(0, "", fmt.Sprintf("/q%d", i))
		f.make(int64(i+1), "", fmt.Sprintf("/q%d/%s", i, lock1))
	}
	for i := range n {
		f.make(int64((i+1)%n+1), "", fmt.Sprintf("/q%d/%s", i, lock2))
	}
}

// Each session of a cycle of any length finds the deadlock, even before the last wait begins.
// Without dump, it finds only cycles among the locks that it holds.
func TestDeadlockOfWait(t *testing.T) {
	for n := 2; n < 6; n++ {
		f := newFakeEnsemble()
		makeRing(f, n)
		w := Wait{Session: 1, Path: fmt.Sprintf("/q%d", n-1), Held: []string{"/q0/" + lock1}}
		f.answersDump = true
		want := fmt.Sprintf("possible deadlock: this zksh holds /q0 and waits for /q%d; ", n-1)
		got, err := w.Deadlock(t.Context(), f)
		if err != nil || !strings.HasPrefix(got, want) || strings.Count(got, " is ahead in ") != n-1 {
			t.Errorf("%d: %q, %v, want %q", n, got, err, want)
		}
		// The message names the znode ahead and the command that ends this wait.
		if ahead := fmt.Sprintf("; %s is ahead in /q%d ", lock1, n-1); !strings.Contains(got, ahead) || !strings.HasSuffix(got, "; to end this wait, use: Ctrl-C") {
			t.Errorf("%d: %q", n, got)
		}
		later := w
		later.Background = true
		if got, err := later.Deadlock(t.Context(), f); err != nil || !strings.HasSuffix(got, "; to end this wait, use: unlock "+w.Path) {
			t.Errorf("%d, in the background: %q, %v", n, got, err)
		}
		f.answersDump = false
		if alone, err := w.Deadlock(t.Context(), f); err != nil || (alone == got) != (n == 2) {
			t.Errorf("%d, no dump: %q, %v", n, alone, err)
		}
		f.answersDump = true
		delete(f.znodes, fmt.Sprintf("/q%d/%s", n-1, lock2))
		if got, err := w.Deadlock(t.Context(), f); got != "" || err != nil {
			t.Errorf("%d: nobody of that session waits: %q, %v", n, got, err)
		}
		w.Mode = zklock.Exclusive
		if got, err := w.Deadlock(t.Context(), f); err != nil || !strings.HasPrefix(got, strings.Replace(want, "waits", "would wait", 1)) {
			t.Errorf("%d, foretold: %q, %v", n, got, err)
		}
	}
}

// A wait counts as a wait of the lock's holder if the waiter's note lists the holder's znode,
// and only then.
func TestRunsUnderALock(t *testing.T) {
	note := func(held string) string {
		data, err := Note("", []string{held}, 0)
		zktest.Must(t, err)
		return string(data)
	}
	for held, want := range map[string]bool{"/root/l/" + read2: true, "/root/m/" + read2: false, "/l/" + read2: false} {
		f := newFakeEnsemble()
		f.chroot, f.answersDump = "/root", true
		f.make(0, "", "/l")
		f.make(1, note(""), "/l/"+read2)
		f.make(2, note(""), "/l/"+write4)
		f.make(3, note(held), "/l/_c_33333333-0000-4000-8000-0123456789ab-__READ__0000000005")
		got, err := Wait{Session: 3, Path: "/l", Held: []string{held}}.Deadlock(t.Context(), f)
		if err != nil || strings.HasPrefix(got, "deadlock: this zksh holds /l and waits for /l; ") != want {
			t.Errorf("%s: %q, %v", held, got, err)
		}
		if all := newGraph([]*Queue{f.read(t)}, f.ServerPath).cycles(); (len(all) == 1) != want {
			t.Errorf("%s: %d circles", held, len(all))
		}
	}
}

// Two cycles without a common session are found separately. Sessions that queue in the same
// order form no cycle.
func TestCycles(t *testing.T) {
	f := newFakeEnsemble()
	f.answersDump = true
	makeRing(f, 3)
	for i, s := range []int64{11, 12} {
		f.make(0, "", fmt.Sprintf("/r%d", i))
		f.make(s, "", fmt.Sprintf("/r%d/%s", i, lock1))
		f.make(23-s, "", fmt.Sprintf("/r%d/%s", i, lock2))
		f.make(2, "", fmt.Sprintf("/r%d/%s", i, lock3)) // waits for a member of this cycle, and is part of the other one
	}
	s, err := LookAll(t.Context(), f, "/")
	zktest.Must(t, err)
	all := newGraph(s.Queues, f.ServerPath).cycles()
	if len(all) != 2 || len(all[0])+len(all[1]) != 5 {
		t.Errorf("%v", all)
	}
	delete(f.znodes, "/q0/"+lock2)
	delete(f.znodes, "/r0/"+lock2)
	if s, err = LookAll(t.Context(), f, "/"); err != nil {
		t.Fatal(err)
	}
	if all := newGraph(s.Queues, f.ServerPath).cycles(); len(all) != 0 {
		t.Errorf("%v", all)
	}
}
