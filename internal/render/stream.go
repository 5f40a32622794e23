package render

import (
	"bufio"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/mattn/go-runewidth"
)

// A Stream is a Value with many items, which are printed as they arrive, so that they are not all in
// memory. It can be printed once. In JSON, it is an object with the facts of Open, the list of
// items, and the facts of an error.
type Stream struct {
	Open    Facts
	List    string   // name of the list in JSON
	Columns []Column // columns of the table and the text
	Bare    bool     // the text has no header
	Raw     bool     // items are JSON text; one line each, or one line for all with the format JSON
	Items   iter.Seq[Item]
	// End is called after the last item. It returns an error if items are missing. Nil means
	// that none can be missing.
	End func() error
	// Failed returns the facts of such an error for JSON; nil: the message, named "error".
	Failed func(error) Facts
}

// A Column is a column of a Stream. Its width is fixed, because rows are printed as they arrive.
type Column struct {
	Header string
	Width  int  // in terminal columns; a wider cell pushes the following ones
	Right  bool // align right
	Spare  bool // left out of the text if a terminal has too little room for the last column
}

// minLastColumn is the minimum width of the last column; below, Spare columns are left out.
const minLastColumn = 12

// An Item is an item of a Stream. A nil Item means that the next one will take a while, so that the
// items before it should be shown now.
type Item interface {
	// Cells returns the cells of the item's row in the table and the text.
	Cells() []string
	// JSON returns the item's value in JSON.
	JSON() any
}

// Text writes a line for each item.
func (s *Stream) Text(w io.Writer) error { return s.printRows(w, !s.Bare, false, 0) }

// print prints the stream in a format. width is the width of the terminal; 0: there is none.
func (s *Stream) print(w io.Writer, f Format, width int) error {
	switch {
	case s.Raw && f == JSON:
		return s.printOneLine(w)
	case s.Raw:
		return s.printRows(w, false, false, 0)
	case f == JSON:
		return s.printJSON(w)
	case f == Table:
		return s.printRows(w, true, true, 0)
	case len(s.Columns) > 1:
		return s.printRows(w, !s.Bare, false, width)
	}
	return s.Text(w)
}

// printRows prints the items as rows. If safe is true, it escapes the cells. On a terminal of known
// width, it wraps the rows.
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

// forEach calls do for each item, and flushes w at a nil Item.
func (s *Stream) forEach(w io.Writer, do func(Item) error) error {
	for item := range s.Items {
		var err error
		if item == nil {
			err = flush(w)
		} else {
			err = do(item)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// widthBeforeLast returns the width of all columns but the last, in terminal columns.
func (s *Stream) widthBeforeLast() (sum int) {
	for _, c := range s.Columns[:max(0, len(s.Columns)-1)] {
		sum += c.Width + gap
	}
	return sum
}

func (s *Stream) printRow(w io.Writer, cells []string, narrow bool, width int) error {
	var b strings.Builder
	for i, c := range cells {
		switch {
		case narrow && s.Columns[i].Spare:
			continue
		case i < len(cells)-1:
			c = s.Columns[i].pad(c)
		}
		b.WriteString(c)
	}
	line := b.String()
	if !strings.Contains(line, "\n") { // a row with line breaks contains data
		line = Wrap(line, width, "    ")
	}
	_, err := io.WriteString(w, line+"\n")
	return err
}

// printOneLine prints the items of a Raw stream as one JSON value on one line.
func (s *Stream) printOneLine(w io.Writer) error {
	err := s.forEach(w, func(item Item) error {
		for _, c := range item.Cells() {
			if _, err := io.WriteString(w, strings.ReplaceAll(c, "\n", "")); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, "\n")
	return err
}

// pad pads a cell to the width of its column, plus the gap.
func (c Column) pad(cell string) string {
	blanks := strings.Repeat(" ", max(0, c.Width-runewidth.StringWidth(cell)))
	if c.Right {
		return blanks + cell + "  "
	}
	return cell + blanks + "  "
}

// flush flushes the buffer of a Printer.
func flush(w io.Writer) error {
	if b, ok := w.(*bufio.Writer); ok {
		return b.Flush()
	}
	return nil
}

// printJSON prints the JSON object.
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
