package lockcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/lockcmd/child"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// machine drives a lifecycle without a server, a clock or goroutines, and records its
// decisions.
type machine struct {
	lifecycle
	now   time.Time
	left  time.Duration // remaining time of the lease
	lease *heldLease
	by    time.Time
	log   []string
}

// staticLease is a lease that supports only the methods that a lifecycle calls.
type staticLease struct {
	lease
	m     *machine
	mode  zklock.Mode
	state zklock.State // state that has not been reported yet; empty means the reported state
}

func (l staticLease) Mode() zklock.Mode   { return l.mode }
func (l staticLease) Left() time.Duration { return l.m.left }
func (l staticLease) State() zklock.Status {
	return zklock.Status{State: cmp.Or(l.state, l.m.status.State)}
}

func (m *machine) note(format string, args ...any) {
	m.log = append(m.log, fmt.Sprintf(format, args...))
}

func (m *machine) reportStatus(s zklock.Status) { m.statusChanged(s, false) }

// do applies one event. "wait 4s" advances the time, and "left 4s" sets the remaining time of
// the lease.
func (m *machine) do(event string) {
	word, rest, _ := strings.Cut(event, " ")
	switch word {
	case "ask":
		a := newAttempt(context.Background(), m.kind, func() {})
		if rest != "" {
			a.command = newCommand(rest, testGrace, testTimeout)
		}
		m.attemptStarted(a)
	case "queued":
		m.reportStatus(zklock.Status{State: zklock.Queued, Place: 2})
	case "requeued":
		m.reportStatus(zklock.Status{State: zklock.Requeued, Err: errors.New("gone")})
	case "held":
		m.reportStatus(zklock.Status{State: zklock.Held})
	case "again":
		m.reportStatus(zklock.Status{State: zklock.Held, Again: true})
	case "suspended":
		m.reportStatus(zklock.Status{State: zklock.Suspended, Left: m.left})
	case "presumed":
		m.reportStatus(zklock.Status{State: zklock.PresumedLost})
	case "lost":
		m.reportStatus(zklock.Status{State: zklock.Lost, Err: errors.New("removed")})
	case "revoke":
		m.reportStatus(zklock.Status{State: m.status.State, Revoke: []byte(zklock.RevokeMessage)})
	case "stuck":
		m.reportStatus(zklock.Status{State: zklock.Releasing, Err: errors.New("cannot delete /l/old")})
	case "grant":
		mode := zklock.Exclusive
		if rest == "shared" {
			mode = zklock.Shared
		}
		var state zklock.State
		if rest == "regained" {
			state = zklock.Held
		}
		var err error
		switch m.lease, err = m.attemptGranted(staticLease{m: m, mode: mode, state: state}, len(m.leases)+1, m.now); {
		case err != nil:
			m.note("release, because %v", err)
		case m.command != nil:
			m.note("start %s", m.command.name)
		default:
			m.note("hold")
		}
	case "refuse":
		m.attemptFailed()
	case "interrupt":
		m.cancelAttempt(errCtrlC)
	case "wait":
		d, _ := time.ParseDuration(rest)
		m.now = m.now.Add(d)
		m.left -= d
	case "left":
		m.left, _ = time.ParseDuration(rest)
	case "judge":
		by, recheck := m.judge(m.now, m.left)
		if by != m.by {
			m.note("terminate within %s", by.Sub(m.now))
		}
		m.by = by
		if recheck <= 0 || recheck > maxJudgePause {
			m.note("look again after %s", recheck)
		}
	case "exit":
		m.lease = m.command.lease
		m.commandEnded(rest == "late")
		m.note("release")
	case "claim":
		if m.lease = m.claim(rest == "exclusive"); m.lease == nil {
			m.note("nothing to release")
		} else {
			m.note("release the %s one", m.lease.Mode())
		}
	case "end":
		ends := map[string]error{"": nil, "lost": zklock.ErrLost, "unconfirmed": zklock.ErrUnconfirmed, "rejected": errors.New("no permission")}
		m.note("%d left", m.leaseReleased(m.lease, outcomeOf(ends[rest])))
	case "close":
		m.sessionClosed(false)
	case "loss":
		if m.markLossReported() {
			m.note("%v", lossOf(m.path, m.status))
		}
	default:
		panic(event)
	}
	d := m.decide()
	for _, text := range d.notices {
		m.note("%q", text)
	}
	if d.yield {
		m.note("yield")
	}
	if d.forget {
		m.note("forget")
	}
}

