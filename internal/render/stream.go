package render

import (
	"bufio"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/mattn/go-runewidth"
)

// A Stream is a Value with many items. They are printed as they arrive, so that they are never
// all in memory. A Stream can be printed only once. Its JSON is an object with the facts in
// Open, the list of items, and, after an error, the facts of the error.
type Stream struct {
	Open    Facts
	List    string   // field name of the list in JSON
	Columns []Column // columns of the table and the text
	Bare    bool     // whether the text has no header line
	Items   iter.Seq[Item]
	// End is called after the last item. It returns an error if items are missing. If End is
	// nil, no items can be missing.
	End func() error
	// Failed returns the facts that describe an error of End in JSON. If Failed is nil, the JSON
	// contains only the error message, as "error".
	Failed func(error) Facts
}

// A Column is a column of a Stream. Its width is fixed, because rows are printed before all
// items are known.
type Column struct {
	Header string
	Width  int  // in terminal columns; a wider cell pushes the following cells to the right
	Right  bool // align cells to the right
	Spare  bool // skip the column in text if the terminal has too little room for the last column
}

// minLastColumn is the minimum width of the last column, in terminal columns. If there is less
// room, Spare columns are skipped.
const minLastColumn = 12

// An Item is an item of a Stream. A nil Item means that the next item will take a while, so the
// items before it should be shown now.
type Item interface {
	// Cells returns the cells of the item's row, as shown in both the table and the text output.
	Cells() []string
	// JSON returns the item's value in JSON.
	JSON() any
}

// Text writes one line for each item.
func (s *Stream) Text(w io.Writer) error { return s.printRows(w, !s.Bare, false, 0) }

// print prints the stream in the format f. width is the width of the terminal, in columns, or 0
// if there is no terminal.
func (s *Stream) print(w io.Writer, f Format, width int) error {
	switch {
	case f == JSON:
		return s.printJSON(w)
	case f == Table:
		return s.printRows(w, true, true, 0)
	case len(s.Columns) > 1:
		return s.printRows(w, !s.Bare, false, width)
	}
	return s.Text(w)
}

// printRows prints one row for each item. If header is true, it prints a header line first. If safe
// is true, it escapes the cells. If width is not 0, it wraps the rows at that number of columns.
func (s *Stream) printRows(w io.Writer, header, safe bool, width int) error {
	narrow := width > 0 && s.widthBeforeLast()+minLastColumn > width
	if header {
		names := make([]string, len(s.Columns))
		for i, c := range s.Columns {
			names[i] = c.Header
		}
		if err := s.printRow(w, names, narrow, width); err != nil {
			return err
		}
	}
	return s.forEach(w, func(item Item) error {
		cells := item.Cells()
		for i := range cells {
			if safe {
				cells[i] = Safe(cells[i])
			}
		}
		return s.printRow(w, cells, narrow, width)
	})
}

// forEach calls print for each item. A nil Item makes it flush w instead, so that the items before
// it are shown now.
func (s *Stream) forEach(w io.Writer, print func(Item) error) error {
	for item := range s.Items {
		var err error
		if item == nil {
			err = flush(w)
		} else {
			err = print(item)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// widthBeforeLast returns the total width of all columns except the last one, in terminal
// columns.
func (s *Stream) widthBeforeLast() (sum int) {
	for _, c := range s.Columns[:max(0, len(s.Columns)-1)] {
		sum += c.Width + gap
	}
	return sum
}

func (s *Stream) printRow(w io.Writer, cells []string, narrow bool, width int) error {
	var line strings.Builder
	out := io.Writer(&line)
	if width == 0 { // a row that is not wrapped is written without a copy
		out = w
	}
	for i, c := range cells {
		switch {
		case narrow && s.Columns[i].Spare:
			continue
		case i < len(cells)-1:
			c = s.Columns[i].pad(c)
		}
		if _, err := io.WriteString(out, c); err != nil {
			return err
		}
	}
	row := line.String()
	if !strings.Contains(row, "\n") { // a row with line breaks contains znode data, which is not wrapped
		row = Wrap(row, width, "    ")
	}
	if _, err := io.WriteString(w, row); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

// pad pads a cell to the width of its column and adds the gap between columns.
func (c Column) pad(cell string) string {
	blanks := strings.Repeat(" ", max(0, c.Width-runewidth.StringWidth(cell)))
	if c.Right {
		return blanks + cell + "  "
	}
	return cell + blanks + "  "
}

// flush flushes w if it is the buffer of a Printer.
func flush(w io.Writer) error {
	if b, ok := w.(*bufio.Writer); ok {
		return b.Flush()
	}
	return nil
}

// printJSON prints the stream as one JSON object.
func (s *Stream) printJSON(w io.Writer) error {
	open, err := s.Open.MarshalJSON()
	if err != nil {
		return err
	}
	sep := ","
	if len(s.Open) == 0 {
		sep = ""
	}
	if _, err := fmt.Fprintf(w, "%s%s%q:[", strings.TrimSuffix(string(open), "}"), sep, s.List); err != nil {
		return err
	}
	sep = ""
	err = s.forEach(w, func(item Item) error {
		b, err := Marshal(item.JSON())
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(w, "%s%s", sep, b)
		sep = ","
		return err
	})
	if err != nil {
		return err
	}
	end := "]}\n"
	if s.End != nil {
		if failed := s.End(); failed != nil {
			b, err := s.errorFacts(failed).MarshalJSON()
			if err != nil {
				return err
			}
			end = "]," + string(b[1:]) + "\n"
		}
	}
	_, err = io.WriteString(w, end)
	return err
}

func (s *Stream) errorFacts(err error) Facts {
	if s.Failed != nil {
		return s.Failed(err)
	}
	return Facts{"error", err.Error()}
}
