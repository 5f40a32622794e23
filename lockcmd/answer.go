package lockcmd

import (
	"fmt"
	"io"
	"strings"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/lockcmd/queue"
)

// A lockLine is the line that a lock command prints as its result. The elements are
// alternating names and values. The first two are the result and the path of the lock, as in
// "locked /a".
type lockLine render.Facts

// answer returns the line that a command prints after it has acquired the lease t. path is the
// path of the lock.
func (t *heldLease) answer(path string) lockLine {
	return lockLine{"locked", path, "mode", t.kind.label, "node", t.Node(), "token", render.Hex(t.Token()),
		"waited", t.State().Waited.Seconds()}
}

// queuedLine returns the line that a command prints when its wait for a lock continues in the
// background.
func queuedLine(path, mode, node string, place int) lockLine {
	return lockLine{"waiting", path, "mode", mode, "node", node, "place", place}
}

// line formats l as one line of text. It shortens the name of the znode to nodeWidth columns.
// If nodeWidth is 0, it does not shorten the name.
func (l lockLine) line(nodeWidth int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", l[0], quoted(l.cell(1)))
	for i := 2; i < len(l); i += 2 {
		value := l.cell(i + 1)
		if l[i] == "node" && nodeWidth > 0 {
			value = queue.ShortNode(value, nodeWidth)
		}
		fmt.Fprintf(&b, " %s=%s", l[i], quoted(value))
	}
	return b.String()
}

// quoted returns a value for a line of text. It quotes a value that could be mistaken for several
// fields of the line, because it contains a space or "=".
func quoted(value string) string {
	if word := commands.Quote(value); word != value || !strings.Contains(value, "=") {
		return word
	}
	return `"` + value + `"`
}

// cell returns element i of the line as text. It formats a float64 as a duration in seconds.
func (l lockLine) cell(i int) string {
	if seconds, is := l[i].(float64); is {
		return fmt.Sprintf("%.3fs", seconds)
	}
	return fmt.Sprint(l[i])
}

// Text implements render.Value. It writes the line with the full name of the znode.
func (l lockLine) Text(w io.Writer) error {
	_, err := io.WriteString(w, l.line(0)+"\n")
	return err
}

// minNodeWidth is the minimum width of a shortened znode name, in columns. Such a name still
// shows the mode and the sequence number.
const minNodeWidth = 12

// fitted formats the line for a terminal with the given number of columns. It shortens only
// the name of the znode, so the line may still be too long.
func (l lockLine) fitted(columns int) string {
	node := 0
	if fullWidth := render.Width(render.Safe(l.line(0))); columns > 0 && fullWidth > columns && len(l) > 5 {
		node = max(minNodeWidth, columns-(fullWidth-render.Width(render.Safe(quoted(l.cell(5))))))
	}
	return l.line(node)
}

// FitText implements render.Fitter. It shortens the znode's name and, if that is not enough,
// wraps the line.
func (l lockLine) FitText(w io.Writer, columns int) error {
	_, err := io.WriteString(w, render.Wrap(render.Safe(l.fitted(columns)), columns, "  ")+"\n")
	return err
}

// Table returns a grid with one row, which contains the values of the line. The names are in
// the header.
func (l lockLine) Table() render.Grid {
	g := render.Grid{Rows: [][]string{nil}}
	for i := 0; i < len(l); i += 2 {
		g.Header = append(g.Header, fmt.Sprint(l[i]))
		g.Rows[0] = append(g.Rows[0], l.cell(i+1))
	}
	return g
}

// MarshalJSON encodes the facts as a JSON object.
func (l lockLine) MarshalJSON() ([]byte, error) { return render.Facts(l).MarshalJSON() }
