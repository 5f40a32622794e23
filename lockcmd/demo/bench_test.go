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
	sc := newStage(bed.env, usualTimeout).newScene(setting{scheme: schemes[2], n: 50})
	sc.start = time.Now()
	for i := range 4000 { // about as many as the scheme parent has with 50 contenders
		for _, s := range []state{woken, vain} {
			sc.contenders[i%50+1].record(s)
		}
	}
	for b.Loop() {
		sc.picture().lines(200, 60)
	}
}
