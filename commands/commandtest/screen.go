// Package commandtest has the Screen that tests give to commands.
//
// This package is part of the program zksh and may change at any time.
package commandtest

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/render"
)

// Screen keeps what it is given. The zero value is a screen without a terminal,
// that prints text and has nobody to ask. Its fields are to be set before it is
// used.
type Screen struct {
	Format        render.Format // text if empty
	Columns, Rows int           // of the terminal; 0: there is none
	Answer        func(question string) (yes bool, err error)

	mu     sync.Mutex
	out    strings.Builder
	notes  []string
	alerts []string
	drawn  [][]string
	kept   []string
}

var _ commands.Screen = (*Screen)(nil)

// Print is part of commands.Screen.
func (s *Screen) Print(v render.Value) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := render.Printer{W: &s.out, Format: s.Format, Width: func() int { return s.Columns }}
	if p.Format == "" {
		p.Format = render.Text
	}
	return p.Print(v)
}

// Note is part of commands.Screen.
func (s *Screen) Note(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notes = append(s.notes, text)
}

// Alert is part of commands.Screen.
func (s *Screen) Alert(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.alerts = append(s.alerts, text)
}

// Ask is part of commands.Screen.
func (s *Screen) Ask(_ context.Context, question string) (bool, error) {
	if s.Answer == nil {
		return false, errors.New("cannot ask for input outside the interactive shell")
	}
	return s.Answer(question)
}

// Lend is part of commands.Screen.
func (s *Screen) Lend(do func() error) error { return do() }

// AskUnseen is part of commands.Screen.
func (s *Screen) AskUnseen(context.Context, string) (string, error) {
	return "", errors.New("cannot ask for input outside the interactive shell")
}

// Progress is part of commands.Screen; it shows nothing.
func (s *Screen) Progress(string) (update func(done, total int), end func()) {
	return func(int, int) {}, func() {}
}

// Region is part of commands.Screen.
func (s *Screen) Region(commands.Stream) commands.Region { return &region{s: s} }

// Printed is what was printed so far.
func (s *Screen) Printed() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.String()
}

// Notes are the remarks so far, a line each.
func (s *Screen) Notes() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.notes, "\n")
}

// Alerts are the alerts so far, a line each.
func (s *Screen) Alerts() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.alerts, "\n")
}

// Drawn are the pictures of all regions so far, oldest first.
func (s *Screen) Drawn() [][]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.drawn
}

// Kept is the last picture of the region that was closed to be kept.
func (s *Screen) Kept() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kept
}

// region is one region of a Screen.
type region struct {
	s    *Screen
	last []string
}

// Size is part of commands.Region.
func (r *region) Size() (columns, rows int) { return r.s.Columns, r.s.Rows }

// Draw is part of commands.Region.
func (r *region) Draw(lines ...string) error {
	if r.s.Columns == 0 {
		return nil
	}
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	r.last = lines
	r.s.drawn = append(r.s.drawn, lines)
	return nil
}

// Close is part of commands.Region.
func (r *region) Close(keep bool) error {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	if keep {
		r.s.kept = r.last
	}
	return nil
}

// Run runs a line of a command, given as the words behind its name.
func Run(ctx context.Context, c *commands.Command, env *commands.Env, words ...string) error {
	line := make([]commands.Word, len(words))
	for i, w := range words {
		line[i] = commands.Word{Text: w}
	}
	l, err := c.Read(env, line)
	if err != nil {
		return err
	}
	return l.Run(ctx, env)
}
