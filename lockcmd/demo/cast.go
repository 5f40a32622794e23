package demo

import (
	"encoding/json"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/zksh/zksh/internal/render"
)

// cast is a recording of the lanes in asciicast's format, version 2: a line of
// JSON for the terminal, and one for each thing that was written on it.
type cast struct {
	file  *os.File
	begun time.Time
	shown []string
	err   error // the first
}

// The recorded terminal.
const castColumns, castRows = 80, 24

func record(name string) (*cast, error) {
	f, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	c := &cast{file: f, begun: time.Now()}
	c.write(map[string]any{"version": 2, "width": castColumns, "height": castRows, "timestamp": c.begun.Unix(), "title": "zksh lockdemo"})
	return c, nil
}

func (c *cast) write(line any) {
	b, err := json.Marshal(line)
	if err == nil {
		_, err = c.file.Write(append(b, '\n'))
	}
	if c.err == nil {
		c.err = err
	}
}

// frame records a picture, unless it is the last one.
func (c *cast) frame(lines []string) {
	if slices.Equal(lines, c.shown) {
		return
	}
	c.shown = lines
	var text strings.Builder
	text.WriteString("\x1b[H")
	for _, l := range lines {
		text.WriteString(render.Cut(l, castColumns) + "\x1b[K\r\n")
	}
	c.output(text.String() + "\x1b[J")
}

func (c *cast) output(text string) { c.write([]any{time.Since(c.begun).Seconds(), "o", text}) }

// close ends the recording with what is printed at the end.
func (c *cast) close(end func(w io.Writer) error) error {
	if c == nil {
		return nil
	}
	var text strings.Builder
	err := end(&text)
	c.output("\x1b[H\x1b[J" + strings.ReplaceAll(text.String(), "\n", "\r\n"))
	closing := c.file.Close()
	for _, e := range []error{c.err, err, closing} {
		if e != nil {
			return e
		}
	}
	return nil
}
