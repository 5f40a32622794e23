package commands

import (
	"context"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/render"
)

// Screen shows the output of commands. Its methods are safe for concurrent use. The output of one
// call is never mixed with that of another. Tests use the implementation in package commandtest.
type Screen interface {
	// Print prints a result on standard output.
	Print(v render.Value) error
	// Note prints a remark on standard error, unless the shell is quiet.
	Note(text string)
	// Alert prints an event that the user is not waiting for. It prints on standard error, even if
	// the shell is quiet.
	Alert(text string)
	// Ask asks the user a yes-or-no question. It returns an error in every Mode except ByHand,
	// because there is no user to ask.
	Ask(ctx context.Context, question string) (yes bool, err error)
	// AskSecret asks the user for a secret and hides what the user types.
	AskSecret(ctx context.Context, question string) (answer string, err error)
	// Lend lets a program use the terminal while do runs. Ctrl-C reaches the program during that
	// time, and events are printed only after do returns.
	Lend(do func() error) error
	// ShowKeys makes the terminal echo typed keys, for a program that the command runs, until
	// hideAgain is called. Unlike Lend, it changes neither events nor Ctrl-C.
	ShowKeys() (hideAgain func())
	// Progress begins to show the progress of a long operation, if there is a terminal and the
	// shell is not quiet. The operation calls update as it proceeds; end removes the progress
	// from the screen.
	Progress(verb string) (update func(done, total int), end func())
	// Region returns a new Region of the terminal, whose contents are redrawn in place.
	Region(on Stream) Region
	// Bell rings the bell of the terminal, if standard error is one and the user has not turned
	// the bell off.
	Bell()
}

// Region is a group of lines on the terminal that are redrawn in place. Other output appears above
// these lines. A Region is not safe for concurrent use.
type Region interface {
	// Size returns the size of the terminal. It returns 0, 0 if Draw does nothing, because there is
	// no terminal or the output goes to a program.
	Size() (columns, rows int)
	// Draw replaces the lines that the previous Draw printed. It escapes control characters and
	// cuts lines that are wider than the terminal.
	Draw(lines ...string) error
	// Paint is like Draw, for lines with colors.
	Paint(lines ...render.Line) error
	// Close ends the region. If keep is true, the lines stay on the screen.
	Close(keep bool) error
}

// Stream is one of the two standard streams that the shell writes to.
type Stream int

// The streams that the shell writes to.
const (
	Answers Stream = iota // standard output
	Remarks               // standard error
)

// done returns the result of a command for which zkCli prints nothing. Its text form is empty. Its
// JSON form contains the command's name, the path, and the additional keys and values in more.
func done(name, path string, more ...any) render.Answer {
	return render.Answer{JSON: append(render.Facts{"done", name, "path", path}, more...)}
}

// statIfWanted returns a znode's stat in printable form if wanted is true, or nil otherwise.
func statIfWanted(wanted bool, st *zk.Stat) *render.Stat {
	if !wanted {
		return nil
	}
	return (*render.Stat)(st)
}

// oneColumn returns a table with one column and one row for each item.
func oneColumn(header string, items []string) render.Grid {
	g := render.Grid{Header: []string{header}}
	for _, i := range items {
		g.Rows = append(g.Rows, []string{i})
	}
	return g
}
