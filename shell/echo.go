package shell

import (
	"os"
	"strings"

	"github.com/zksh/zksh/internal/render"
)

// A keyEcho turns off the echo of the terminal while a command runs. Otherwise the terminal would
// print each typed key at the cursor, in the middle of the output. The line editor shows the keys
// later, when it reads them.
type keyEcho struct {
	in *os.File // the terminal, or nil if there is none
	// turns the echo off, and returns a function that turns it on again
	turnOff func(*os.File) (show func() error, err error)
	turnOn  func() error // turns the echo on again; nil while the echo is on
	// whether a command runs that does not lend the terminal to a program
	running   bool
	notEchoed bool // whether the echo was off at the last interrupt
}

// setHidden turns the echo off if hidden is true or a command runs, and on otherwise. The echo stays
// on if the terminal cannot turn it off.
func (k *keyEcho) setHidden(hidden bool) {
	hidden = hidden || k.running
	switch {
	case k.in == nil || hidden == (k.turnOn != nil):
	case hidden:
		if show, err := k.turnOff(k.in); err == nil {
			k.turnOn = show
		}
	default:
		_ = k.turnOn() // fails only if the terminal is gone
		k.turnOn = nil
	}
}

// noteInterrupt records whether the terminal echoed the key that caused an interrupt, such as ^C.
func (s *screen) noteInterrupt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.echo.notEchoed = s.echo.turnOn != nil
}

// hideKeys turns the echo off while a command runs, unless the terminal is dumb, so that zksh could
// not show the keys later.
func (s *screen) hideKeys(running bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.echo.running = running && !s.out.Dumb
	s.echo.setHidden(false)
}

// lend turns the echo on before another program uses the terminal, so that the program finds the
// modes that the user has set. takeBack turns the echo off again if a command still runs.
func (k *keyEcho) lend() (takeBack func()) {
	running := k.running
	k.running = false
	k.setHidden(false)
	return func() {
		k.running = running
		k.setHidden(false)
	}
}

// restoreEcho turns the echo of the terminal on again. It is called before the line editor or
// another program uses the terminal. It returns a function that turns the echo off again if a
// command still runs.
func (s *screen) restoreEcho() (hideAgain func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	takeBack := s.echo.lend()
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		takeBack()
	}
}

// answerColumns is the minimum width, in columns, of the space for the user's answer after a
// question.
const answerColumns = 4

// wrapQuestion prepares a question for the line editor. If the question is wider than the
// terminal, wrapQuestion wraps it between words, prints all rows but the last, and returns the last
// row. Otherwise it returns the question.
func (s *screen) wrapQuestion(text string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	columns := s.out.columns()
	if columns <= answerColumns || render.Width(text)+answerColumns <= columns {
		return text
	}
	end := text[len(strings.TrimRight(text, " ")):]
	rows := strings.Split(render.Wrap(strings.TrimRight(text, " "), columns-answerColumns, ""), "\n")
	last := len(rows) - 1
	if last > 0 {
		defer s.hideRegions(s.out)()
		// the editor will report the error when it shows the question
		if s.editor.Notify(strings.Join(rows[:last], "\n")+"\n") != nil {
			return text
		}
	}
	return rows[last] + end
}
