//go:build linux

package interop

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/zksh/zksh/commands"
)

// trip is one run of a zksh, which takes the lock once or a few times, and what it
// claims by its status.
type trip struct {
	z        *contestant
	sections []section
	own      int  // the status of its commands
	busy     bool // it need not get the lock
	confirm  bool
	strict   bool
	claim    func(status int) (lie string) // what its answers say of its status; nil for those of commands

	killed, termed bool // by the test; guarded by the client's lock

	exit syscall.WaitStatus
	errs string   // what it told
	left []string // of its commands
}

// String tells which trip it is.
func (t *trip) String() string {
	return fmt.Sprintf("%s %v, own status %d, status %s", t.z.name, t.sections, t.own, t.status())
}

// status is the word for it.
func (t *trip) status() string {
	if t.exit.Signaled() {
		return t.exit.Signal().String()
	}
	return strconv.Itoa(t.exit.ExitStatus())
}

// lie compares the status with what the oracle has seen. That nobody else was there
// while a command ran is its verdict in any case.
func (t *trip) lie(v verdict) string {
	ran := slices.IndexFunc(t.sections, func(s section) bool { return !v.ended(s) })
	whole := ran < 0
	begun := !whole && v.began(t.sections[ran]) // what has not ended
	status := t.exit.ExitStatus()
	switch {
	case !whole && slices.ContainsFunc(t.sections[ran+1:], v.began):
		return "it went on after a section that had not ended"
	case t.exit.Signaled():
		early := t.termed && t.exit.Signal() == syscall.SIGTERM && !whole && !begun // before zksh heeds it
		if !early && !(t.killed && t.exit.Signal() == syscall.SIGKILL) {
			return "it was not killed"
		}
		return ""
	case t.claim != nil:
		return t.claim(status)
	case status == t.own && whole:
		return ""
	case status == t.own || status == commands.StatusOK:
		return "its command has not run to the end"
	}
	switch status {
	case commands.StatusLockLost:
		if !strings.Contains(t.errs, "lost") {
			return "it did not tell of a loss"
		}
	case commands.StatusNotLocked:
		if begun || whole || !t.busy {
			return "it got the lock, or had to wait"
		}
	case commands.StatusNoServer:
		// A batch waits for the lock again in a new session, and tells at its end that
		// it had to.
		again := len(t.sections) > 1 && strings.Contains(t.errs, "the session expired")
		if (begun || whole) && !again {
			return "it got the lock"
		}
	case commands.StatusUnconfirmed:
		if !t.confirm || !whole && !(begun && t.termed) { // the end by a signal is its own, too
			return "nothing was to be confirmed"
		}
	case commands.StatusCannotRun:
		if begun || whole || !t.strict || !strings.Contains(t.errs, "--strict") {
			return "there is such a program"
		}
	case commands.StatusTerminated:
		if !t.termed {
			return "it was not terminated"
		}
	default:
		return "there is no such status"
	}
	return ""
}

// Each status that does not fit what was seen is a lie.
func TestLies(t *testing.T) {
	first, second := section{"c", 1}, section{"c", 2}
	seen := func(first, second string) verdict {
		v := verdict{last: map[section]sight{}}
		for s, what := range map[section]string{{"c", 1}: first, {"c", 2}: second} {
			if what != "" {
				v.last[s] = sight{section: s, what: what}
			}
		}
		return v
	}
	one, two := []section{first}, []section{first, second}
	whole, cut, none := seen("end", ""), seen("beat", ""), seen("", "")
	exit := func(status int) syscall.WaitStatus { return syscall.WaitStatus(status << 8) }
	killed, terminated := syscall.WaitStatus(syscall.SIGKILL), syscall.WaitStatus(syscall.SIGTERM)
	for name, c := range map[string]struct {
		t    trip
		v    verdict
		lies bool
	}{
		"own":                         {trip{sections: one, own: 3, exit: exit(3)}, whole, false},
		"own, cut short":              {trip{sections: one, own: 3, exit: exit(3)}, cut, true},
		"0, cut short":                {trip{sections: one, exit: exit(0)}, cut, true},
		"0, never begun":              {trip{sections: one, exit: exit(0)}, none, true},
		"0 for 3":                     {trip{sections: one, own: 3, exit: exit(0)}, whole, true},
		"two":                         {trip{sections: two, exit: exit(0)}, seen("end", "end"), false},
		"two, one missing":            {trip{sections: two, exit: exit(0)}, whole, true},
		"went on":                     {trip{sections: two, exit: exit(74)}, seen("beat", "end"), true},
		"lost":                        {trip{sections: one, exit: exit(74), errs: "it is lost"}, cut, false},
		"lost, of two":                {trip{sections: two, exit: exit(74), errs: "it is lost"}, seen("end", "beat"), false},
		"lost, without a word":        {trip{sections: one, exit: exit(74)}, cut, true},
		"busy":                        {trip{sections: one, exit: exit(75), busy: true}, none, false},
		"busy, but begun":             {trip{sections: one, exit: exit(75), busy: true}, cut, true},
		"busy, but waits":             {trip{sections: one, exit: exit(75)}, none, true},
		"no server":                   {trip{sections: one, exit: exit(69)}, none, false},
		"no server, but begun":        {trip{sections: one, exit: exit(69)}, cut, true},
		"another session":             {trip{sections: two, exit: exit(69), errs: "the session expired"}, seen("end", "end"), false},
		"unconfirmed":                 {trip{sections: one, exit: exit(76), confirm: true}, whole, false},
		"unconfirmed, cut short":      {trip{sections: one, exit: exit(76), confirm: true}, cut, true},
		"unconfirmed, terminated":     {trip{sections: one, exit: exit(76), confirm: true, termed: true}, seen("term", ""), false},
		"unconfirmed, not asked":      {trip{sections: one, exit: exit(76)}, whole, true},
		"refused":                     {trip{sections: one, exit: exit(126), strict: true, errs: "--strict"}, none, false},
		"refused, but begun":          {trip{sections: one, exit: exit(126), strict: true, errs: "--strict"}, cut, true},
		"terminated":                  {trip{sections: one, exit: exit(143), termed: true}, cut, false},
		"terminated by nobody":        {trip{sections: one, exit: exit(143)}, cut, true},
		"killed":                      {trip{sections: one, exit: killed, killed: true}, cut, false},
		"terminated early":            {trip{sections: one, exit: terminated, termed: true}, none, false},
		"terminated without care":     {trip{sections: one, exit: terminated, termed: true}, cut, true},
		"killed by nobody":            {trip{sections: one, exit: killed}, cut, true},
		"failed for no reason at all": {trip{sections: one, exit: exit(1)}, cut, true},
	} {
		if lie := c.t.lie(c.v); (lie != "") != c.lies {
			t.Errorf("%s: %q", name, lie)
		}
	}
}
