package commands

import (
	"context"

	"github.com/zksh/zksh/internal/render"
)

// Screen shows the output of commands. Its methods are safe for concurrent use, and each call's
// output stays together. Tests use the implementation in package commandtest.
type Screen interface {
	// Print prints a result on standard output.
	Print(v render.Value) error
	// Note prints a remark on standard error, unless the shell is quiet.
	Note(text string)
	// Alert prints an event that the user did not wait for on standard error, even if the shell
	// is quiet.
	Alert(text string)
	// Ask asks the user a yes-or-no question. It returns an error in every Mode but ByHand,
	// because there is nobody to ask.
	Ask(ctx context.Context, question string) (yes bool, err error)
	// AskSecret asks the user for a secret and does not show it as it is typed.
	AskSecret(ctx context.Context, question string) (answer string, err error)
	// Lend hands the terminal to a program while do runs. Ctrl-C goes to the program, and events
	// are printed afterwards.
	Lend(do func() error) error
	// Progress shows the progress of a long operation, if there is a terminal and the shell is
	// not quiet. end removes it from the screen.
	Progress(verb string) (update func(done, total int), end func())
	// Region begins a region of the terminal whose contents are redrawn in place.
	Region(on Stream) Region
}

// Region is a group of lines on the terminal that are redrawn in place, while other output
// appears above them. It is not safe for concurrent use.
type Region interface {
	// Size returns the size of the terminal. It returns zeros if there is no terminal, or if a
	// program reads the output; then Draw does nothing.
	Size() (columns, rows int)
	// Draw replaces the lines of the previous Draw. It escapes control characters and cuts the
	// lines to the width of the terminal.
	Draw(lines ...string) error
	// Close ends the region. If keep is true, the lines stay on the screen.
	Close(keep bool) error
}

// Stream is one of the two standard streams that a shell writes to.
type Stream int

// The streams.
const (
	Answers Stream = iota // standard output
	Remarks               // standard error
)
