package queue

import (
	"context"
	"path"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/cluster"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// A Wait describes a current or planned wait of this client for a lock, and the locks that the
// client holds during the wait.
type Wait struct {
	Session int64
	Path    string
	// Held contains the locks that this process and its parent processes hold, as server paths of
	// their znodes.
	Held []string

	// Mode is the mode of the lock to wait for, or empty if the client is already in the queue.
	Mode zklock.Mode

	Background bool // whether the wait is in the background, so that the user ends it with unlock instead of Ctrl-C
}

// maxQueues is the maximum number of queues that zksh reads to find a deadlock.
const maxQueues = 100

// Deadlock returns a line that explains why the wait cannot end, or an empty string if there is
// no deadlock. It uses the four-letter command dump to find out which locks the clients ahead
// wait for, directly or indirectly. If the servers do not allow dump, it examines only the queue
// of w.Path and those of w.Held.
func (w Wait) Deadlock(ctx context.Context, e TreeEnsemble) (string, error) {
	own := render.Hex(w.Session)
	queues, err := w.queues(ctx, e, own)
	if err != nil {
		return "", err
	}
	cycle := newGraph(queues, e.ServerPath).shortestCycle(own, func(string) bool { return true })
	// If shorten removes this session, the deadlock does not involve this client.
	if cycle == nil || shorten(cycle)[0].blocked.session() != own {
		return "", nil
	}
	return w.describe(cycle), nil
}

// queues reads the queues that can be part of a deadlock. These are the queues of this client, the
// queues of the clients that block it, and so on.
func (w Wait) queues(ctx context.Context, e TreeEnsemble, own string) (queues []*Queue, err error) {
	known := map[string]bool{}
	read := func(dir string) error {
		if known[dir] || len(queues) == maxQueues {
			return nil
		}
		known[dir] = true
		q, err := Read(ctx, e, dir)
		if err == nil {
			queues = append(queues, q)
		}
		return err
	}
	if err := read(w.Path); err != nil {
		return nil, err
	}
	if w.Mode != "" {
		w.addWaiter(queues[0], own)
	}
	for _, node := range w.Held {
		// A queue outside the chroot has no client path, so it cannot be read.
		if dir := e.ClientPath(path.Dir(node)); e.ServerPath(dir) == path.Dir(node) {
			_ = read(dir) // a queue that cannot be read is skipped
		}
	}
	dirs := map[string][]string{} // paths of queues, by session id
	if all, err := cluster.Ephemerals(ctx, e); err == nil {
		dirs = queueDirsBySession(all, e)
	}
	for sessions, i := []string{own}, 0; i < len(sessions); i++ {
		for _, dir := range dirs[sessions[i]] {
			if i > 0 {
				_ = read(dir)
			}
		}
		newGraph(queues, e.ServerPath).edges(sessions[i], func(to edge) bool {
			if s := to.blocker.session(); !slices.Contains(sessions, s) {
				sessions = append(sessions, s)
			}
			return true
		})
	}
	return queues, nil
}

// queueDirsBySession returns, for each session id, the paths of the queues in which that session
// has a znode.
func queueDirsBySession(all map[int64][]string, e TreeEnsemble) map[string][]string {
	folders := make(map[string][]string, len(all))
	for session, list := range all {
		of := map[string]bool{}
		addQueueDirs(of, e, "/", list)
		folders[render.Hex(session)] = queueDirs(of)
	}
	return folders
}

// addWaiter adds this client, whose session id is own, to the end of the queue q, as if the planned
// wait had begun.
func (w Wait) addWaiter(q *Queue, own string) {
	c := newContender(&node{Name: zklock.Name{Kind: "Curator mutex", Mode: w.Mode}, Node: Node{Stat: &zk.Stat{}}, path: path.Join(w.Path, "-")})
	c.Session, c.State, c.waitsForAll, c.Place = own, waits, true, len(q.Contenders)+1
	c.Data, _ = Note("", w.Held, 0) // cannot fail, because a note contains only strings and numbers
	q.Contenders = append(q.Contenders, c)
}

// describe explains a deadlock cycle in words, beginning with this client.
func (w Wait) describe(cycle []edge) string {
	verb, end := "waits", "Ctrl-C"
	if w.Mode != "" {
		verb = "would wait"
	}
	if w.Background {
		end = "unlock " + commands.Quote(w.Path)
	}
	text := deadlockLabel(cycle) + ": " + describe(cycle, "this zksh", verb) + "; to end this wait, use: " + end
	return render.Safe(text)
}

// deadlockLabel returns "deadlock" if all waiters are zksh processes. Otherwise, it returns
// "possible deadlock": several threads of another client may share one session, so the client may
// continue although one thread is blocked.
func deadlockLabel(cycle []edge) string {
	if slices.ContainsFunc(cycle, func(e edge) bool { return !e.blocked.c.waitsForAll }) {
		return "possible deadlock"
	}
	return "deadlock"
}
