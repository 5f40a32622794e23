package history

import (
	"fmt"
	"testing"
)

func TestRecall(t *testing.T) {
	var r Recall
	r.Add("ls /", "get /a", "get /a", "addauth digest u:p", "", "ls /b")
	r.Add("set /c 1")
	if r.Len() != 4 {
		t.Fatalf("%d lines, want 4: %q", r.Len(), r.lines)
	}
	type step struct {
		find   func(int, string) (string, int, bool)
		from   int
		text   string
		line   string
		at     int
		absent bool
	}
	for _, s := range []step{
		{find: r.Older, from: 4, text: "", line: "set /c 1", at: 3},
		{find: r.Older, from: 4, text: "ls", line: "ls /b", at: 2},
		{find: r.Older, from: 2, text: "ls", line: "ls /", at: 0},
		{find: r.Older, from: 0, text: "ls", absent: true},
		{find: r.Older, from: 4, text: "set /c 1", absent: true}, // the only match is the same as the text typed
		{find: r.Newer, from: 0, text: "ls", line: "ls /b", at: 2},
		{find: r.Newer, from: 2, text: "ls", absent: true},
		{find: r.Search, from: 4, text: "/a", line: "get /a", at: 1},
		{find: r.Search, from: 1, text: "/a", absent: true},
	} {
		line, at, ok := s.find(s.from, s.text)
		if ok == s.absent || !s.absent && (line != s.line || at != s.at) {
			t.Errorf("from %d %q: %q, %d, %v; want %q, %d", s.from, s.text, line, at, ok, s.line, s.at)
		}
	}
}

func TestRecallIsBounded(t *testing.T) {
	var r Recall
	for i := range 3 * maxRecall {
		r.Add(fmt.Sprint(i))
	}
	if r.Len() > maxRecall {
		t.Errorf("%d lines are kept", r.Len())
	}
	if line, _, ok := r.Older(r.Len(), ""); !ok || line != fmt.Sprint(3*maxRecall-1) {
		t.Errorf("the newest is %q", line)
	}
}
