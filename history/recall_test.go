package history

import (
	"cmp"
	"fmt"
	"testing"
)

// linesAt returns entries with a place.
func linesAt(place string, lines ...string) (all []Entry) {
	for _, line := range lines {
		all = append(all, Entry{Line: line, Place: place})
	}
	return all
}

func anywhere(Entry) bool { return true }

func TestRecall(t *testing.T) {
	var r Recall
	r.Add(linesAt("", "ls /", "get /a", "get /a", "addauth digest u:p", "", "ls /b")...)
	r.Add(linesAt("", "set /c 1")...)
	if r.Len() != 4 {
		t.Fatalf("%d lines, want 4: %v", r.Len(), r.lines)
	}
	type step struct {
		by     int
		from   int
		text   string
		line   string
		at     int
		absent bool
	}
	const older, newer, search = -1, 1, 0
	for _, s := range []step{
		{older, 4, "", "set /c 1", 3, false},
		{older, 4, "ls", "ls /b", 2, false},
		{older, 2, "ls", "ls /", 0, false},
		{older, 0, "ls", "", 0, true},
		{older, 4, "set /c 1", "", 0, true}, // the only match is the same as the text typed
		{newer, 0, "ls", "ls /b", 2, false},
		{newer, 2, "ls", "", 0, true},
		{search, 4, "/a", "get /a", 1, false},
		{search, 1, "/a", "", 0, true},
	} {
		line, at, ok := r.Search(s.from, s.text)
		if s.by != search {
			line, at, ok = r.step(s.from, s.by, s.text, anywhere)
		}
		if ok == s.absent || !s.absent && (line != s.line || at != s.at) {
			t.Errorf("from %d %q: %q, %d, %v; want %q, %d", s.from, s.text, line, at, ok, s.line, s.at)
		}
	}
}

// Up and the ghost text use only the lines that the caller keeps.
func TestRecallOfOnePlace(t *testing.T) {
	var r Recall
	r.Add(linesAt("@prod", "deleteall /app", "get /app", "get /app")...)
	r.Add(linesAt("@test", "get /app", "get /app/x")...)
	if r.Len() != 4 {
		t.Errorf("%d lines", r.Len())
	}
	test := func(e Entry) bool { return e.Place == "@test" }
	if line, _, ok := r.Older(4, "d", test); ok {
		t.Errorf("%q was recalled", line)
	}
	if line, at, _ := r.Older(3, "", test); line != "get /app" || at != 2 {
		t.Errorf("%q, %d", line, at)
	}
	if e := r.At(0); e.Place != "@prod" {
		t.Errorf("%+v", e)
	}
	for _, typed := range []string{"g", "ge", "get /app", "get /app/", "get /app/x", "get", "d", "x", "xx", "get /a"} {
		var want, wantElsewhere string
		for i := range r.lines {
			if line := r.lines[i].Line; len(line) > len(typed) && line[:len(typed)] == typed {
				if wantElsewhere = line; test(r.lines[i]) {
					want = line
				}
			}
		}
		if got := r.Newest(typed, test, anywhere); got != cmp.Or(want, wantElsewhere) {
			t.Errorf("%q: %q; want %q or %q", typed, got, want, wantElsewhere)
		}
	}
	if got := r.Newest("d", test, test); got != "" {
		t.Errorf("%q", got)
	}
}

func TestRecallIsBounded(t *testing.T) {
	var r Recall
	for i := range 3 * maxRecall {
		r.Add(Entry{Line: fmt.Sprint(i)})
	}
	if r.Len() > maxRecall {
		t.Errorf("%d lines are kept", r.Len())
	}
	if line, _, ok := r.Older(r.Len(), "", anywhere); !ok || line != fmt.Sprint(3*maxRecall-1) {
		t.Errorf("the newest is %q", line)
	}
}

// BenchmarkNewest measures a search through 100,000 lines that finds nothing.
func BenchmarkNewest(b *testing.B) {
	var r Recall
	for i := range 100_000 {
		r.Add(Entry{Line: fmt.Sprintf("get /app/service-%d/config", i)})
	}
	for b.Loop() {
		r.Newest("get /app/service-x", anywhere, anywhere)
	}
}
