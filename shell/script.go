package shell

import (
	"context"
	"io"
	"io/fs"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/shell/batch"
)

// RunLines runs the lines of a file or pipe, and returns the exit status of the first line that
// failed. name is the name of the file or pipe in error messages.
func (s *Shell) RunLines(ctx context.Context, name string, r io.Reader) int {
	b := s.newBatch(name)
	s.setPolicy(script{b})
	if f, isFile := r.(fs.File); isFile {
		if info, err := f.Stat(); err == nil { // otherwise, only source notices that the file runs itself
			s.env.Sources = []fs.FileInfo{info}
		}
	}
	return s.shutDown(b.Run(ctx, r))
}

func (s *Shell) newBatch(name string) *batch.Batch {
	return batch.New(scriptHost{s}, s.env, s.transactions, name,
		batch.Options{StopAtError: s.cfg.StopAtError, KeepGoing: s.cfg.KeepGoing, Window: s.cfg.Window})
}

// script is the policy for the lines of a file or pipe. Because a line may depend on earlier
// lines, it fails if the session or a lock was lost since the previous line.
type script struct{ *batch.Batch }

func (script) mode() commands.Mode                      { return commands.Batch }
func (p script) wording(cmd string, err error) []string { return []string{p.Wording(cmd, err)} }
func (p script) number() int                            { return p.Line() }
func (script) shows(e zkconn.Event) bool                { return !e.Session() }
func (script) expired(e expiredError) error             { return e }
func (script) redoing(string)                           {}
func (script) closed() error                            { return nil }
func (p script) conclude(err error) error               { return p.Conclude(err) }

func (script) released(locks string) string {
	return "these locks were still held at the end of the script, so zksh released them: " + locks
}

// scriptHost implements batch.Shell, which is the interface through which a batch uses the shell.
type scriptHost struct{ s *Shell }

var _ batch.Shell = scriptHost{}

// Read adds the line to the history, parses it, and also returns the name of its command.
func (h scriptHost) Read(line string) (cmd string, l commands.Line, err error) {
	h.s.number = h.s.lines.Add(h.s.entry(line))
	return h.s.read(line)
}

// Print prints an answer. It does not print pending events first, because the batch itself prints
// the events that arrived before the answer.
func (h scriptHost) Print(v render.Value) error { return h.s.screen.answer(v) }

func (h scriptHost) Note(text string)   { h.s.env.Screen.Note(text) }
func (h scriptHost) Alert(text string)  { h.s.env.Screen.Alert(text) }
func (h scriptHost) Report(text string) { h.s.screen.complain(text) }
func (h scriptHost) Buffer()            { h.s.screen.buffer() }
func (h scriptHost) Flush() error       { return h.s.screen.flush() }
func (h scriptHost) Lost() error        { return h.s.lostLocks() }

func (h scriptHost) ShowEvents(take func() []zkconn.Event) error { return h.s.show(take) }
