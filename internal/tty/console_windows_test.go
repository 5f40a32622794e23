package tty

import (
	"testing"
	"unsafe"
)

func TestLineBegins(t *testing.T) {
	if size := unsafe.Sizeof(inputRecord{}); size != 20 {
		t.Errorf("a record has %d bytes", size)
	}
	for what, c := range map[string]struct {
		r    inputRecord
		want bool
	}{
		"a letter":           {inputRecord{kind: keyEvent, down: 1, key: 'A', char: 'a'}, true},
		"Up":                 {inputRecord{kind: keyEvent, down: 1, key: 0x26}, true},
		"a composed one":     {inputRecord{kind: keyEvent, key: 0x12, char: 'é'}, true},
		"its end":            {inputRecord{kind: keyEvent, key: 'A', char: 'a'}, false},
		"Ctrl":               {inputRecord{kind: keyEvent, down: 1, key: 0x11}, false},
		"the window's focus": {inputRecord{kind: 0x10, down: 1}, false},
	} {
		if c.r.startsLine() != c.want {
			t.Errorf("%s: %t", what, !c.want)
		}
	}
}
