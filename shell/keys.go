package shell

import (
	"os"
	"strings"

	"github.com/zksh/zksh/internal/render"
)

// keyboard is a terminal that shows what is typed, by itself, wherever its cursor stands.
// While something is drawn in its place there, it does not: the editor shows what was
// typed ahead when its turn comes.
type keyboard struct {
	in     *os.File                                      // nil: there is none
	hide   func(*os.File) (show func() error, err error) // tty.HideKeys
	show   func() error                                  // nil while it shows what is typed
	unseen bool                                          // the key that ended the line did not show
}

// hidden makes the terminal stop, or begin again, to show what is typed. A terminal that
// cannot do so goes on as it is.
func (k *keyboard) hidden(yes bool) {
	switch {
	case k.in == nil || yes == (k.show != nil):
	case yes:
		if show, err := k.hide(k.in); err == nil {
			k.show = show
		}
	default:
		_ = k.show() // a terminal that is gone shows nothing
		k.show = nil
	}
}

// interrupted notes whether the key of a signal has shown.
func (s *screen) interrupted() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys.unseen = s.keys.show != nil
}

// lend lets a program have the terminal as it was found.
func (s *screen) lend() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys.hidden(false)
}

// answerColumns is how much of the last row of a question is left for the answer.
const answerColumns = 4

// question prints all but the last row of a question that is wider than the terminal, broken
// between words, and returns the rest, which the editor shows.
func (s *screen) question(text string) string {
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
		defer s.makeWay(s.out)()
		if s.editor.Notify(strings.Join(rows[:last], "\n")+"\n") != nil { // the editor fails as well, and reports it
			return text
		}
	}
	return rows[last] + end
}
