//go:build unix

package commands

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/zktest"
)

func TestSaveFile(t *testing.T) {
	dir := t.TempDir()
	target, link, fresh := filepath.Join(dir, "target"), filepath.Join(dir, "link"), filepath.Join(dir, "fresh")
	zktest.Must(t, os.WriteFile(target, []byte("before"), 0o600))
	zktest.Must(t, os.Symlink(target, link))
	for _, name := range []string{link, fresh} {
		zktest.Must(t, SaveFile(name, []byte("after")))
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link was replaced: %v %v", info, err)
	}
	for _, name := range []string{target, fresh} {
		if b, err := os.ReadFile(name); err != nil || string(b) != "after" {
			t.Errorf("%s: %q %v", name, b, err)
		}
	}
	if info, err := os.Stat(target); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the mode changed: %v %v", info, err)
	}
	if err := SaveFile(filepath.Join(dir, "no", "such"), nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want ErrNotExist", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 3 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

func TestSaveFileIntoFIFO(t *testing.T) {
	name := filepath.Join(t.TempDir(), "fifo")
	zktest.Must(t, syscall.Mkfifo(name, 0o600))
	got := make(chan []byte)
	go func() { // ends at the end of the file
		b, _ := os.ReadFile(name)
		got <- b
	}()
	zktest.Must(t, SaveFile(name, []byte("data")))
	if b := <-got; string(b) != "data" {
		t.Errorf("read %q", b)
	}
}

// Reading from a pipe that nobody writes to ends when the context is cancelled.
func TestReadInputIsCancelled(t *testing.T) {
	r, w := io.Pipe()
	defer w.Close()
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(10*time.Millisecond, func() { cancel(why) })
	if _, err := readInput(ctx, func() (io.Reader, error) { return r, nil }); !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
}
