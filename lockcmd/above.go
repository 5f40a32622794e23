package lockcmd

import (
	"context"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/lockcmd/queue"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// heldName is the variable that tells a command what is held while it runs: the
// znodes, one a line, by their paths on the server. Whether one is still there, and
// in the ensemble that the command asks, tells its name, which is used only once.
const heldName = "ZK_LOCK_HELD"

// heldAbove lists the znodes that are held by what this program runs under.
func heldAbove() []string {
	return strings.FieldsFunc(os.Getenv(heldName), func(r rune) bool { return r == '\n' })
}

// held is heldAbove with what this shell itself holds. Called with the table's lock
// held.
func (t *Table) held() []string {
	nodes := heldAbove()
	for k, o := range t.locks {
		if node := o.status.Node; len(o.leases) > 0 && node != "" && !o.deserted() {
			nodes = append(nodes, path.Join(k.path, path.Base(node)))
		}
	}
	slices.Sort(nodes)
	return nodes
}

// heldNow is held for who does not have the table's lock.
func (t *Table) heldNow() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.held()
}

// waitsForItself is an error if a command above this one holds what a lock would
// wait for. What cannot be read is left to the lock, which needs it as well.
func waitsForItself(ctx context.Context, env *commands.Env, mode zklock.Mode, dir string) error {
	above := slices.DeleteFunc(heldAbove(), func(node string) bool { return path.Dir(node) != env.Session.ServerPath(dir) })
	if len(above) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, env.Session.Info().Patience)
	defer cancel()
	q, err := queue.Read(ctx, ensemble{env.Session}, dir)
	if err != nil {
		return nil
	}
	for _, node := range above {
		if c := q.Contender(path.Base(node)); c != nil && c.Excludes(mode) {
			return fmt.Errorf("a parent process of this command already holds the lock %s (%s), so waiting for it would never end", dir, c)
		}
	}
	return nil
}

// How often a wait is searched for a deadlock: soon, and then less and less.
const (
	searchFirst = time.Second
	searchLast  = 30 * time.Second
)

// deadlocks searches for a deadlock that a wait of this shell is part of, or would be.
type deadlocks struct {
	table      *Table
	env        *commands.Env
	path       string
	left       func() bool // the user has left the ensemble
	background bool        // the wait is in the background
}

// search reports, once, that a wait has no end by itself. It ends with ctx.
func (d deadlocks) search(ctx context.Context) {
	for pause := searchFirst; ; pause = min(2*pause, searchLast) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		if d.report(ctx, "") {
			return
		}
	}
}

// foretell reports, before a wait in this mode begins, that it would have no end by itself,
// and returns whether it did. That must not take long.
func (d deadlocks) foretell(ctx context.Context, mode zklock.Mode) bool {
	ctx, cancel := context.WithTimeout(ctx, searchFirst)
	defer cancel()
	return d.report(ctx, mode)
}

// report reports a deadlock, and returns whether there is one. Without a mode the wait has
// begun. A queue that cannot be read shows none.
func (d deadlocks) report(ctx context.Context, mode zklock.Mode) bool {
	held := d.table.heldNow()
	if len(held) == 0 || d.left() {
		return false
	}
	s := d.env.Session
	text, err := queue.Wait{Session: s.Info().ID, Path: d.path, Held: held, Mode: mode, Background: d.background}.Deadlock(ctx, ensemble{s})
	if err != nil || text == "" {
		return false
	}
	d.table.crier.say(d.env.Screen.Alert, text)
	return true
}
