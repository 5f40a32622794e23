//go:build unix && !aix && !solaris

package child

import (
	"errors"
	"os"
	"testing"
	"time"
)

// slow is a message of one who stands still before it can be written.
type slow struct{}

func (slow) MarshalText() ([]byte, error) {
	time.Sleep(2 * unheard)
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
	m := mouth{file: w}
	defer w.Close()
	if err := m.say(slow{}); err != nil {
		t.Fatal(err)
	}
	if got := <-listenTo[string](r); got != "slow" {
		t.Errorf("heard %q", got)
	}
	silent, unread, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	full := mouth{file: unread}
	defer unread.Close()
	for err == nil {
		err = full.say("nobody hears this")
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("nobody hears: %v", err)
	}
}
