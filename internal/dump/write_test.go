package dump

import (
	"errors"
	"testing"
)

// full takes so many bytes.
type full struct{ room int }

var errFull = errors.New("there is no room")

func (f *full) Write(p []byte) (int, error) {
	if f.room -= len(p); f.room < 0 {
		return 0, errFull
	}
	return len(p), nil
}

// Who writes learns what went wrong behind its back, by the end at the latest; and behind
// the end nothing is written.
func TestWriterThatFails(t *testing.T) {
	for _, znodes := range []int{1, 100, 100_000} {
		for _, room := range []int{0, 1 << 20} {
			f := &full{room}
			w, err := NewWriter(f, Lines, Header{Root: "/a"})
			if err != nil {
				t.Fatal(err)
			}
			for i := 0; i < znodes && err == nil; i++ {
				err = w.Write(&Znode{Path: "/a", Data: make([]byte, 100)})
			}
			if err != nil {
				err = errors.Join(err, w.Abort())
			} else {
				err = w.Close(Trailer{})
			}
			// Who still wrote now would be seen by the race detector, as it is here that room is read.
			if fits := room > 0 && znodes < 1000; fits != (err == nil) || fits != (f.room >= 0) || err != nil && !errors.Is(err, errFull) {
				t.Errorf("%d znodes into %d bytes: %v", znodes, room, err)
			}
		}
	}
}