// Each sequence of events leads to exactly these decisions.
func TestLifecycleDecisions(t *testing.T) {
	const (
		asks    = `"lock /l: another client asks you to release it`
		expired = "release, because lock /l: the lock is lost or about to be lost"
	)
	for name, c := range map[string]struct {
		events string
		want   []string
	}{
		"acquired and released":        {"ask, queued, held, grant, claim, end", []string{"hold", "release the exclusive one", "0 left", "forget"}},
		"failed":                       {"ask, queued, refuse", []string{"forget"}},
		"interrupted before the grant": {"ask, interrupt, held, grant, end", []string{"release, because ctrl-c", "0 left", "forget"}},
		"interrupted after the grant":  {"ask, held, grant, interrupt", []string{"hold"}},
		"its place was lost":           {"ask, queued, requeued", []string{`"lock /l: zksh lost its place in the queue (gone) and is queueing again"`}},
		"a command":                    {"ask sh, held, grant, judge, exit, end", []string{"start sh", "release", "0 left", "forget"}},
		"a command, lost before the grant": {"ask sh, held, lost, grant, end",
			[]string{`"lock /l is lost: removed"`, expired, "0 left", "forget"}},
		"a command, and too little is left": {"ask sh, left 3s, held, grant, end", []string{expired, "0 left", "forget"}},
		"a command, revoked before the grant": {"ask sh, held, revoke, grant, end",
			[]string{asks + `; zksh is releasing it"`, "release, because lock /l: another client asked zksh to release it", "0 left", "forget"}},
		"a command, revoked": {"ask sh, held, grant, revoke, judge, judge, exit, end",
			[]string{"start sh", asks + `; zksh is terminating the command"`, "terminate within 3s", "release", "0 left", "forget"}},
		"a command, lost": {"ask sh, held, grant, lost, judge, exit, end lost",
			[]string{"start sh", `"lock /l is lost: removed"`, "terminate within 3s", "release", "0 left", "forget"}},
		"a command, lost at the end of its lease": {"ask sh, held, grant, left 1s, lost, judge",
			[]string{"start sh", `"lock /l is lost: removed"`, "terminate within 800ms"}},
		"a command without a connection": {"ask sh, held, grant, suspended, judge, wait 1s, judge, wait 4s, judge, left 3200ms, judge, left 1s, judge",
			[]string{"start sh", `"lock /l: no connection; the lock is safe for another 30s"`,
				`"lock /l: no connection; without one, zksh will terminate the command in 26.8s"`,
				`"lock /l: no connection; without one, zksh will terminate the command in 21.8s"`,
				"terminate within 3s", "terminate within 800ms"}},
		"an order only becomes more urgent": {"ask sh, held, grant, left 3s, judge, left 30s, judge, lost, judge, left 1s, judge",
			[]string{"start sh", "terminate within 2.8s", `"lock /l is lost: removed"`, "terminate within 800ms"}},
		"presumed lost, and held again": {"ask, held, grant, presumed, loss, loss, again, loss",
			[]string{"hold", `"lock /l: presumed lost, because the servers have not confirmed it for a whole session timeout; another client may hold it"`,
				"lock /l may be lost: the servers have not confirmed it for a whole session timeout",
				`"lock /l: still held, because the server still has the session"`}},
		"each loss is an error of its own": {"ask, held, grant, lost, loss, held, lost, loss",
			[]string{"hold", `"lock /l is lost: removed"`, "lock /l is lost: removed", `"lock /l is lost: removed"`, "lock /l is lost: removed"}},
		"the connection is back": {"ask, held, grant, suspended, held, loss",
			[]string{"hold", `"lock /l: no connection; the lock is safe for another 30s"`, `"lock /l: connected again and still held"`}},
		"lost, and returned once as an error": {"ask, held, grant, lost, loss, loss, claim, end lost",
			[]string{"hold", `"lock /l is lost: removed"`, "lock /l is lost: removed", "release the exclusive one", "0 left", "forget"}},
		"a failed removal hides no loss": {"ask, held, grant, lost, stuck, loss",
			[]string{"hold", `"lock /l is lost: removed"`, `"lock /l: cannot delete /l/old"`, "lock /l is lost: removed"}},
		"revoked": {"ask, held, grant, revoke, claim, end",
			[]string{"hold", asks + `; zksh is releasing it"`, "yield", "release the exclusive one", "0 left", "forget"}},
		"revoked before the grant": {"ask, held, revoke, grant, end",
			[]string{asks + `; zksh is releasing it"`, "release, because lock /l: another client asked zksh to release it", "0 left", "forget"}},
		"revoked while it is released": {"ask, held, grant, claim, revoke, end",
			[]string{"hold", "release the exclusive one", asks + `; zksh is releasing it"`, "0 left", "forget"}},
		"revoked under a second lease's command": {"ask, held, grant, ask sh, grant, revoke, judge, exit, end, claim, end",
			[]string{"hold", "start sh", asks + `; zksh is terminating the command"`, "terminate within 3s", "release", "yield", "1 left",
				"release the exclusive one", "0 left", "forget"}},
		"a rejected release": {"ask, held, grant, claim, end rejected, claim, end unconfirmed",
			[]string{"hold", "release the exclusive one", "1 left", "release the exclusive one", "0 left", "forget"}},
		"a lease is claimed once": {"ask, held, grant, claim, claim", []string{"hold", "release the exclusive one", "nothing to release"}},
		"writing ends before reading": {"ask, held, grant, ask, grant shared, claim exclusive, claim exclusive",
			[]string{"hold", "hold", "release the exclusive one", "release the shared one"}},
		"a report is on its way": {"ask, held, grant, presumed, ask sh, grant regained",
			[]string{"hold", `"lock /l: presumed lost, because the servers have not confirmed it for a whole session timeout; another client may hold it"`, "start sh"}},
		"a command keeps its lease":   {"ask sh, held, grant, claim", []string{"start sh", "nothing to release"}},
		"the user closes the session": {"ask, held, grant, close", []string{"hold", `"lock /l: released, because its session was closed"`, "forget"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := &machine{lifecycle: lifecycle{path: "/l", kind: lockKinds[0], revocable: true}, now: time.Now(), left: testTimeout}
			for event := range strings.SplitSeq(c.events, ", ") {
				m.do(event)
			}
			if !slices.Equal(m.log, c.want) {
				t.Errorf("%s:\n got %s\nwant %s", c.events, strings.Join(m.log, " | "), strings.Join(c.want, " | "))
			}
		})
	}
}

