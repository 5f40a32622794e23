package cast

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// events returns the header and the events of a recording. It fails if a line is not valid.
func events(t *testing.T, file string) (header map[string]any, events [][]any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var err error
		if header == nil {
			err = json.Unmarshal([]byte(line), &header)
		} else {
			var e []any
			err = json.Unmarshal([]byte(line), &e)
			events = append(events, e)
		}
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
	}
	return header, events
}

func TestRecorder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.cast")
	columns, rows := 120, 30
	r, err := Create(file, "a title", func() (int, int) { return columns, rows })
	if err != nil {
		t.Fatal(err)
	}
	write := func(text string) {
		if n, err := r.Write([]byte(text)); n != len(text) || err != nil {
			t.Fatalf("%q: %d, %v", text, n, err)
		}
	}
	write("\x1b[32m锁\x1b[0m\n")
	// The file is complete at each moment, as a crash would leave it.
	header, got := events(t, file)
	if header["version"] != 2.0 || header["width"] != 120.0 || header["height"] != 30.0 || header["title"] != "a title" || len(got) != 1 {
		t.Fatalf("%v, %v", header, got)
	}
	write("锁"[:1]) // a character in two pieces
	write("锁"[1:] + "!")
	columns = 60
	r.Skip(time.Hour)
	write("narrow")
	columns, rows = 0, 0 // no terminal
	write("\xff")
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	_, got = events(t, file)
	var kinds []any
	last := 0.0
	for _, e := range got {
		if at := e[0].(float64); at < last {
			t.Errorf("%v after %v", e, last)
		} else {
			last = at
		}
		kinds = append(kinds, e[1], e[2])
	}
	want := []any{"o", "\x1b[32m锁\x1b[0m\r\n", "o", "锁!", "r", "60x30", "o", "narrow", "r", "80x24", "o", "\ufffd"}
	if !reflect.DeepEqual(kinds, want) || last < 3600 {
		t.Errorf("%q at %v, want %q", kinds, last, want)
	}
}

// An error of the file does not disturb the recorded command, and is reported at the end.
func TestWriteError(t *testing.T) {
	r, err := Create("/dev/full", "", func() (int, int) { return 0, 0 })
	if err != nil {
		t.Skip(err) // only Linux has this file
	}
	if _, err := r.Write([]byte("x")); err != nil {
		t.Error(err)
	}
	if err := r.Close(); err == nil || !strings.Contains(err.Error(), "the recording is incomplete: write /dev/full: ") {
		t.Error(err)
	}
	if _, err := Create(filepath.Join(t.TempDir(), "no", "dir"), "", nil); err == nil {
		t.Error("a folder that does not exist")
	}
}
