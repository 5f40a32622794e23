package shell

import (
	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/zkconn"
)

// policy is what a shell does otherwise in one mode than in the others. A Shell
// gets it when it begins to run, and keeps it.
type policy interface {
	mode() commands.Mode
	// wording is what is printed for an error, a line each. The command's name is
	// "" for an error that is of none.
	wording(cmd string, err error) []string
	// shows tells whether an event is printed where printwatches is on.
	shows(e zkconn.Event) bool
	// expired is called when a session has expired and another one took its place.
	// What it returns is the error of the line under way.
	expired(e expiredError) error
	// redoing is called with a line of the history that is about to run again.
	redoing(line string)
	// released is the remark on locks that the end of the shell has given back.
	released(locks string) string
	// closed is called when the session has been closed at the end.
	closed() error
}

// begin has a policy govern the shell.
func (s *Shell) begin(p policy) { s.policy, s.env.Mode = p, p.mode() }
