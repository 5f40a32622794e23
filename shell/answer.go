package shell

import (
	"errors"
	"sync"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zkconn"
)

// gathering is the Screen of a line whose answer is one JSON value, whatever becomes of
// it: it keeps what is printed until the line has ended. Events are no answers, and are
// shown as they come.
type gathering struct {
	commands.Screen
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

// in is the environment of the line.
func (g *gathering) in(env *commands.Env) *commands.Env {
	if g == nil {
		return env
	}
	own := *env
	own.Screen = g
	return &own
}

// Print is part of commands.Screen.
func (g *gathering) Print(v render.Value) error {
	if _, is := v.(render.Event); is {
		return g.Screen.Print(v)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.values = append(g.values, v)
	return nil
}

// conclude prints the one answer of a line that has ended with err. The number is 0 for
// a command that is no line of a script. Its error is that of printing.
func (s *Shell) conclude(g *gathering, cmd string, number int, err error) error {
	if g == nil {
		return nil
	}
	return wrapWrite(s.screen.answer(render.Answer{JSON: g.answer(cmd, number, err)}))
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
	case err != nil && !silent(err):
		return failure(cmd, number, err, said)
	case said == nil:
		return render.Facts{"done", cmd, "status", Status(err)}
	}
	return said
}

// failure is the answer of a line that failed. It has what the line said nevertheless.
func failure(cmd string, number int, err error, said any) render.Facts {
	facts := render.Facts{"error", oneLine(err.Error()), "code", Code(err)}
	if cmd != "" {
		facts = append(facts, "command", cmd)
	}
	if number > 0 {
		facts = append(facts, "line", number)
	}
	if path := zkconn.PathOf(err); path != "" {
		facts = append(facts, "path", path)
	}
	if said != nil {
		facts = append(facts, "answer", said)
	}
	return facts
}

// codes are those of the errors that are told by their status.
var codes = map[int]string{
	commands.StatusLockLost: "LockLost", commands.StatusNotLocked: "NotLocked", commands.StatusUnconfirmed: "Unconfirmed",
	commands.StatusCannotRun: "CannotRun", commands.StatusUnknown: "CannotRun",
	commands.StatusInterrupted: "Interrupted", commands.StatusQuit: "Interrupted", commands.StatusTerminated: "Terminated",
	commands.StatusUsage: "Usage", commands.StatusBrokenPipe: "BrokenPipe",
}

// Code names an error for programs: by ZooKeeper's name of a refusal, or one of those
// that commands.Statuses lists besides.
func Code(err error) string {
	status := Status(err)
	own, _ := errors.AsType[*commands.StatusError](err)
	refusal, refused := errors.AsType[zkconn.Code](err)
	switch {
	case own != nil && own.Status == status && own.Code != "":
		return own.Code
	case errors.As(err, new(unknownCommand)):
		return "UnknownCommand"
	case codes[status] != "":
		return codes[status]
	case errors.As(err, new(*zkconn.NoServerError)):
		return "NoServer"
	case errors.As(err, new(*zkconn.UnsentError)):
		return "NotSent"
	case errors.Is(err, zkconn.ErrNotConnected):
		return "NotConnected"
	case refused:
		return refusal.Name()
	}
	return "Failed"
}
