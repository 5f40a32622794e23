package lockcmd

import (
	"strings"
	"testing"
	"time"

	"github.com/zksh/zksh/commands/commandtest"
	"github.com/zksh/zksh/internal/render"
)

// The list of this shell's locks fits its terminal. A short node keeps its mode and
// its number.
func TestOwnLocksFit(t *testing.T) {
	locks := ownLocks{
		{Path: "/locks/夜間備份", Mode: "write", State: "held", Times: 1, Node: "/locks/夜間備份/" + uuid + "-__WRIT__0000000042", Token: "0x100000003"},
		{Path: "/b", Mode: "lock", State: "suspended", Times: 2, Node: "/b/" + uuid + "-lock-0000000007", Token: "0x4", Until: time.Now()},
	}
	for columns, want := range map[int][]string{
		0:   {"token", locks[0].Node, locks[1].Node},
		200: {"token", locks[0].Node, locks[1].Node},
		80:  {"token", "WRIT", "00042", "lock", "00007"},
		60:  {"mode", "WRIT", "00042", "lock", "00007"},
		40:  {"state", "WRIT", "00042", "lock", "00007"},
	} {
		screen := &commandtest.Screen{Columns: columns}
		if err := screen.Print(locks); err != nil {
			t.Fatal(err)
		}
		text := screen.Printed()
		for l := range strings.Lines(text) {
			if width := render.Width(strings.TrimSuffix(l, "\n")); columns > 0 && width >= columns {
				t.Errorf("%d columns: a line of %d: %q", columns, width, l)
			}
		}
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("%d columns: %q is missing:\n%s", columns, w, text)
			}
		}
	}
	screen := &commandtest.Screen{Columns: 40}
	if err := screen.Print(ownLocks{}); err != nil || screen.Printed() != "no locks\n" {
		t.Errorf("%q, %v", screen.Printed(), err)
	}
}
