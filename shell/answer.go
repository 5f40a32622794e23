package shell

import (
	"bytes"
	"encoding/json"
	"sync"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/shell/exit"
)

// gathering is the Screen of a line whose answer is one JSON value, whatever becomes of
// it: it keeps what is printed until the line has ended, unless it can be sure that no
// more will come. Events are no answers, and are
// shown as they come.
type gathering struct {
	commands.Screen
	cmd    string
	number int  // of the line; 0: it is none of a script
	atOnce bool // a Stream is all that the line answers with, unless something came before
	told   bool // and has been printed as it came

	mu     sync.Mutex
	values []render.Value
}

// gather gives a line its gathering. It is nil where a line answers as its command
// does: in text and in tables, and by hand, where errors are read and not parsed.
func (s *Shell) gather() *gathering {
	if s.cfg.Format != render.JSON || s.env.Mode == commands.ByHand {
		return nil
	}
	return &gathering{Screen: s.env.Screen}
}

// in is the environment of a line of this number, or 0, before which something had gone
// already if before is an error.
func (g *gathering) in(env *commands.Env, cmd string, number int, l commands.Line, before error) *commands.Env {
	if g == nil {
		return env
	}
	g.cmd, g.number, g.atOnce = cmd, number, l.Has(commands.OneStream) && before == nil
	own := *env
	own.Screen = g
	return &own
}

// Print is part of commands.Screen.
func (g *gathering) Print(v render.Value) error {
	switch value := v.(type) {
	case render.Event:
		return g.Screen.Print(v)
	case *render.Stream:
		if g.passes(value) {
			return g.Screen.Print(v)
		}
		kept, err := keep(value)
		if err != nil || kept == nil {
			return err
		}
		v = kept
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.values = append(g.values, v)
	return nil
}

// passes tells whether a Stream is the line's one answer, which then has the line's
// failure, too. What fails afterwards, such as a lock that is gone, is only on standard
// error. A Raw one has no place for a failure.
func (g *gathering) passes(v *render.Stream) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.atOnce || v.Raw || g.told || len(g.values) > 0 {
		return false
	}
	g.told = true
	v.Failed = func(err error) render.Facts { return broken(g.cmd, g.number, err) }
	return true
}

// keep is a Stream whole; nil if it was broken off where that leaves no JSON. How it has
// ended is for its line to say.
func keep(v *render.Stream) (render.Value, error) {
	v.End = nil
	var b bytes.Buffer
	if err := (&render.Printer{W: &b, Format: render.JSON}).Print(v); err != nil || !json.Valid(b.Bytes()) {
		return nil, err
	}
	return render.Answer{JSON: json.RawMessage(bytes.TrimSpace(b.Bytes()))}, nil
}

// conclude prints the one answer of a line that has ended with err. The number is 0 for
// a command that is no line of a script. Its error is that of printing.
func (s *Shell) conclude(g *gathering, cmd string, number int, err error) error {
	if g == nil || g.told {
		return nil
	}
	return exit.Unwritten(s.screen.answer(render.Answer{JSON: g.answer(cmd, number, err)}))
}

func (g *gathering) answer(cmd string, number int, err error) any {
	g.mu.Lock()
	defer g.mu.Unlock()
	var said any
	switch len(g.values) {
	case 0:
	case 1:
		said = g.values[0]
	default:
		said = g.values
	}
	switch {
	case err != nil && !exit.Silent(err):
		return failure(cmd, number, err, said)
	case said == nil:
		return render.Facts{"done", cmd, "status", exit.Status(err)}
	}
	return said
}

// failure is the answer of a line that failed. It has what the line said nevertheless.
func failure(cmd string, number int, err error, said any) render.Facts {
	facts := broken(cmd, number, err)
	if path := zkconn.PathOf(err); path != "" {
		facts = append(facts, "path", path)
	}
	if said != nil {
		facts = append(facts, "answer", said)
	}
	return facts
}

// broken is what a line's failure is, but for where and what it said.
func broken(cmd string, number int, err error) render.Facts {
	facts := render.Facts{"error", oneLine(err.Error()), "code", exit.Code(err)}
	if cmd != "" {
		facts = append(facts, "command", cmd)
	}
	if number > 0 {
		facts = append(facts, "line", number)
	}
	return facts
}
