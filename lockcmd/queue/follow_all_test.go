package queue

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// All queues below a path are followed at once, also those that are new or have become empty.
func TestFollowAll(t *testing.T) {
	f := newFakeEnsemble()
	f.add("/a", "/a/one", "/a/one/lock-0000000001", "/a/two", "/a/two/lock-0000000001", "/a/two/lock-0000000002", "/b", "/b/lock-0000000001")
	follower := FollowAll(f, "/a")
	if p := follower.Picture(80, 24, true); p != nil {
		t.Errorf("before the first reading: %q", p)
	}
	want := func(wantChanges string, wantPicture ...string) {
		t.Helper()
		list, err := follower.Update(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var events []string
		for _, c := range list {
			events = append(events, c.Event+" "+c.Path+"/"+c.Nodes[0])
		}
		if diff := cmp.Diff(wantChanges, strings.Join(events, ", ")); diff != "" {
			t.Error(diff)
		}
		var lines []string
		for _, text := range texts(follower.Picture(80, 24, true)) {
			switch {
			case strings.HasPrefix(text, "no server listed the queues"), strings.HasPrefix(text, "client addresses"), strings.Contains(text, "PLACE"):
			case strings.HasPrefix(text, "/"), strings.Contains(text, " queues below "):
				title, _, _ := strings.Cut(text, ", the longest")
				lines = append(lines, title)
			default: // a contender
				lines = append(lines, text[:1]+text[len(text)-1:])
			}
		}
		if diff := cmp.Diff(wantPicture, lines); diff != "" {
			t.Error(diff)
		}
	}
	want("holds /a/one/lock-0000000001, holds /a/two/lock-0000000001, waits /a/two/lock-0000000002",
		"all queues below /a: 2 hold, 1 wait", "/a/two: 1 hold, 1 wait", " 1", " 2", "/a/one: 1 hold, 0 wait", " 1")
	delete(f.znodes, "/a/one/lock-0000000001")
	delete(f.znodes, "/a/two/lock-0000000001")
	f.add("/a/new", "/a/new/lock-0000000005")
	want("came /a/new/lock-0000000005, got /a/new/lock-0000000005, left /a/one/lock-0000000001, left /a/two/lock-0000000001, got /a/two/lock-0000000002",
		"all queues below /a: 2 hold, 0 wait", "/a/two: 1 hold, 0 wait", "-1", "*2", "/a/new: 1 hold, 0 wait", "*5", "/a/one: free", "-1")
	for i := range follower.marks {
		follower.marks[i].until = time.Now()
	}
	want("", "all queues below /a: 2 hold, 0 wait", "/a/two: 1 hold, 0 wait", " 2", "/a/new: 1 hold, 0 wait", " 5")
	if p := texts(follower.Picture(80, 4, false)); len(p) != 3 || p[1] != lostLine || !strings.HasSuffix(p[2], "more") {
		t.Errorf("%q", p)
	}
}
