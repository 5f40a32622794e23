package child

import (
	"testing"
	"time"
)

// A deadline passes by the wall clock alone if the machine sleeps, and by the monotonic
// clock if the wall clock is set back.
func TestDeadlineByBothClocks(t *testing.T) {
	start := time.Now()
	due := momentAt(start.Add(10 * time.Second))
	for name, c := range map[string]struct{ steady, wall, want time.Duration }{
		"awake":              {4 * time.Second, 4 * time.Second, 6 * time.Second},
		"asleep for a while": {4 * time.Second, 11 * time.Second, -time.Second},
		"the clock set back": {11 * time.Second, -time.Hour, -time.Second},
	} {
		from := moment{start.Add(c.steady), start.Round(0).Add(c.wall)}
		if got := due.left(from); got != c.want {
			t.Errorf("%s: %s left, want %s", name, got, c.want)
		}
	}
}
