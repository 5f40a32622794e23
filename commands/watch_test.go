package commands

import (
	"strings"
	"testing"
)

// On a narrow terminal, the line of a change is broken between words.
func TestChangeFits(t *testing.T) {
	size, was := int32(3), int32(12)
	c := &nodeChange{Event: nodeChanged, Path: "/an/application/with/a/path", Version: 7, Size: &size, Was: &was}
	const whole = "NodeDataChanged /an/application/with/a/path version=7 size=3 was=12\n"
	for columns, want := range map[int]string{
		0: whole, 80: whole,
		60: strings.Replace(whole, " was", "\n  was", 1),
		56: strings.Replace(whole, " size", "\n  size", 1),
	} {
		var b strings.Builder
		if err := c.FitText(&b, columns); err != nil || b.String() != want {
			t.Errorf("in %d columns: %q, %v", columns, b.String(), err)
		}
	}
}
