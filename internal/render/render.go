// Package render prints what commands answer: as zkCli's text, as a table, or
// as JSON. A command hands over a value; nothing else writes to standard output.
package render

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-zookeeper/zk"
)

// Value is an answer. Text writes zkCli's form, byte for byte, with its final
// newline; an answer zkCli gives no word for writes nothing. Its JSON form comes
// from encoding/json.
type Value interface {
	Text(w io.Writer) error
}

// Event is a Value that tells of something that happens while a command goes on, and is
// not the command's answer. Its JSON form is an object with the key "event".
type Event interface {
	Value
	IsEvent()
}

// Styled is a Value of the program's own words, of which a terminal can show some in bold.
type Styled interface {
	Value
	// StyledText writes the text for a terminal of so many columns; 0: for none. bold makes
	// words bold; it may be nil.
	StyledText(w io.Writer, columns int, bold func(text string) string) error
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
	return "", fmt.Errorf("unknown output format %q; the formats are text, table and json", s)
}

// Printer prints values to one stream. It is for one goroutine at a time.
type Printer struct {
	W      io.Writer
	Format Format
	Safe   bool // W is a terminal: escape what could control it
	// Width is a terminal's, in columns: a Lister that does not fit into a line is
	// laid out in columns, and a Fitter is made to fit. Nil or 0: they are not.
	Width func() int
	Bold  func(text string) string // makes words of a Styled bold; may be nil

	buf *bufio.Writer // kept: a new one for each answer would be most of a batch's garbage
}

// To is the same printer on another stream.
func (p *Printer) To(w io.Writer) *Printer {
	return &Printer{W: w, Format: p.Format, Safe: p.Safe, Width: p.Width, Bold: p.Bold}
}

// Print writes one value whole.
func (p *Printer) Print(v Value) error {
	var w io.Writer = p.W
	if _, styled := v.(Styled); p.Safe && (!styled || p.Format == JSON) {
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
	width := 0
	if p.Width != nil {
		width = p.Width()
	}
	if s, ok := v.(*Stream); ok {
		return s.print(w, p.Format, width)
	}
	if s, ok := v.(Styled); ok && p.Format != JSON {
		return s.StyledText(w, width, p.Bold)
	}
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
		if width <= 0 {
			break
		}
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

// Answer is a value that is put together where it is printed.
type Answer struct {
	Words string // the text but for the stat
	Stat  *Stat  // printed below the text; may be nil
	Grid  Grid   // without a header: a table is the text
	JSON  any    // Facts, or whatever else stands for it
	Wrap  bool   // on a terminal the words are broken between words
}

// FitText is part of Fitter.
func (a Answer) FitText(w io.Writer, columns int) error {
	if a.Wrap {
		a.Words = WrapText(a.Words, columns)
	}
	return a.Text(w)
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

// Text has a line for each of the facts.
func (f Facts) Text() string {
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

// Stat is a znode's Stat; its text is zkCli's block of eleven lines.
type Stat zk.Stat

// Hex prints a zxid or a session as zkCli does.
func Hex(v int64) string { return "0x" + strconv.FormatUint(uint64(v), 16) }

// facts are the lines of the block, with times as when words them.
func (s *Stat) facts(when func(ms int64) string) Facts {
	return Facts{
		"cZxid", Hex(s.Czxid),
		"ctime", when(s.Ctime),
		"mZxid", Hex(s.Mzxid),
		"mtime", when(s.Mtime),
		"pZxid", Hex(s.Pzxid),
		"cversion", s.Cversion,
		"dataVersion", s.Version,
		"aclVersion", s.Aversion,
		"ephemeralOwner", Hex(s.EphemeralOwner),
		"dataLength", s.DataLength,
		"numChildren", s.NumChildren,
	}
}

// Text is zkCli's stat block.
func (s *Stat) Text(w io.Writer) error {
	_, err := io.WriteString(w, s.facts(javaDate).Text())
	return err
}

// Table has a row for each field.
func (s *Stat) Table() Grid { return s.facts(javaDate).grid() }

// MarshalJSON uses zkCli's field names; zxids and the session are strings in
// hexadecimal, times are RFC 3339 in UTC with milliseconds.
func (s *Stat) MarshalJSON() ([]byte, error) {
	return s.facts(func(ms int64) string { return Time(time.UnixMilli(ms)) }).MarshalJSON()
}

// isoMillis is ISO 8601 with milliseconds.
const isoMillis = "2006-01-02T15:04:05.000Z07:00"

// Time is a time as JSON has it: RFC 3339 in UTC with milliseconds.
func Time(t time.Time) string { return t.UTC().Format(isoMillis) }

// Human is the Stat with times that are easier to read, told from now. Its JSON is
// the Stat's.
func (s *Stat) Human(now time.Time) Answer {
	facts := s.facts(func(ms int64) string {
		t := time.UnixMilli(ms)
		return t.Format(isoMillis) + " (" + ago(now.Sub(t)) + ")"
	})
	return Answer{Words: facts.Text(), Grid: facts.grid(), JSON: s}
}

// ago words how long ago something was, in its largest unit. Clocks differ, so
// what is still to come is now.
func ago(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Second:
		return "now"
	case d < time.Minute:
		return fmt.Sprintf("%d s ago", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%d m ago", d/time.Minute)
	case d < 2*day:
		return fmt.Sprintf("%d h ago", d/time.Hour)
	case d < 1000*day:
		return fmt.Sprintf("%d days ago", d/day)
	}
	return fmt.Sprintf("%d years ago", d/(365*day))
}

// javaDate prints milliseconds since 1970 as java.util.Date does, in the local
// time zone.
func javaDate(ms int64) string {
	t := time.UnixMilli(ms)
	zone, _ := t.Zone()
	if strings.HasPrefix(zone, "+") || strings.HasPrefix(zone, "-") { // a zone without a name
		zone = "GMT" + t.Format("-07:00")
	}
	return t.Format("Mon Jan 02 15:04:05 ") + zone + t.Format(" 2006")
}

// Data is a znode's data. Nil is null, as distinct from empty.
type Data []byte

// MarshalJSON gives null, a string, or {"base64": …} for what is no UTF-8.
func (d Data) MarshalJSON() ([]byte, error) {
	switch {
	case d == nil:
		return []byte("null"), nil
	case utf8.Valid(d):
		return Marshal(string(d))
	}
	return Facts{"base64", []byte(d)}.MarshalJSON()
}

// JavaList is java.util.List.toString: [a, b].
func JavaList(items []string) string { return "[" + OneLine(strings.Join(items, ", ")) + "]" }
