package history

import (
	"reflect"
	"strings"
	"testing"
)

func TestList(t *testing.T) {
	var l List
	if _, ok := l.Get(0); ok || l.Len() != 0 || l.Last(11) != nil {
		t.Error("a new list is not empty")
	}
	for i, line := range []string{"ls /", " addauth digest u:p", "redo 0"} {
		if n := l.Add(Entry{Line: line}); n != i {
			t.Errorf("line %d has number %d", i, n)
		}
	}
	if !l.Replace(2, "ls /") || l.Replace(3, "x") || l.Replace(-1, "x") {
		t.Error("Replace is wrong about which lines there are")
	}
	for i, want := range []string{"ls /", " addauth digest u:p", "ls /"} {
		if got, ok := l.Get(i); !ok || got.Line != want {
			t.Errorf("line %d is %q, %v; want %q", i, got.Line, ok, want)
		}
	}
	for _, i := range []int{-1, 3} {
		if _, ok := l.Get(i); ok {
			t.Errorf("there is a line %d", i)
		}
	}
	if e := l.Finish(2, 1); e != (Entry{Line: "ls /", Status: 1}) || l.Finish(3, 1) != (Entry{}) {
		t.Errorf("finished %+v", e)
	}
	all := []Numbered{{0, Entry{Line: "ls /"}}, {1, Entry{Line: " addauth digest u:p"}}, {2, Entry{Line: "ls /", Status: 1}}}
	for n, want := range map[int][]Numbered{-1: nil, 0: nil, 1: all[2:], 2: all[1:], 3: all, 11: all} {
		if got := l.Last(n); !reflect.DeepEqual(got, want) {
			t.Errorf("Last(%d) = %v; want %v", n, got, want)
		}
	}
	if l.Len() != 3 {
		t.Errorf("Len() = %d", l.Len())
	}
}

// A full List drops the oldest lines and does not change the numbers of the others.
func TestListIsBounded(t *testing.T) {
	var many List
	for i := range maxListLines + 5 {
		if n := many.Add(Entry{Line: "x"}); n != i {
			t.Fatalf("line %d got number %d", i, n)
		}
	}
	if _, ok := many.Get(4); ok {
		t.Error("line 4 is still kept")
	}
	if _, ok := many.Get(5); !ok {
		t.Error("line 5 is gone already")
	}
	if !many.Replace(maxListLines, "y") {
		t.Error("a kept line cannot be replaced")
	}
	last := many.Last(1)
	if many.Len() != maxListLines+5 || len(last) != 1 || last[0].Number != maxListLines+4 {
		t.Errorf("Len %d, Last %v", many.Len(), last)
	}
	var big List
	huge := strings.Repeat("x", maxListBytes/2)
	for range 5 {
		big.Add(Entry{Line: huge})
	}
	if big.bytes > maxListBytes || big.Len() != 5 {
		t.Errorf("%d bytes are kept of %d lines", big.bytes, big.Len())
	}
	big.Add(Entry{Line: strings.Repeat("y", 2*maxListBytes)})
	if line, ok := big.Get(5); !ok || len(line.Line) != 2*maxListBytes {
		t.Error("the newest line must be kept, whatever its length")
	}
}
