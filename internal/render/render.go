// Package render prints the results of zksh's commands: as text like zkCli's, as a table, or as
// JSON.
//
// A command passes a Value to a Printer. Most values are an Answer or a Stat; a Stream prints a
// list while it is still being read. Optional interfaces (Tabler, Lister, Fitter, Styled) lay
// out a Value for tables and terminals. Start reading at Printer.Print.
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

// A Value is the result of a command. Text writes exactly what zkCli prints, including the final
// newline, or nothing if zkCli prints nothing. For JSON output, encoding/json encodes the Value.
type Value interface {
	Text(w io.Writer) error
}

// An Event is a Value that reports something that happens while a command runs. It is not part of
// the command's result. In JSON, it is an object with the key "event".
type Event interface {
	Value
	IsEvent()
}

// A Styled is a Value whose text was written by zksh itself, such as help. Parts of the text can
// be bold.
type Styled interface {
	Value
	// StyledText writes the text for a terminal with the given number of columns; 0 means that
	// there is no terminal. bold makes text bold; nil means that nothing is bold.
	StyledText(w io.Writer, columns int, bold func(text string) string) error
}

// A Format is an output format of zksh.
type Format string

// The output formats. With Table, a value that has no table is printed as text.
const (
	Text  Format = "text"
	Table Format = "table"
	JSON  Format = "json"
)

// ParseFormat parses the name of an output format.
func ParseFormat(s string) (Format, error) {
	switch f := Format(s); f {
	case Text, Table, JSON:
		return f, nil
	}
	return "", fmt.Errorf("unknown output format %q; the formats are text, table and json", s)
}

// A Printer prints values to one stream. Only one goroutine at a time may use it.
type Printer struct {
	W      io.Writer
	Format Format
	Safe   bool // whether W is a terminal, so that characters that could control it must be escaped
	// Width returns the width of the terminal, in columns. A Lister or a Fitter is laid out for
	// that width. If Width is nil or returns 0, values are not laid out.
	Width func() int
	Bold  func(text string) string // makes parts of a Styled bold; if nil, nothing is bold

	buf *bufio.Writer // reused, because a script would otherwise allocate a buffer for each value
}

// To returns a Printer with the same settings for another stream.
func (p *Printer) To(w io.Writer) *Printer {
	return &Printer{W: w, Format: p.Format, Safe: p.Safe, Width: p.Width, Bold: p.Bold}
}

// Print prints a value in the Printer's format.
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

// Marshal is like json.Marshal, but leaves the characters <, > and & unescaped.
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

// An Answer is a Value that consists of a given text, table and JSON value.
type Answer struct {
	Words string // text without the Stat
	Stat  *Stat  // printed below the text, or nil if there is none
	Grid  Grid   // table; if it has no header, the text is printed instead
	JSON  any    // JSON value, usually of type Facts
	Wrap  bool   // whether to wrap Words at the width of the terminal
}

var _ Fitter = Answer{}

// FitText implements Fitter.
func (a Answer) FitText(w io.Writer, columns int) error {
	if a.Wrap {
		a.Words = WrapText(a.Words, columns)
	}
	return a.Text(w)
}

// Text writes the text, followed by the Stat if there is one.
func (a Answer) Text(w io.Writer) error {
	if _, err := io.WriteString(w, a.Words); err != nil || a.Stat == nil {
		return err
	}
	return a.Stat.Text(w)
}

// Table returns the table, which may be empty.
func (a Answer) Table() Grid { return a.Grid }

// MarshalJSON implements json.Marshaler.
func (a Answer) MarshalJSON() ([]byte, error) { return Marshal(a.JSON) }

// Facts are alternating names and values. Their JSON is an object whose fields are in this
// order. A nil *Stat is skipped.
type Facts []any

// MarshalJSON implements json.Marshaler.
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

// Text returns one line for each pair of a name and a value.
func (f Facts) Text() string {
	var b strings.Builder
	for i := 0; i < len(f); i += 2 {
		fmt.Fprintf(&b, "%s = %v\n", f[i], f[i+1])
	}
	return b.String()
}

