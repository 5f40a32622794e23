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

// A trip is one run of zksh, which takes the lock once or several times.
type trip struct {
	client        *chaosClient
	sections      []section
	commandStatus int                                // exit status of its commands
	mayGiveUp     bool                               // the lock command gives up if the lock is taken
	checkStatus   func(status int) (mismatch string) // checks the status of a lineBatch; nil for other trips

	killed, terminated bool // signals sent by the test; guarded by client.mu

	exit      syscall.WaitStatus
	errs      string   // standard error
	survivors []string // processes of its commands that outlived it
}

// String returns the client, the sections and the statuses of the trip.
func (t *trip) String() string {
	return fmt.Sprintf("%s %v, own status %d, status %s", t.client.name, t.sections, t.commandStatus, t.status())
}

// status returns the exit status, or the signal that ended zksh.
func (t *trip) status() string {
	if t.exit.Signaled() {
		return t.exit.Signal().String()
	}
	return strconv.Itoa(t.exit.ExitStatus())
}

// mismatch compares the exit status with the sections that the oracle has seen. It returns a
// description of a contradiction, or "". The verdict itself lists the overlaps.
func (t *trip) mismatch(v verdict) string {
	ran := slices.IndexFunc(t.sections, func(s section) bool { return !v.ended(s) })
	whole := ran < 0
	begun := !whole && v.began(t.sections[ran]) // a section has begun and not ended
	status := t.exit.ExitStatus()
	switch {
	case !whole && slices.ContainsFunc(t.sections[ran+1:], v.began):
		return "it went on after a section that had not ended"
	case t.exit.Signaled():
		early := t.terminated && t.exit.Signal() == syscall.SIGTERM && !whole && !begun // before zksh handles SIGTERM
		if !early && !(t.killed && t.exit.Signal() == syscall.SIGKILL) {
			return "it was not killed"
		}
		return ""
	case t.checkStatus != nil:
		return t.checkStatus(status)
	case status == t.commandStatus && whole:
		return ""
	case status == t.commandStatus || status == commands.StatusOK:
		return "its command has not run to the end"
	}
	switch status {
	case commands.StatusLockLost:
		if !strings.Contains(t.errs, "lost") && !strings.Contains(t.errs, "could not renew it in time") {
			return "it did not tell of a loss"
		}
	case commands.StatusNotLocked:
		if begun || whole || !t.mayGiveUp {
			return "it got the lock, or had to wait"
		}
	case commands.StatusNoServer:
		// After an expired session, a script waits for the lock again in a new session, and
		// ends with this status.
		again := len(t.sections) > 1 && strings.Contains(t.errs, "the session expired")
		if (begun || whole) && !again {
			return "it got the lock"
		}
	case commands.StatusUnconfirmed:
		// The status is that of the first failure, so a later section of a script may have been lost.
		released := whole || ran > 0 || begun && t.terminated // a command that SIGTERM ended has ended too
		if !released || !strings.Contains(t.errs, "not confirmed") {
			return "nothing was to be confirmed"
		}
	case commands.StatusTerminated:
		if !t.terminated {
			return "it was not terminated"
		}
	default:
		return "there is no such status"
	}
	return ""
}

// mismatch finds each exit status that contradicts the log.
func TestTripMismatches(t *testing.T) {
	first, second := section{"c", 1}, section{"c", 2}
	seen := func(first, second string) verdict {
		v := verdict{last: map[section]logEntry{}}
		for s, what := range map[section]string{{"c", 1}: first, {"c", 2}: second} {
			if what != "" {
				v.last[s] = logEntry{section: s, what: what}
			}
		}
		return v
	}
	const unconfirmed = "not confirmed"
	one, two := []section{first}, []section{first, second}
	whole, cut, none := seen("end", ""), seen("beat", ""), seen("", "")
	exit := func(status int) syscall.WaitStatus { return syscall.WaitStatus(status << 8) }
	killed, terminated := syscall.WaitStatus(syscall.SIGKILL), syscall.WaitStatus(syscall.SIGTERM)
	for name, c := range map[string]struct {
		t    trip
		v    verdict
		lies bool
	}{
		"own":                         {trip{sections: one, commandStatus: 3, exit: exit(3)}, whole, false},
		"own, cut short":              {trip{sections: one, commandStatus: 3, exit: exit(3)}, cut, true},
		"0, cut short":                {trip{sections: one, exit: exit(0)}, cut, true},
		"0, never begun":              {trip{sections: one, exit: exit(0)}, none, true},
		"0 for 3":                     {trip{sections: one, commandStatus: 3, exit: exit(0)}, whole, true},
		"two":                         {trip{sections: two, exit: exit(0)}, seen("end", "end"), false},
		"two, one missing":            {trip{sections: two, exit: exit(0)}, whole, true},
		"went on":                     {trip{sections: two, exit: exit(74)}, seen("beat", "end"), true},
		"lost":                        {trip{sections: one, exit: exit(74), errs: "it is lost"}, cut, false},
		"lost, of two":                {trip{sections: two, exit: exit(74), errs: "it is lost"}, seen("end", "beat"), false},
		"lost, without a word":        {trip{sections: one, exit: exit(74)}, cut, true},
		"busy":                        {trip{sections: one, exit: exit(75), mayGiveUp: true}, none, false},
		"busy, but begun":             {trip{sections: one, exit: exit(75), mayGiveUp: true}, cut, true},
		"busy, but waits":             {trip{sections: one, exit: exit(75)}, none, true},
		"no server":                   {trip{sections: one, exit: exit(69)}, none, false},
		"no server, but begun":        {trip{sections: one, exit: exit(69)}, cut, true},
		"another session":             {trip{sections: two, exit: exit(69), errs: "the session expired"}, seen("end", "end"), false},
		"unconfirmed":                 {trip{sections: one, exit: exit(76), errs: unconfirmed}, whole, false},
		"unconfirmed, without a word": {trip{sections: one, exit: exit(76)}, whole, true},
		"unconfirmed, then lost":      {trip{sections: two, exit: exit(76), errs: unconfirmed}, seen("end", "beat"), false},
		"unconfirmed, cut short":      {trip{sections: one, exit: exit(76), errs: unconfirmed}, cut, true},
		"unconfirmed, terminated":     {trip{sections: one, exit: exit(76), errs: unconfirmed, terminated: true}, seen("term", ""), false},
		"terminated":                  {trip{sections: one, exit: exit(143), terminated: true}, cut, false},
		"terminated by nobody":        {trip{sections: one, exit: exit(143)}, cut, true},
		"killed":                      {trip{sections: one, exit: killed, killed: true}, cut, false},
		"terminated early":            {trip{sections: one, exit: terminated, terminated: true}, none, false},
		"terminated without care":     {trip{sections: one, exit: terminated, terminated: true}, cut, true},
		"killed by nobody":            {trip{sections: one, exit: killed}, cut, true},
		"failed for no reason at all": {trip{sections: one, exit: exit(1)}, cut, true},
	} {
		if lie := c.t.mismatch(c.v); (lie != "") != c.lies {
			t.Errorf("%s: %q", name, lie)
		}
	}
}
