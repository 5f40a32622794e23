package render

import (
	"bytes"
	"fmt"
	"io"
	"strings"
)

// Answer is a value that is put together where it is printed.
type Answer struct {
	Words string // the text but for the stat
	Stat  *Stat  // printed below the text; may be nil
	Grid  Grid   // without a header: a table is the text
	JSON  any    // Facts, or whatever else stands for it
}

// Text is the words, and the stat block if there is one.
func (a Answer) Text(w io.Writer) error {
	if _, err := io.WriteString(w, a.Words); err != nil || a.Stat == nil {
		return err
	}
	return a.Stat.Text(w)
}

// Table is the grid.
func (a Answer) Table() Grid { return a.Grid }

// MarshalJSON is the JSON form.
func (a Answer) MarshalJSON() ([]byte, error) { return Marshal(a.JSON) }

// Facts are names and values in turn: a JSON object that keeps their order. A Stat
// that is nil is left out.
type Facts []any

// MarshalJSON gives the object.
func (f Facts) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	for i := 0; i < len(f); i += 2 {
		if stat, ok := f[i+1].(*Stat); ok && stat == nil {
			continue
		}
		value, err := Marshal(f[i+1])
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, ",%q:%s", f[i], value)
	}
	return append([]byte("{"), append(bytes.TrimPrefix(b.Bytes(), []byte(",")), '}')...), nil
}

// text has a line for each of the facts.
func (f Facts) text() string {
	var b strings.Builder
	for i := 0; i < len(f); i += 2 {
		fmt.Fprintf(&b, "%s = %v\n", f[i], f[i+1])
	}
	return b.String()
}

// grid has a row for each of the facts.
func (f Facts) grid() Grid {
	g := Grid{Header: []string{"field", "value"}}
	for i := 0; i < len(f); i += 2 {
		g.Rows = append(g.Rows, []string{fmt.Sprint(f[i]), fmt.Sprint(f[i+1])})
	}
	return g
}
