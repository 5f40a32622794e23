package trace

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zkconn"
)

// A Kind says what a Line describes.
type Kind string

// The kinds of lines. A Connection line says that a connection has ended. A Lost line says that
// lines are missing.
const (
	Request    Kind = "request"
	Reply      Kind = "reply"
	Event      Kind = "event"
	Connection Kind = "connection"
	Lost       Kind = "lost"
)

// A Line is one line of a trace: a request, a reply, a watch event, or the end of a connection.
type Line struct {
	Time    time.Duration // time since the trace began
	Kind    Kind
	Xid     int32         // 0 if there is none
	Op      string        // name of the operation or of the event type
	Path    string        // path of the znode, including the chroot; may be empty
	Outcome string        // outcome of a reply: okOutcome, or the name of an error code
	Took    time.Duration // time from the request to the reply; 0 if l is not a reply
	Parts   []Line        // the operations of a multi, which have neither a time nor an xid

	facts render.Facts // further facts for JSON
	words []string     // the same facts as text

	reached chan struct{} // closed when the writer comes to this line, which it does not write; nil for other lines
}

// okOutcome is the outcome of a request that succeeded.
const okOutcome = "OK"

// add adds a fact. As text, it is the key for true, the value for a mode, and else KEY=VALUE.
func (l *Line) add(key string, value any) {
	l.facts = append(l.facts, key, value)
	text := fmt.Sprint(value)
	switch {
	case value == true:
		text = key
	case key == "mode":
	case key == "data" || strings.ContainsAny(text, " \""):
		text = fmt.Sprintf("%s=%q", key, text)
	default:
		text = key + "=" + text
	}
	l.words = append(l.words, text)
}

func (l *Line) setOutcome(code zkconn.Code) {
	if l.Outcome = code.Name(); code == 0 {
		l.Outcome = okOutcome
	}
}

// refused reports whether l is the reason why a multi had no effect.
func (l Line) refused() bool {
	return l.Outcome != okOutcome && l.Outcome != "RolledBack" && l.Outcome != "RuntimeInconsistency"
}

// size estimates the memory of the line, in bytes.
func (l Line) size() int {
	n := 200 + len(l.Path)
	for _, w := range l.words {
		n += 2 * len(w)
	}
	for _, p := range l.Parts {
		n += p.size()
	}
	return n
}

// signs contains the sign of each kind of line, and its style on a terminal.
var signs = map[Kind]struct {
	sign  string
	style render.Style
}{
	Request: {">", render.Cyan}, Reply: {"<", render.Green}, Event: {"*", render.Magenta}, Connection: {"!", render.Red}, Lost: {"!", render.Red},
}

// Text writes the line, and one more line for each operation of a multi.
func (l Line) Text(w io.Writer) error {
	for _, line := range l.Lines(0) {
		if _, err := fmt.Fprintln(w, render.Safe(line.Text())); err != nil {
			return err
		}
	}
	return nil
}

// Widths of the columns on a terminal.
const (
	headWidth    = len("0000.000000 > NodeDataChanged  ")
	detailsWidth = 40
	pathEnd      = 20 // number of columns at the end of a path that always remain, for the sequence number
)

// Lines returns the line, and one more for each operation of a multi, for a terminal with the given
// number of columns. It shortens a long path in the middle, and omits the last facts if they do not
// fit. 0 columns mean that there is no terminal.
func (l Line) Lines(columns int) []render.Line {
	lines := []render.Line{l.line(fmt.Sprintf("%11.6f %s %-15s", l.Time.Seconds(), signs[l.Kind].sign, l.Op), columns)}
	for _, p := range l.Parts {
		lines = append(lines, p.line(fmt.Sprintf("%11s %s   %-13s", "", signs[p.Kind].sign, p.Op), columns))
	}
	return lines
}

// line returns the line that begins with head.
func (l Line) line(head string, columns int) render.Line {
	var details []string
	if l.Kind == Reply {
		details = append(details, l.Outcome)
	}
	if l.Took > 0 {
		details = append(details, fmt.Sprintf("%.3fms", l.Took.Seconds()*1e3))
	}
	details = append(details, l.words...)
	var xid string
	if l.Xid != 0 {
		xid = fmt.Sprintf("xid=0x%x", uint32(l.Xid))
	}
	style := signs[l.Kind].style
	if l.Kind == Reply && l.Outcome != okOutcome {
		style = render.Red
	}
	path := l.Path
	if columns > 0 {
		width := max(columns-headWidth-detailsWidth, (columns-headWidth)/2)
		path = render.CutMiddle(path, width, min(pathEnd, width/2))
		path += strings.Repeat(" ", max(0, width-render.Width(path)))
		rest := columns - headWidth - width - len("  ")
		for len(details) > 1 && render.Width(strings.Join(details, " ")) > rest {
			details = details[:len(details)-1]
		}
		if render.Width(strings.Join(append(details, xid), " ")) > rest {
			xid = ""
		}
	}
	if xid != "" {
		details = append(details, xid)
	}
	text := strings.TrimRight(head+"  "+path+"  "+strings.Join(details, " "), " ")
	return render.Line{{Text: text, Style: style}}
}

// MarshalJSON encodes the line as one object.
func (l Line) MarshalJSON() ([]byte, error) {
	f := render.Facts{"trace", l.Kind, "seconds", l.Time.Round(time.Microsecond).Seconds()}
	if l.Xid != 0 {
		f = append(f, "xid", l.Xid)
	}
	return render.Marshal(append(f, l.rest()...))
}

// rest returns the facts that an operation of a multi has, too.
func (l Line) rest() render.Facts {
	f := render.Facts{"op", l.Op}
	if l.Path != "" {
		f = append(f, "path", l.Path)
	}
	if l.Kind == Reply {
		f = append(f, "outcome", l.Outcome)
		if l.Took > 0 {
			f = append(f, "micros", l.Took.Microseconds())
		}
	}
	f = append(f, l.facts...)
	if len(l.Parts) > 0 {
		parts := make([]render.Facts, len(l.Parts))
		for i, p := range l.Parts {
			parts[i] = p.rest()
		}
		f = append(f, "parts", parts)
	}
	return f
}
