package batch

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"sync"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/render"
)

// Output is a destination of a transcript. Every commands.Screen is one.
type Output interface {
	Print(v render.Value) error
	Note(text string)
	Alert(text string)
}

// Transcript is the output of one line, in order. It is the Screen of the line's command. It
// keeps some parts of the output, and the Screen in it gets all others at once: everything
// from a line that is in flight together with others, only the answer from a line whose
// answer is one JSON value, and nothing from a line that prints directly.
type Transcript struct {
	commands.Screen
	keeps  destination
	json   bool   // the line answers with one JSON value, whatever becomes of it
	cmd    string // of the line, for that value
	number int    // of the line in a script; 0: it is in none

	mu       sync.Mutex
	parts    []part
	streams  bool // a stream is the whole answer of the line, and can be printed as it comes
	answered bool // such a stream was the answer
}

// destination says where a part of the output goes. It is also a set of destinations.
type destination uint8

const (
	toOutput destination = 1 << iota // standard output
	toJSON                           // the line's one JSON answer, see Conclude
	toNote                           // standard error, unless the shell is quiet
	toAlert                          // standard error
)

type part struct {
	to    destination
	value render.Value // of toOutput and toJSON
	text  string       // of toNote and toAlert
}

// NewTranscript returns the transcript of a line that prints directly, or of one that answers
// with JSON: in a script and as a single command. At the prompt, errors are read and not parsed.
func NewTranscript(env *commands.Env, cmd string, number int) *Transcript {
	t := &Transcript{Screen: env.Screen, cmd: cmd, number: number}
	if t.json = env.Format == render.JSON && env.Mode != commands.ByHand; t.json {
		t.keeps = toJSON
	}
	return t
}

// Env returns an environment for the line's command. before is a failure that was reported for
// the line before it ran.
func (t *Transcript) Env(env *commands.Env, l commands.Line, before error) *commands.Env {
	t.streams = l.Has(commands.OneStream) && before == nil
	own := *env
	own.Screen = t
	return &own
}

// Print keeps an answer, or prints it.
func (t *Transcript) Print(v render.Value) error {
	to := toOutput
	if _, event := v.(render.Event); t.json && !event {
		to = toJSON
		if stream, is := v.(*render.Stream); is {
			if t.passes(stream) {
				to = toOutput
			} else if whole, err := complete(stream); err != nil || whole == nil {
				return err
			} else {
				v = whole
			}
		}
	}
	if t.keep(part{to: to, value: v}) {
		return nil
	}
	return t.Screen.Print(v)
}

// Note keeps a remark, or prints it.
func (t *Transcript) Note(text string) {
	if !t.keep(part{to: toNote, text: text}) {
		t.Screen.Note(text)
	}
}

// Alert keeps an alert, or prints it.
func (t *Transcript) Alert(text string) {
	if !t.keep(part{to: toAlert, text: text}) {
		t.Screen.Alert(text)
	}
}

func (t *Transcript) keep(p part) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.keeps&p.to == 0 {
		return false
	}
	t.parts = append(t.parts, p)
	return true
}

// passes reports whether a stream is the line's one JSON answer, which then includes the line's
// own failure. Later failures, such as a lost lock, are only on standard error. A Raw stream has no
// place for a failure.
func (t *Transcript) passes(v *render.Stream) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.streams || v.Raw || t.answered || slices.ContainsFunc(t.parts, func(p part) bool { return p.to == toJSON }) {
		return false
	}
	t.answered = true
	v.Failed = func(err error) render.Facts { return failure(t.cmd, t.number, err) }
	return true
}

// complete reads a stream to its end. It returns nil if the stream ended early and left no
// valid JSON; the error of the line says why.
func complete(v *render.Stream) (render.Value, error) {
	v.End = nil
	var b bytes.Buffer
	if err := (&render.Printer{W: &b, Format: render.JSON}).Print(v); err != nil || !json.Valid(b.Bytes()) {
		return nil, err
	}
	return render.Answer{JSON: json.RawMessage(bytes.TrimSpace(b.Bytes()))}, nil
}

// reset forgets all parts: the line runs once more. From now on it keeps the given parts.
func (t *Transcript) reset(keeps destination) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.parts, t.answered, t.keeps = nil, false, keeps
}

// Play sends the parts to their destinations, in order. The parts of a JSON answer wait for
// Conclude.
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