// grid returns a table with one row for each pair of a name and a value.
func (f Facts) grid() Grid {
	g := Grid{Header: []string{"field", "value"}}
	for i := 0; i < len(f); i += 2 {
		g.Rows = append(g.Rows, []string{fmt.Sprint(f[i]), fmt.Sprint(f[i+1])})
	}
	return g
}

// A Stat is a znode's Stat. Its text has eleven lines, as in zkCli.
type Stat zk.Stat

// Hex formats a zxid or a session ID as zkCli does.
func Hex(v int64) string { return "0x" + strconv.FormatUint(uint64(v), 16) }

// facts returns the names and values of a Stat's fields. formatTime formats a time, which is given
// in milliseconds since 1970.
func (s *Stat) facts(formatTime func(ms int64) string) Facts {
	return Facts{
		"cZxid", Hex(s.Czxid),
		"ctime", formatTime(s.Ctime),
		"mZxid", Hex(s.Mzxid),
		"mtime", formatTime(s.Mtime),
		"pZxid", Hex(s.Pzxid),
		"cversion", s.Cversion,
		"dataVersion", s.Version,
		"aclVersion", s.Aversion,
		"ephemeralOwner", Hex(s.EphemeralOwner),
		"dataLength", s.DataLength,
		"numChildren", s.NumChildren,
	}
}

// Text writes the fields of the Stat in zkCli's format.
func (s *Stat) Text(w io.Writer) error {
	_, err := io.WriteString(w, s.facts(javaDate).Text())
	return err
}

// Table returns a table with one row for each field of the Stat.
func (s *Stat) Table() Grid { return s.facts(javaDate).grid() }

// MarshalJSON uses zkCli's field names. Zxids and the session ID are hexadecimal strings. Times
// are in RFC 3339, in UTC with milliseconds.
func (s *Stat) MarshalJSON() ([]byte, error) {
	return s.facts(func(ms int64) string { return Time(time.UnixMilli(ms)) }).MarshalJSON()
}

// isoMillis is the ISO 8601 time format with milliseconds.
const isoMillis = "2006-01-02T15:04:05.000Z07:00"

// Time formats a time for JSON: RFC 3339 in UTC with milliseconds.
func Time(t time.Time) string { return t.UTC().Format(isoMillis) }

// Human returns the Stat with times in a more readable form, relative to now. Its JSON is the
// same as the Stat's JSON.
func (s *Stat) Human(now time.Time) Answer {
	facts := s.facts(func(ms int64) string {
		t := time.UnixMilli(ms)
		return t.Format(isoMillis) + " (" + ago(now.Sub(t)) + ")"
	})
	return Answer{Words: facts.Text(), Grid: facts.grid(), JSON: s}
}

// ago formats d, the time since an event, in its largest unit, such as days. An event in the future
// is formatted like one in the present, because the clocks of two machines differ.
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

// javaDate formats a time, given in milliseconds since 1970, as java.util.Date does, in the local
// time zone.
func javaDate(ms int64) string {
	t := time.UnixMilli(ms)
	zone, _ := t.Zone()
	if strings.HasPrefix(zone, "+") || strings.HasPrefix(zone, "-") { // the zone has no name
		zone = "GMT" + t.Format("-07:00")
	}
	return t.Format("Mon Jan 02 15:04:05 ") + zone + t.Format(" 2006")
}

// Data is a znode's data. Nil means null data, which is different from empty data.
type Data []byte

// MarshalJSON returns null, a JSON string, or {"base64": …} if the data is not UTF-8.
func (d Data) MarshalJSON() ([]byte, error) {
	switch {
	case d == nil:
		return []byte("null"), nil
	case utf8.Valid(d):
		return Marshal(string(d))
	}
	return Facts{"base64", []byte(d)}.MarshalJSON()
}

// JavaList formats a list as java.util.List.toString does: [a, b].
func JavaList(items []string) string { return "[" + OneLine(strings.Join(items, ", ")) + "]" }
