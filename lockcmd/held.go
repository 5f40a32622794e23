package lockcmd

import (
	"context"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

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
