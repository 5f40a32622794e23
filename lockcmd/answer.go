package lockcmd

import (
	"fmt"
	"io"
	"strings"

	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/lockcmd/queue"
)

// lockLine is the answer of a lock that was got or is waited for: what became of it, its
// path, and more facts in pairs.
type lockLine render.Facts

// answer returns the line of a lock on path that was acquired.
func (t *taken) answer(path string) lockLine {
	return lockLine{"locked", path, "mode", t.kind.label, "node", t.Node(), "token", render.Hex(t.Token()),
		"waited", t.State().Waited.Seconds()}
}

// pending is the answer of a wait in the background.
func pending(path, mode, node string, place int) lockLine {
	return lockLine{"waiting", path, "mode", mode, "node", node, "place", place}
}

// line has the node in so many columns.
func (l lockLine) line(node int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", l[0], l[1])
	for i := 2; i < len(l); i += 2 {
		value := l.cell(i + 1)
		if l[i] == "node" && node > 0 {
			value = queue.ShortNode(value, node)
		}
		fmt.Fprintf(&b, " %s=%s", l[i], value)
	}
	return b.String()
}

// cell is a fact as it is read.
func (l lockLine) cell(i int) string {
	if seconds, is := l[i].(float64); is {
		return fmt.Sprintf("%.3fs", seconds)
	}
	return fmt.Sprint(l[i])
}

// Text is the whole line.
func (l lockLine) Text(w io.Writer) error {
	_, err := io.WriteString(w, l.line(0)+"\n")
	return err
}

// leastNode is the shortest form of a node that still tells its mode and number.
const leastNode = 12

// fitted is the line for so many columns of a terminal; only the node gets shorter.
func (l lockLine) fitted(columns int) string {
	node := 0
	if whole := render.Width(render.Safe(l.line(0))); columns > 0 && whole > columns && len(l) > 5 {
		node = max(leastNode, columns-(whole-render.Width(l.cell(5))))
	}
	return l.line(node)
}

// FitText is part of render.Fitter. What does not fit with a shorter node goes on in a line
// of its own.
func (l lockLine) FitText(w io.Writer, columns int) error {
	_, err := io.WriteString(w, render.Wrap(render.Safe(l.fitted(columns)), columns, "  ")+"\n")
	return err
}

// Table is a row of the same.
func (l lockLine) Table() render.Grid {
	g := render.Grid{Rows: [][]string{nil}}
	for i := 0; i < len(l); i += 2 {
		g.Header = append(g.Header, fmt.Sprint(l[i]))
		g.Rows[0] = append(g.Rows[0], l.cell(i+1))
	}
	return g
}

// MarshalJSON gives the facts.
func (l lockLine) MarshalJSON() ([]byte, error) { return render.Facts(l).MarshalJSON() }
