package wire

import (
	"testing"
	"time"
)

// However many answers arrive, recent ones back to nearly half a session timeout are kept, and
// the best match for a time in that range is not much older than that time.
func TestAnswersReachBack(t *testing.T) {
	const life = 30 * time.Second
	start := time.Now()
	for _, every := range []time.Duration{time.Millisecond, life / 100, life / 20, life / 3} {
		var a answers
		for at := time.Duration(0); at < 3*life; at += every {
			a.add(start.Add(at-time.Millisecond), start.Add(at), life)
			if len(a) > maxAnswers {
				t.Fatalf("%d are kept", len(a))
			}
			if at < life {
				continue
			}
			by, best := start.Add(at-life*7/16), time.Time{}
			for _, one := range a {
				if !one.came.After(by) {
					best = one.came
				}
			}
			if age := by.Sub(best); age > max(life/16, every) {
				t.Fatalf("an answer every %s: %s too old", every, age)
			}
		}
	}
}
