package batch

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/shell/exit"
)

// An Output receives the parts of a transcript. Every commands.Screen is an Output.
type Output interface {
	Print(v render.Value) error
	Note(text string)
	Alert(text string)
}

// A Transcript is the Screen of a line's command. It buffers some parts of the output, in order,
// and passes the other parts to the embedded Screen at once. Which parts it buffers depends on the
// line:
//
//   - If the line is in flight together with others, it buffers all parts.
//   - If the line answers with one JSON value, it buffers only the answer.
//   - Otherwise it buffers nothing.
type Transcript struct {
	commands.Screen
	buffered destination // set of the destinations whose parts are buffered
	json     bool        // whether the line answers with one JSON value, even if it fails
	cmd      string      // name of the command, for the JSON value
	number   int         // number of the line in a script, or 0 if the line is not in a script

	mu           sync.Mutex // guards the fields below
	parts        []part
	singleStream bool // whether the only answer of the line is a stream, which can be printed directly
	answered     bool // whether the stream has been printed
}

// A destination is a place to which output goes. Destinations are bits, so a value can also be a
// set of places.
type destination uint8

const (
	toOutput destination = 1 << iota // standard output
	toJSON                           // the JSON answer of the line; see Conclude
	toNote                           // standard error, unless the shell is quiet
	toAlert                          // standard error
)

type part struct {
	to    destination
	value render.Value // set if to is toOutput or toJSON
	text  string       // set if to is toNote or toAlert
}

// NewTranscript returns the transcript of a line. In a script or a one-shot command with JSON
// output, the line answers with one JSON value. Otherwise the transcript prints each part
// directly.
func NewTranscript(env *commands.Env, cmd string, number int) *Transcript {
	t := &Transcript{Screen: env.Screen, cmd: cmd, number: number}
	if t.json = env.Format == render.JSON && env.Mode != commands.ByHand; t.json {
		t.buffered = toJSON
	}
	return t
}

// Env returns a copy of env with the transcript as the Screen, for the command of the line l.
// priorErr is the error that was reported for the line before it ran, or nil.
func (t *Transcript) Env(env *commands.Env, l commands.Line, priorErr error) *commands.Env {
	t.singleStream = l.Has(commands.OneStream) && priorErr == nil
	own := *env
	own.Screen = t
	return &own
}

// Print buffers or prints an answer.
func (t *Transcript) Print(v render.Value) error {
	to := toOutput
	if _, event := v.(render.Event); t.json && !event {
		to = toJSON
		if stream, is := v.(*render.Stream); is {
			if t.printsDirectly(stream) {
				to = toOutput
			} else if whole, err := readStream(stream); err != nil {
				return err
			} else {
				v = whole
			}
		}
	}
	if t.buffer(part{to: to, value: v}) {
		return nil
	}
	return t.Screen.Print(v)
}

// Note buffers or prints a remark.
func (t *Transcript) Note(text string) {
	if !t.buffer(part{to: toNote, text: text}) {
		t.Screen.Note(text)
	}
}

// Alert buffers or prints an alert.
func (t *Transcript) Alert(text string) {
	if !t.buffer(part{to: toAlert, text: text}) {
		t.Screen.Alert(text)
	}
}

// buffer adds p to the buffered parts, if the transcript buffers parts for the destination of p. It
// reports whether it has added p.
func (t *Transcript) buffer(p part) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.buffered&p.to == 0 {
		return false
	}
	t.parts = append(t.parts, p)
	return true
}

// printsDirectly reports whether the stream v is the JSON answer of the line and can be printed at
// once.
//
// If printsDirectly returns true and the command fails, the stream ends with the error of the
// command. Later failures, such as a lost lock, are reported only on standard error.
func (t *Transcript) printsDirectly(v *render.Stream) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.singleStream || t.answered || slices.ContainsFunc(t.parts, func(p part) bool { return p.to == toJSON }) {
		return false
	}
	t.answered = true
	v.Failed = func(err error) render.Facts { return failure(t.cmd, t.number, err) }
	return true
}

// readStream reads a stream to its end and returns it as a single value.
func readStream(v *render.Stream) (render.Value, error) {
	v.End = nil
	var b bytes.Buffer
	if err := (&render.Printer{W: &b, Format: render.JSON}).Print(v); err != nil {
		return nil, err
	}
	return render.Answer{JSON: json.RawMessage(bytes.TrimSpace(b.Bytes()))}, nil
}

// reset discards all buffered parts. From then on, the transcript buffers only the parts whose
// destination is in the set buffered.
func (t *Transcript) reset(buffered destination) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.parts, t.answered, t.buffered = nil, false, buffered
}

// Play sends the buffered parts to out, in order. It skips the parts of a JSON answer, because
// Conclude prints them.
func (t *Transcript) Play(out Output) (err error) {
	t.mu.Lock()
	parts := t.parts
	t.mu.Unlock()
	for _, p := range parts {
		switch p.to {
		case toOutput:
			err = errors.Join(err, out.Print(p.value))
		case toNote:
			out.Note(p.text)
		case toAlert:
			out.Alert(p.text)
		}
	}
	return err
}

// Conclude prints the JSON answer of a line that has ended. err is the error of the line, or nil.
// Conclude prints nothing if the line has no JSON answer, or if the answer has been printed as a
// stream. Conclude returns an error only if it cannot print the answer.
func (t *Transcript) Conclude(out Output, err error) error {
	if !t.json || t.answered {
		return nil
	}
	return out.Print(render.Answer{JSON: t.answer(err)})
}

// answer combines all answers of a line into a single JSON value, together with err, the error of
// the line, which may be nil.
func (t *Transcript) answer(err error) any {
	t.mu.Lock()
	defer t.mu.Unlock()
	var values []render.Value
	for _, p := range t.parts {
		if p.to == toJSON {
			values = append(values, p.value)
		}
	}
	var answer any
	switch len(values) {
	case 0:
	case 1:
		answer = values[0]
	default:
		answer = values
	}
	switch {
	case err != nil && (errors.As(err, new(*exit.ReportedError)) || !exit.Silent(err)):
		facts := failure(t.cmd, t.number, err)
		if path := zkconn.PathOf(err); path != "" {
			facts = append(facts, "path", path)
		}
		if answer != nil {
			facts = append(facts, "answer", answer)
		}
		return facts
	case answer == nil:
		return render.Facts{"done", t.cmd, "status", exit.Status(err)}
	}
	return answer
}

// failure returns the JSON fields that report the failure of a line. cmd is the name of the
// command, or empty if there is none. number is the line's number in a script, or 0 outside a
// script.
func failure(cmd string, number int, err error) render.Facts {
	facts := render.Facts{"error", OneLine(zkconn.HidePassword(err.Error())), "code", exit.Code(err), "status",
		exit.Status(err)}
	if cmd != "" {
		facts = append(facts, "command", zkconn.HidePassword(cmd))
	}
	if number > 0 {
		facts = append(facts, "line", number)
	}
	return facts
}

// OneLine joins the lines of a text with "; ".
func OneLine(text string) string {
	return strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "; ")
}
