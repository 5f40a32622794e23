package render

import (
	"bufio"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/mattn/go-runewidth"
)

// Stream is an answer of many items that is printed as they come, so that nobody
// has to keep them. It can be printed once. In JSON it is an object: the facts of
// Open, the list of the items, and what Failed makes of an error.
type Stream struct {
	Open    Facts
	List    string   // the list's name
	Columns []Column // of the table
	Bare    bool     // the text has no header
	Raw     bool     // its items are JSON in every form, a line each unless JSON is wished
	Items   iter.Seq[Item]
	// End is asked once the items have ended, and gives the error if they are not all
	// that there are; may be nil.
	End func() error
	// Failed words such an error for JSON; nil: it stands under "error".
	Failed func(error) Facts
}

// Column is one of a table whose rows are printed as they come, so that its width does
// not come from them.
type Column struct {
	Header string
	Width  int // in columns of a terminal; what is wider pushes the rest
	Right  bool
	Spare  bool // left out of the text on a terminal that has too little room for the last column
}

// leastLast is how many columns of a terminal the last column of a Stream has before others
// are left out.
const leastLast = 12

// Item is one of a Stream. Nil is none: nothing comes for now, and those before it
// are to be shown.
type Item interface {
	// Cells are what its row has in the table, and in the text.
	Cells() []string
	// JSON is what stands for it in JSON.
	JSON() any
}

// Text has a line for each item.
func (s *Stream) Text(w io.Writer) error { return s.rows(w, !s.Bare, false, 0) }

// print writes it in one of the forms, for a terminal of so many columns; 0: there is none.
func (s *Stream) print(w io.Writer, f Format, width int) error {
	switch {
	case s.Raw && f == JSON:
		return s.oneLine(w)
	case s.Raw:
		return s.rows(w, false, false, 0)
	case f == JSON:
		return s.json(w)
	case f == Table:
		return s.rows(w, true, true, 0)
	case len(s.Columns) > 1:
		return s.rows(w, !s.Bare, false, width)
	}
	return s.Text(w)
}

// rows prints the items, with the cells made harmless if they are to be safe. On a terminal,
// whose width is known, rows are broken between words.
func (s *Stream) rows(w io.Writer, header, safe bool, width int) error {
	narrow := width > 0 && s.before()+leastLast > width
	if header {
		names := make([]string, len(s.Columns))
		for i, c := range s.Columns {
			names[i] = c.Header
		}
		if err := s.row(w, names, narrow, width); err != nil {
			return err
		}
	}
	return s.each(w, func(item Item) error {
		cells := item.Cells()
		for i := range cells {
			if safe {
				cells[i] = Safe(cells[i])
			}
		}
		return s.row(w, cells, narrow, width)
	})
}

// each goes over the items, and shows those before a pause.
func (s *Stream) each(w io.Writer, do func(Item) error) error {
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

// before is how many columns of a terminal are before the last column.
func (s *Stream) before() (sum int) {
	for _, c := range s.Columns[:max(0, len(s.Columns)-1)] {
		sum += c.Width + gap
	}
	return sum
}

func (s *Stream) row(w io.Writer, cells []string, narrow bool, width int) error {
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
	if !strings.Contains(line, "\n") { // else its lines are data
		line = Wrap(line, width, "    ")
	}
	_, err := io.WriteString(w, line+"\n")
	return err
}

// oneLine prints the items of a Raw stream as one value in one line.
func (s *Stream) oneLine(w io.Writer) error {
	err := s.each(w, func(item Item) error {
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

// pad fills a cell up, with a gap behind it.
func (c Column) pad(cell string) string {
	blanks := strings.Repeat(" ", max(0, c.Width-runewidth.StringWidth(cell)))
	if c.Right {
		return blanks + cell + "  "
	}
	return cell + blanks + "  "
}

// flush shows what a Printer has not written yet.
func flush(w io.Writer) error {
	if b, ok := w.(*bufio.Writer); ok {
		return b.Flush()
	}
	return nil
}

// json writes the object.
func (s *Stream) json(w io.Writer) error {
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
	err = s.each(w, func(item Item) error {
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
			b, err := s.failure(failed).MarshalJSON()
			if err != nil {
				return err
			}
			end = "]," + string(b[1:]) + "\n"
		}
	}
	_, err = io.WriteString(w, end)
	return err
}

func (s *Stream) failure(err error) Facts {
	if s.Failed != nil {
		return s.Failed(err)
	}
	return Facts{"error", err.Error()}
}
