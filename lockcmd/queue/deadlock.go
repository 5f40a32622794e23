package queue

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/render"
)

// A Deadlock describes sessions that wait for each other, or a session that waits for itself. It is
// only possible: the threads of a client can share a session, so the client may continue although
// one thread waits, and the queues may have changed since they were read.
type Deadlock struct {
	Problem string `json:"problem"`
	Command string `json:"command"` // zksh command that resolves the deadlock
}

// String returns the deadlock and the command that resolves it on one line.
func (d Deadlock) String() string {
	return render.Safe("possible deadlock: " + d.Problem + "; to resolve it, run: " + d.Command)
}

// deadlocks returns the possible deadlocks in the queues. serverPath converts a client path to a
// server path.
func deadlocks(queues []*Queue, serverPath func(string) string) (list []Deadlock) {
	for _, cycle := range newGraph(queues, serverPath).cycles() {
		list = append(list, cycleDeadlock(cycle))
	}
	for _, q := range queues {
		list = append(list, q.selfWaits()...)
	}
	return list
}

// cycleDeadlock describes a deadlock cycle, beginning with the contender that has waited longest. The
// command removes a lock that the most recent waiter holds and that another client in the cycle waits
// for. Removing that waiter from its queue would not help, because its client would only join the
// queue again.
func cycleDeadlock(cycle []edge) Deadlock {
	oldest, youngest := -1, -1
	for i, e := range cycle {
		if e.runsCommand {
			continue
		}
		if oldest < 0 || e.blocked.c.stat.Ctime < cycle[oldest].blocked.c.stat.Ctime {
			oldest = i
		}
		if youngest < 0 || e.blocked.c.stat.Ctime > cycle[youngest].blocked.c.stat.Ctime {
			youngest = i
		}
	}
	before := cycle[(youngest+len(cycle)-1)%len(cycle)]
	victim := before.blocker
	if before.runsCommand {
		victim = before.blocked
	}
	cycle = append(slices.Clone(cycle[oldest:]), cycle[:oldest]...)
	return Deadlock{describe(cycle, cycle[0].blocked.c.String(), "waits"), victim.q.removal(victim.c)}
}

// describe explains a deadlock cycle in words. subject is the contender with which the cycle begins,
// and verb says whether it waits.
func describe(cycle []edge, subject, verb string) string {
	var b strings.Builder
	held, awaited := cycle[len(cycle)-1].blocked.q.Path, cycle[0].blocked.q.Path
	fmt.Fprintf(&b, "%s holds %s and %s for %s", subject, held, verb, awaited)
	// ahead is the contender that blocks the previous contender in the cycle. If ahead runs a
	// command under its lock, runs is the text about that command.
	ahead, runs := cycle[0].blocker, ""
	for _, e := range cycle[1:] {
		if e.runsCommand {
			runs = fmt.Sprintf("runs %s, which ", e.blocker.c)
			continue
		}
		fmt.Fprintf(&b, "; %s is ahead in %s and %swaits for %s", ahead.c, ahead.q.Path, runs, e.blocked.q.Path)
		ahead, runs = e.blocker, ""
	}
	return b.String()
}

// removal returns the zksh command that removes the contender c from the queue, by deleting its
// znode.
func (q *Queue) removal(c *Contender) string {
	if !c.Known() {
		return "delete " + commands.Quote(c.node.path)
	}
	return "unlock --force " + commands.Quote(path.Base(c.node.path)) + " " + commands.Quote(q.Path)
}

// selfWaits returns a deadlock for each session that waits for a lock that the same session holds.
func (q *Queue) selfWaits() (list []Deadlock) {
	done := map[string]bool{}
	for _, c := range q.Contenders {
		if c.Session == "" || done[c.Session] {
			continue
		}
		ahead := q.ahead(c)
		i := slices.IndexFunc(ahead, func(a *Contender) bool { return a.Session == c.Session })
		if i < 0 {
			continue
		}
		done[c.Session] = true
		problem := fmt.Sprintf("session %s is in the queue of %s twice, so %s waits for %s, unless these are two threads",
			c.Session, q.Path, c, ahead[i])
		list = append(list, Deadlock{problem, q.removal(ahead[i])})
	}
	return list
}
