package trace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/userfile"
)

// A File is a Recorder that writes its lines to a file.
type File struct {
	*Recorder
	f *os.File
}

// ToFile creates or replaces the file with the given name and returns a File that writes to it: one
// JSON object for each Line if the format is render.JSON, and text otherwise.
func ToFile(name string, format render.Format) (*File, error) {
	f, err := userfile.OpenToWrite(name, os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	printer := render.Printer{W: f, Format: format}
	return &File{New(Options{}, func(l Line) error { return printer.Print(l) }), f}, nil
}

// closeLimit is how long Close tries to write the remaining lines.
const closeLimit = 3 * time.Second

// Close writes the remaining lines and closes the file. It returns an error if lines are missing.
func (f *File) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
	defer cancel()
	totals, err := f.Recorder.Close(ctx)
	if totals.Lost > 0 {
		err = errors.Join(err, fmt.Errorf("%d lines are missing in %s, because they could not be written fast enough", totals.Lost, f.f.Name()))
	}
	return errors.Join(err, f.f.Close())
}
