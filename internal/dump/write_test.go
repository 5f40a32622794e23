package dump

import (
	"errors"
	"testing"
)

// A limitedWriter fails after the given number of bytes.
type limitedWriter struct{ room int }

var errFull = errors.New("there is no room")

func (f *limitedWriter) Write(p []byte) (int, error) {
	if f.room -= len(p); f.room < 0 {
		return 0, errFull
	}
	return len(p), nil
}

// Write or Close returns an error of the background goroutine, and nothing is written after Close
// or Abort.
func TestWriterThatFails(t *testing.T) {
	for _, znodes := range []int{1, 100, 100_000} {
		for _, room := range []int{0, 1 << 20} {
			f := &limitedWriter{room}
			w, err := NewWriter(f, Header{Root: "/a"})
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
			// Reading f.room makes the race detector notice a goroutine that is still writing.
			if fits := room > 0 && znodes < 1000; fits != (err == nil) || fits != (f.room >= 0) || err != nil && !errors.Is(err, errFull) {
				t.Errorf("%d znodes into %d bytes: %v", znodes, room, err)
			}
		}
	}
}
