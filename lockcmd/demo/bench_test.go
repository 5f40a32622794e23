package demo

import (
	"testing"
	"time"

	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zktest"
)

// BenchmarkPicture draws the scene with the most events, as a terminal does ten times a
// second.
func BenchmarkPicture(b *testing.B) {
	bed := newFixture(b, zktest.Sandbox(b, sandbox.Options{}).Addr())
	st := &runner{env: bed.env}
	sc := &scene{runner: st, scheme: schemes[2], n: 50}
	tl := newTimeline(sc)
	sc.start = time.Now()
	for i := range 4000 { // about as many as the scheme parent has with 50 contenders
		for _, s := range []state{woken, vain} {
			tl.add(event{scene: sc, at: time.Duration(i) * time.Millisecond, Contender: i%50 + 1, Event: s})
		}
	}
	for b.Loop() {
		tl.picture(200, 60, tl.end())
	}
}
