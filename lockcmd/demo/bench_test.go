package demo

import (
	"testing"
	"time"

	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zktest"
)

// BenchmarkPicture draws the busiest scene, which a terminal sees ten times a second.
func BenchmarkPicture(b *testing.B) {
	bed := newBed(b, zktest.Sandbox(b, sandbox.Options{}).Addr())
	st := &stage{env: bed.env}
	sc := &scene{stage: st, scheme: schemes[2], n: 50}
	board := newBoard(sc)
	for i := range 4000 { // parent's, of 50
		for _, s := range []state{woken, vain} {
			board.add(event{scene: sc, at: time.Duration(i) * time.Millisecond, Contender: i % 51, Event: s})
		}
	}
	for b.Loop() {
		board.picture(200, 60)
	}
}