// Each end of a command has its own exit status and its own message, without repetition.
func TestResultOfACommand(t *testing.T) {
	released := func(err error) error { return outcomeOf(err).releaseError("/l", err, testTimeout, false) }
	gone := fmt.Errorf("%w: removed", zklock.ErrLost)
	for _, c := range []struct {
		why          outcome
		status       int
		err, release error
		want         int
		says         string
	}{
		{want: 0},
		{status: 3, want: 3, says: "status 3"},
		{err: errors.New("odd"), want: 0, says: "odd"},
		{status: 3, release: released(errors.New("no permission")), want: 3, says: "status 3\ncannot release /l: no permission; to end the session, and the lock with it, run: close"},
		{release: released(errors.New("no permission")), want: 1, says: "cannot release /l: no permission; to end the session, and the lock with it, run: close"},
		{release: released(gone), want: commands.StatusLockLost, says: "/l: the lock was lost: removed before sh exited"},
		{release: released(zklock.ErrUnconfirmed), want: commands.StatusUnconfirmed, says: "/l: the release is not confirmed; if the lock was not released, " +
			"the servers remove it when its session expires, 30s after they last received something from the session (a restart or an election starts this period again)"},
		{why: revoked, status: 143, want: commands.StatusLockLost, says: "lock /l: another client asked zksh to release it; zksh terminated sh"},
		{why: revoked, release: released(gone), want: commands.StatusLockLost,
			says: "lock /l: another client asked zksh to release it; zksh terminated sh\n/l: the lock was lost: removed"},
		{why: expiring, status: 143, want: commands.StatusLockLost, says: "lock /l: the lock is lost or about to be lost; zksh terminated sh"},
		{why: expiring, status: 143, release: released(gone), want: commands.StatusLockLost, says: "/l: the lock was lost: removed; zksh terminated sh"},
		{why: expiring, err: child.ErrEscaped, want: commands.StatusLockLost,
			says: "lock /l: the lock is lost or about to be lost; not all processes of sh could be terminated in time"},
		{why: overdue, err: child.ErrOverdue, want: commands.StatusLockLost,
			says: "lock /l: the lease was about to expire, and zksh could not renew it in time; zksh terminated sh"},
	} {
		err := (&command{name: "sh", stopReason: c.why}).result("/l", c.status, c.err, c.release)
		said := ""
		if err != nil {
			said = err.Error()
		}
		if statusOf(err) != c.want || said != c.says {
			t.Errorf("%v, status %d, %v, release %v: status %d, %q; want %d, %q", c.why, c.status, c.err, c.release, statusOf(err), said, c.want, c.says)
		}
	}
}
