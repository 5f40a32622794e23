// Package render prints what commands answer: as zkCli's text, as a table, or
// as JSON. A command hands over a value; nothing else writes to standard output.
package render

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// Value is an answer. Text writes zkCli's form, byte for byte, with its final
// newline; an answer zkCli gives no word for writes nothing. Its JSON form comes
// from encoding/json.
type Value interface {
	Text(w io.Writer) error
}

// Format is a form of output.
type Format string

// The forms. A value without a table is printed as text.
const (
	Text  Format = "text"
	Table Format = "table"
	JSON  Format = "json"
)

// ParseFormat reads the name of a form.
func ParseFormat(s string) (Format, error) {
	switch f := Format(s); f {
	case Text, Table, JSON:
		return f, nil
	}
	return "", fmt.Errorf("unknown output form %q; the forms are text, table and json", s)
}

// Printer prints values to one stream. It is for one goroutine at a time.
type Printer struct {
	W      io.Writer
	Format Format
	Safe   bool // W is a terminal: escape what could control it
	// Width is a terminal's, in columns: a Lister that does not fit into a line is
	// laid out in columns, and a Fitter is made to fit. Nil or 0: they are not.
	Width func() int

	buf *bufio.Writer // kept: a new one for each answer would be most of a batch's garbage
}

// To is the same printer on another stream.
func (p *Printer) To(w io.Writer) *Printer {
	return &Printer{W: w, Format: p.Format, Safe: p.Safe, Width: p.Width}
}

// Print writes one value whole.
func (p *Printer) Print(v Value) error {
	var w io.Writer = p.W
	if p.Safe {
		w = &safeWriter{w: p.W, json: p.Format == JSON}
	}
	if p.buf == nil {
		p.buf = bufio.NewWriterSize(w, 1<<15)
	}
	p.buf.Reset(w)
	if err := p.print(p.buf, v); err != nil {
		return err
	}
	return p.buf.Flush()
}

// Marshal is json.Marshal without the escapes meant for HTML.
func Marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

func (p *Printer) print(w io.Writer, v Value) error {
	switch p.Format {
	case JSON:
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		return e.Encode(v)
	case Table:
		if t, ok := v.(Tabler); ok {
			if g := t.Table(); len(g.Header) > 0 {
				return WriteGrid(w, g)
			}
		}
	case Text:
		if p.Width == nil || p.Width() <= 0 {
			break
		}
		width := p.Width()
		switch value := v.(type) {
		case Lister:
			if items, stat := value.Columns(); len(items) > 1 && Width(JavaList(items)) > width {
				return writeColumns(w, items, stat, width)
			}
		case Fitter:
			return value.FitText(w, width)
		}
	}
	return v.Text(w)
}
