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

// heldName is the name of the environment variable that lists the znodes of all locks held by
// the command's parent processes. It contains one path per line, including the chroot. The names
// of the znodes are unique, so a name alone shows whether the lock still exists in the ensemble
// in use.
const heldName = "ZK_LOCK_HELD"

// heldByParents returns the znodes of the locks that the parent processes of this program
// hold.
func heldByParents() []string {
	return strings.FieldsFunc(os.Getenv(heldName), func(r rune) bool { return r == '\n' })
}

// heldNodesLocked returns the znodes of the locks that this shell and its parent processes hold.
// The caller must hold t.mu.
func (t *Table) heldNodesLocked() []string {
	nodes := heldByParents()
	for _, o := range t.locks {
		if node := o.status.Node; len(o.leases) > 0 && node != "" && !o.closed() {
			nodes = append(nodes, o.serverPath(node))
		}
	}
	slices.Sort(nodes)
	return nodes
}

// heldNodes returns the same znodes as heldNodesLocked, but locks t.mu itself.
func (t *Table) heldNodes() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.heldNodesLocked()
}

// serverPath returns the server path of a znode of the lock.
func (o *shellLock) serverPath(node string) string {
	return path.Join(o.key.path, strings.TrimPrefix(node, o.path))
}

// checkSelfDeadlock returns an error if the lock at dir, requested as kind k, would have to wait
// for a lock that a parent process of this program holds. If the queue cannot be read, it returns
// nil, because the attempt to acquire the lock will fail for the same reason.
func checkSelfDeadlock(ctx context.Context, env *commands.Env, k kind, dir string) error {
	below := strings.TrimSuffix(env.Session.ServerPath(dir), "/") + "/"
	above := slices.DeleteFunc(heldByParents(), func(node string) bool { return !strings.HasPrefix(node, below) })
	if len(above) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, env.Session.Info().Patience)
	defer cancel()
	q, err := queue.ReadKnown(ctx, ensemble{env.Session}, dir)
	if err != nil {
		return nil
	}
	leases := 0
	for _, node := range above {
		switch c := q.Contender(path.Base(node)); {
		case c == nil:
		case c.Excludes(k.mode):
			return fmt.Errorf("a parent process of this command already holds the lock %s (%s), so waiting for it would never end", dir, c)
		case c.Mode == zklock.Counted:
			leases++
		}
	}
	if k.leases > 0 && leases >= k.leases {
		all := "the only lease"
		if k.leases > 1 {
			all = fmt.Sprintf("all %d leases", k.leases)
		}
		return fmt.Errorf("parent processes of this command already hold %s of %s, so this wait would never end", all, dir)
	}
	return nil
}
