package lockcmd

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/zkconn"
)

// fenceName is the name of the environment variable that lists the locks under which a command
// runs, one fencedLock per line. Every zksh process that the command starts reads this list.
const fenceName = "ZK_LOCK_FENCE"

// A fence makes the server reject all writes of a session once a lock is lost. It covers the locks
// of this shell and the enclosing locks, which parent processes hold. After a lock has been
// unlocked, the fence ignores it.
//
// A lost lock blocks writes until the user unlocks it or, with zksh -k, until zksh has reported the
// loss. In a script, a lock that zksh released at another client's request blocks writes until zksh
// has reported the release.
type fence struct {
	table             *Table
	session           *zkconn.Session
	continueAfterLoss bool          // whether zksh continues after a reported loss and writes without that lock (-k)
	enclosing         []fencedLock  // the locks that parent processes hold
	identifying       chan struct{} // semaphore of capacity 1, held while inEnsemble is being computed

	mu         sync.Mutex   // guards the fields below
	known      bool         // whether knownFor and inEnsemble are set
	knownFor   zkconn.Epoch // session whose ensemble inEnsemble refers to
	inEnsemble []string     // znodes of those enclosing locks that are in the ensemble of knownFor
	dropped    []string     // znodes of the locks that the fence ignores
}

func newFence(t *Table, s *zkconn.Session, continueAfterLoss bool, enclosing []fencedLock) *fence {
	return &fence{table: t, session: s, continueAfterLoss: continueAfterLoss, enclosing: enclosing, identifying: make(chan struct{}, 1)}
}

// Fence makes the server reject all writes of session s if a lock of this shell, or an enclosing
// lock, is lost. Enclosing locks are locks that parent processes hold. If continueAfterLoss is
// set, the session may write without the lost lock as soon as the loss has been reported.
func (t *Table) Fence(s *zkconn.Session, continueAfterLoss bool) {
	t.fence = newFence(t, s, continueAfterLoss, parseFence(os.Getenv(fenceName)))
	s.SetFence(t.fence)
}

// For implements zkconn.Fence. It returns a fence for s, another session of this program. That
// fence handles the locks of this shell like those of parent processes, because s may belong to
// another ensemble.
func (f *fence) For(s *zkconn.Session) zkconn.Fence {
	enclosing := f.allLocks()
	f.table.mu.Lock()
	defer f.table.mu.Unlock()
	for _, d := range f.table.ended {
		for _, node := range d.nodes {
			enclosing = append(enclosing, fencedLock{hosts: d.stay.Servers().Hosts, node: node, home: d.stay})
		}
	}
	return newFence(f.table, s, f.continueAfterLoss, enclosing)
}

// allLocks returns the locks of this shell and the enclosing locks, except for those that the fence
// ignores.
func (f *fence) allLocks() []fencedLock {
	locks := slices.Clone(f.enclosing)
	for i := range locks {
		if locks[i].home == (zkconn.Ensemble{}) {
			locks[i].home = f.session.Ensemble()
		}
	}
	f.table.mu.Lock()
	for k, o := range f.table.locks {
		servers, cluster := k.stay.Servers(), k.stay.Cluster()
		for _, l := range o.leases {
			locks = append(locks, fencedLock{hosts: servers.Hosts, node: o.serverPath(l.Node()), cluster: cluster,
				home: k.stay, session: l.SessionID()})
		}
	}
	f.table.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.DeleteFunc(locks, func(p fencedLock) bool { return f.isDropped(p.node) })
}

// envValue returns the value of ZK_LOCK_FENCE for a command. If it returns an error together with a
// value, the value can be used, but some of its lines lack the marks that identify the ensemble.
func (f *fence) envValue(ctx context.Context) (string, error) {
	if f == nil {
		return "", nil
	}
	return fenceValue(ctx, f.allLocks())
}

// fenceValue returns the value of ZK_LOCK_FENCE for the given locks. Its error is like that of
// envValue.
func fenceValue(ctx context.Context, locks []fencedLock) (string, error) {
	locks, err := withMarks(ctx, locks)
	var lines []string
	for _, p := range locks {
		lines = append(lines, p.String())
	}
	return strings.Join(slices.Compact(slices.Sorted(slices.Values(lines))), "\n"), err
}

// Nodes implements zkconn.Fence. It returns the znodes that must still exist when the server
// carries out a write of this session.
func (f *fence) Nodes(ctx context.Context, epoch zkconn.Epoch) ([]string, error) {
	nodes, err := f.enclosingIn(ctx, epoch)
	if err != nil {
		return nil, err
	}
	t := f.table
	t.mu.Lock()
	for k, o := range t.locks {
		if k.stay == epoch.Ensemble {
			nodes = append(nodes, o.nodesOf(o.leases...)...)
		}
	}
	for _, d := range t.ended {
		if d.stay == epoch.Ensemble {
			nodes = append(nodes, d.nodes...)
		}
	}
	t.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Compact(slices.Sorted(slices.Values(slices.DeleteFunc(nodes, f.isDropped)))), nil
}

// nodesOf returns the server paths of the znodes of the given leases.
func (o *shellLock) nodesOf(leases ...*heldLease) (nodes []string) {
	for _, l := range leases {
		nodes = append(nodes, o.serverPath(l.Node()))
	}
	return nodes
}

// isDropped reports whether the fence ignores the lock that has the given znode. The caller must
// hold f.mu.
func (f *fence) isDropped(node string) bool { return slices.Contains(f.dropped, node) }

// drop makes the fence ignore the lock that has the given znode, from now on.
func (f *fence) drop(node string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.isDropped(node) {
		f.dropped = append(f.dropped, node)
	}
}

// Refused implements zkconn.Fence. It returns the error for a write that was rejected because the
// check of node, the znode of a lock, failed with the given code. The session belongs to the
// ensemble at.
func (f *fence) Refused(at zkconn.Ensemble, node string, code zkconn.Code) error {
	which, out := "the enclosing lock", ""
	t := f.table
	t.mu.Lock()
	for k, o := range t.locks {
		if k.stay == at && slices.Contains(o.nodesOf(o.leases...), node) {
			which = "the lock on " + o.path
			o.lossReported = o.lossReported || code == zkconn.NoNode
			if o.env.Mode == commands.ByHand {
				out = "; to write without the lock, run: unlock " + o.path
			}
		}
	}
	t.mu.Unlock()
	switch code {
	case zkconn.NoNode:
		return lockLost(fmt.Errorf("nothing was written: %s is lost, because the znode %s no longer exists%s%s", which, node, out, f.continueWithout(node)))
	case zkconn.NoAuth:
		return fmt.Errorf("nothing was written: zksh cannot check %s, because it has no permission to read %s; "+
			"add credentials with --auth-file, or write without the check with --no-fence", which, node)
	}
	return fmt.Errorf("nothing was written: zksh cannot check %s, because the server returned an error for the znode %s: %v", which, node, code)
}

// continueWithout makes the fence ignore the locks of the given znodes after a loss, if zksh runs
// with -k. It then returns a clause to append to the loss message. Without -k or without znodes, it
// does nothing and returns an empty string.
func (f *fence) continueWithout(nodes ...string) string {
	if f == nil || !f.continueAfterLoss || len(nodes) == 0 {
		return ""
	}
	for _, node := range nodes {
		f.drop(node)
	}
	return "; because of -k, zksh continues, and later lines write without this lock"
}
