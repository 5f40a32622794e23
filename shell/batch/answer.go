package batch

import (
	"strings"

	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/shell/exit"
)

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
	case err != nil && !exit.Silent(err):
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
	facts := render.Facts{"error", OneLine(err.Error()), "code", exit.Code(err)}
	if cmd != "" {
		facts = append(facts, "command", cmd)
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
