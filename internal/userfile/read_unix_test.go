//go:build unix

package userfile

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/zktest"
)

// Errors about a FIFO without another end, or whose writer writes nothing, name the FIFO.
func TestFIFOs(t *testing.T) {
	const soon = 50 * time.Millisecond
	var last string
	for _, flag := range []int{os.O_RDONLY, os.O_WRONLY} {
		name := filepath.Join(t.TempDir(), "fifo") // not the previous one, which a goroutine is still opening
		zktest.Must(t, syscall.Mkfifo(name, 0o600))
		f, err := openPatiently(name, "using", "user", soon, func() (*os.File, error) { return os.OpenFile(name, flag, 0) })
		if err == nil || err.Error() != name+" is a FIFO, and no program opened it for using within 50ms: start the user first, or use a regular file" {
			t.Fatalf("%v, %v", f, err)
		}
		last = name
	}
	name := last
	w, err := os.OpenFile(name, os.O_RDWR, 0)
	zktest.Must(t, err)
	defer w.Close()
	f, err := OpenToRead(name)
	zktest.Must(t, err)
	defer f.Close()
	if _, err := w.WriteString("ab"); err != nil {
		t.Fatal(err)
	}
	if b, err := readSmall(f, 10, soon); err == nil || !strings.Contains(err.Error(), name+": it is not a regular file, and its end did not come") {
		t.Errorf("%q, %v", b, err)
	}
}
