package render

import "testing"

func TestLine(t *testing.T) {
	l := Line{{"ab", Plain}, {"锁\x1b[2J", Green}, {"z", Red}}
	for columns, want := range map[int]string{
		20: "ab\x1b[32m锁\\x1b[2J\x1b[0m\x1b[31mz\x1b[0m",
		12: "ab\x1b[32m锁\\x1b[2J\x1b[0m\x1b[31mz\x1b[0m",
		11: "ab\x1b[32m锁\\x1b[2…\x1b[0m",
		2:  "a…",
		1:  "…",
	} {
		if got := l.Terminal(columns, true); got != want {
			t.Errorf("%d columns: %q, want %q", columns, got, want)
		}
	}
	if got := l.Terminal(20, false); got != `ab锁\x1b[2Jz` {
		t.Errorf("without styles: %q", got)
	}
	if got := PlainLine("abc").Terminal(3, true); got != "abc" || PlainLine("锁a").Width() != 3 {
		t.Errorf("%q", got)
	}
}
