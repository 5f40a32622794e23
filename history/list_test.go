package history

import (
	"reflect"
	"testing"
)

func TestList(t *testing.T) {
	var l List
	if _, ok := l.Get(0); ok || l.Len() != 0 || l.Last(11) != nil {
		t.Error("a new list is not empty")
	}
	for i, line := range []string{"ls /", " addauth digest u:p", "redo 0"} {
		if n := l.Add(line); n != i {
			t.Errorf("line %d has number %d", i, n)
		}
	}
	if !l.Replace(2, "ls /") || l.Replace(3, "x") || l.Replace(-1, "x") {
		t.Error("Replace is wrong about which lines there are")
	}
	for i, want := range []string{"ls /", " addauth digest u:p", "ls /"} {
		if got, ok := l.Get(i); !ok || got != want {
			t.Errorf("line %d is %q, %v; want %q", i, got, ok, want)
		}
	}
	for _, i := range []int{-1, 3} {
		if _, ok := l.Get(i); ok {
			t.Errorf("there is a line %d", i)
		}
	}
	all := []Entry{{0, "ls /"}, {1, " addauth digest u:p"}, {2, "ls /"}}
	for n, want := range map[int][]Entry{-1: nil, 0: nil, 1: all[2:], 2: all[1:], 3: all, 11: all} {
		if got := l.Last(n); !reflect.DeepEqual(got, want) {
			t.Errorf("Last(%d) = %v; want %v", n, got, want)
		}
	}
	if l.Len() != 3 {
		t.Errorf("Len() = %d", l.Len())
	}
}
