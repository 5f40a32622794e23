// Package commandtest provides utilities for testing commands. Run runs a command line, and a
// Screen records its output.
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

// Screen records the output of commands. The zero value formats results as text, has no terminal,
// and answers every question with an error. Set the fields before the first use.
type Screen struct {
	Format        render.Format // format of results; text if empty
	Columns, Rows int           // size of the terminal; 0 if there is none
	// Answer is called by Ask and returns the user's answer. If it is nil, Ask returns an error.
	Answer func(question string) (yes bool, err error)

	mu     sync.Mutex      // guards the fields below
	out    strings.Builder // results, as Print formats them
	notes  []string
	alerts []string
	bells  int
	drawn  [][]string // lines passed to each Draw, oldest first
	kept   []string   // last lines of the region that was most recently closed with keep
}

var _ commands.Screen = (*Screen)(nil)

// Print implements commands.Screen.
func (s *Screen) Print(v render.Value) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := render.Printer{W: &s.out, Format: s.Format, Width: func() int { return s.Columns }}
	if p.Format == "" {
		p.Format = render.Text
	}
	return p.Print(v)
}

// Note implements commands.Screen.
func (s *Screen) Note(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notes = append(s.notes, text)
}

// Alert implements commands.Screen.
func (s *Screen) Alert(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.alerts = append(s.alerts, text)
}

// Ask implements commands.Screen.
func (s *Screen) Ask(_ context.Context, question string) (bool, error) {
	if s.Answer == nil {
		return false, errors.New("cannot ask for input outside the interactive shell")
	}
	return s.Answer(question)
}

// Lend implements commands.Screen.
func (s *Screen) Lend(do func() error) error { return do() }

// ShowKeys implements commands.Screen. It does nothing.
func (s *Screen) ShowKeys() (hideAgain func()) { return func() {} }

// AskSecret implements commands.Screen. It always returns an error.
func (s *Screen) AskSecret(context.Context, string) (string, error) {
	return "", errors.New("cannot ask for input outside the interactive shell")
}

// Progress implements commands.Screen. It displays nothing.
func (s *Screen) Progress(string) (update func(done, total int), end func()) {
	return func(int, int) {}, func() {}
}

// Region implements commands.Screen.
func (s *Screen) Region(commands.Stream) commands.Region { return &region{s: s} }

// Bell implements commands.Screen. It counts the calls.
func (s *Screen) Bell() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bells++
}

// Bells returns how often Bell was called.
func (s *Screen) Bells() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bells
}

// Printed returns all results that have been printed so far.
func (s *Screen) Printed() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.String()
}

// Notes returns all remarks that have been printed so far, one per line.
func (s *Screen) Notes() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.notes, "\n")
}

// Alerts returns all alerts that have been printed so far, one per line.
func (s *Screen) Alerts() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.alerts, "\n")
}

// Drawn returns the lines passed to each Draw of any region, oldest first.
func (s *Screen) Drawn() [][]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.drawn
}

// Kept returns the last lines of the region that was most recently closed with keep set to true.
func (s *Screen) Kept() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kept
}

// region implements commands.Region for a Screen.
type region struct {
	s    *Screen
	last []string
}

// Size implements commands.Region.
func (r *region) Size() (columns, rows int) { return r.s.Columns, r.s.Rows }

// Draw implements commands.Region.
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

// Paint implements commands.Region. It records the text of the lines.
func (r *region) Paint(lines ...render.Line) error {
	text := make([]string, len(lines))
	for i, l := range lines {
		text[i] = l.Text()
	}
	return r.Draw(text...)
}

// Close implements commands.Region.
func (r *region) Close(keep bool) error {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	if keep {
		r.s.kept = r.last
	}
	return nil
}

// Run runs a command line. words are the words after the command's name.
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
