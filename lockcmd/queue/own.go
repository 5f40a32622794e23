package queue

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/cluster"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// Wait is what a client waits for, or is about to, while it holds something.
type Wait struct {
	Session int64
	Path    string
	Held    []string // znodes that are held, by it or what it runs under: paths on the server

	// Mode is that of one who has not come yet; empty: he is in the queue.
	Mode zklock.Mode

	Background bool // the shell goes on meanwhile: unlock ends the wait, not Ctrl-C
}

// mostQueues is how many queues are read for one wait.
const mostQueues = 100

// Deadlock tells in a line why a wait has no end by itself; it is empty if it has
// one, as far as can be seen: those who are ahead are followed to what they wait for
// by what dump tells, where that is allowed, and else only to what is held here.
func (w Wait) Deadlock(ctx context.Context, e Whole) (string, error) {
	own := render.Hex(w.Session)
	queues, err := w.queues(ctx, e, own)
	if err != nil {
		return "", err
	}
	way := newGraph(queues, e.ServerPath).circle(own, func(string) bool { return true })
	if way == nil || straight(way)[0].from.session() != own { // else the others' circle goes on without us
		return "", nil
	}
	return w.sentence(way), nil
}

// queues reads the queues that can be part of the circle: those of this client, and
// of whoever is in its way, and so on.
func (w Wait) queues(ctx context.Context, e Whole, own string) (queues []*Queue, err error) {
	known := map[string]bool{}
	read := func(dir string) error {
		if known[dir] || len(queues) == mostQueues {
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
		w.join(queues[0], own)
	}
	for _, node := range w.Held {
		if dir := e.ClientPath(path.Dir(node)); e.ServerPath(dir) == path.Dir(node) { // else it is outside the chroot
			_ = read(dir) // what cannot be read is in no circle that can be told
		}
	}
	folders := map[string][]string{} // by session
	if all, err := cluster.Ephemerals(ctx, e); err == nil {
		folders = foldersOf(all, e)
	}
	for sessions, i := []string{own}, 0; i < len(sessions); i++ {
		for _, dir := range folders[sessions[i]] {
			if i > 0 {
				_ = read(dir)
			}
		}
		newGraph(queues, e.ServerPath).edges(sessions[i], func(to edge) bool {
			if s := to.to.session(); !slices.Contains(sessions, s) {
				sessions = append(sessions, s)
			}
			return true
		})
	}
	return queues, nil
}

// foldersOf is the paths of the locks in which each session has a znode.
func foldersOf(all map[int64][]string, e Whole) map[string][]string {
	folders := make(map[string][]string, len(all))
	for session, list := range all {
		of := map[string]bool{}
		addFolders(of, e, "/", list)
		folders[render.Hex(session)] = queueDirs(of)
	}
	return folders
}

// join puts one who has not come yet at the end of a queue.
func (w Wait) join(q *Queue, own string) {
	c := newContender(&node{Name: zklock.Name{Kind: "Curator mutex", Mode: w.Mode}, Node: Node{Stat: &zk.Stat{}}, path: path.Join(w.Path, "-")})
	c.Session, c.State, c.liberal, c.Place = own, waits, true, len(q.Contenders)+1
	c.Data, _ = Note("", w.Held) // of what JSON always takes
	q.Contenders = append(q.Contenders, c)
}

// sentence tells of a circle from the side of the one it begins with.
func (w Wait) sentence(way []edge) string {
	verb := "waits"
	if w.Mode != "" {
		verb = "would wait"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: this zksh holds %s and %s for %s", deadlockWord(way), way[len(way)-1].from.q.Path, verb, way[0].from.q.Path)
	ahead, runs := way[0].to, "" // who is waited for, and what runs under its lock
	for _, e := range way[1:] {
		if e.under {
			runs = fmt.Sprintf("runs %s, which ", e.to.c)
			continue
		}
		fmt.Fprintf(&b, "; %s is ahead in %s and %swaits for %s", ahead.c, ahead.q.Path, runs, e.from.q.Path)
		ahead, runs = e.to, ""
	}
	end := "Ctrl-C"
	if w.Background {
		end = "unlock " + commandWord(w.Path)
	}
	return render.Safe(b.String() + "; to end this wait, use: " + end)
}

// deadlockWord is what a circle is: of shells for sure a deadlock; other clients
// may have threads of their own in one session.
func deadlockWord(way []edge) string {
	if slices.ContainsFunc(way, func(e edge) bool { return !e.from.c.liberal }) {
		return "possible deadlock"
	}
	return "deadlock"
}
