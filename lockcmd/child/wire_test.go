//go:build unix && !aix && !solaris

package child

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/zktest"
)

// slowMessage is a message whose encoding takes longer than writeTimeout.
type slowMessage struct{}

func (slowMessage) MarshalText() ([]byte, error) {
	time.Sleep(2 * writeTimeout)
	return []byte("slow"), nil
}

// A message arrives if the pipe has room, however long its sender is suspended in between.
// If the pipe is full, write fails after writeTimeout.
func TestMessageWriter(t *testing.T) {
	r, w, err := os.Pipe()
	zktest.Must(t, err)
	defer r.Close()
	m := messageWriter{file: w}
	defer w.Close()
	zktest.Must(t, m.write(slowMessage{}))
	if got := <-readMessages[string](r); got != "slow" {
		t.Errorf("received %q", got)
	}
	silent, unread, err := os.Pipe()
	zktest.Must(t, err)
	defer silent.Close()
	full := messageWriter{file: unread}
	defer unread.Close()
	for err == nil {
		err = full.write("nobody hears this")
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a full pipe: %v", err)
	}
}
