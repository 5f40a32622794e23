//go:build unix && !aix && !solaris

package child

import (
	"errors"
	"os"
	"testing"
	"time"
)

// slow is a message of one who stands still before it can be written.
type slowMessage struct{}

func (slowMessage) MarshalText() ([]byte, error) {
	time.Sleep(2 * writeTimeout)
	return []byte("slow"), nil
}

// A message for which there is room arrives, however long we stand still in the
// middle of it. One for which there is none is not waited for.
func TestMouth(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	m := messageWriter{file: w}
	defer w.Close()
	if err := m.write(slowMessage{}); err != nil {
		t.Fatal(err)
	}
	if got := <-readMessages[string](r); got != "slow" {
		t.Errorf("heard %q", got)
	}
	silent, unread, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	full := messageWriter{file: unread}
	defer unread.Close()
	for err == nil {
		err = full.write("nobody hears this")
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("nobody hears: %v", err)
	}
}
