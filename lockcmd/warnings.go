package lockcmd

import (
	"context"
	"fmt"
	"math"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/cluster"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// warnings remembers which warnings about the servers have been printed. Each is printed once per
// session.
type warnings struct {
	mu      sync.Mutex
	session int64
	printed map[string]bool // names of the warnings that were printed in this session

	probes sync.WaitGroup // questions to servers that have not been answered yet
}

// first reports whether the named warning has not yet been printed in the session, and records it
// as printed.
func (w *warnings) first(session int64, name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if session != w.session || w.printed == nil {
		w.session, w.printed = session, map[string]bool{}
	}
	before := w.printed[name]
	w.printed[name] = true
	return !before
}

// The values above which zksh warns that a counter of the servers is almost full.
const (
	highSequence = 1_900_000_000 // of math.MaxInt32
	highCounter  = 0xf0000000    // of math.MaxUint32; the lower half of a zxid
)

// warnOfBugs warns the user if the server has known bugs that break locks. It asks the server for
// its version only if standard error is a terminal. The lock never waits for the answer.
func (o *shellLock) warnOfBugs() {
	if !o.atTerminal() {
		return
	}
	o.probeZooKeeper(func(_ context.Context, s *zkconn.Pinned, version string) {
		var bugs []string
		for _, b := range cluster.BugsIn(version) {
			if b.BreaksLocks {
				bugs = append(bugs, b.String())
			}
		}
		if len(bugs) > 0 && o.table.warnings.first(s.ID(), "bugs") {
			o.warn(fmt.Sprintf("the server runs ZooKeeper %s, which can break locks: %s. Upgrade the servers; see help servers", version, strings.Join(bugs, ". ")))
		}
	})
}

// warnOfCounters warns the user if a lease shows that a counter of the servers is almost full:
// the sequence number of its znode, or the zxid of the transaction that created the znode.
func (o *shellLock) warnOfCounters(l lease) {
	if text := sequenceWarning(o.path, l.Node()); text != "" && o.table.warnings.first(l.SessionID(), "sequence number of "+o.key.path) {
		o.warn(text)
	}
	if uint32(l.Token()) > highCounter && o.atTerminal() {
		o.warnOfElection(l.Token())
	}
}

// sequenceWarning returns a warning if the sequence number of a znode of the lock at dir is close
// to the maximum or has reached it. Otherwise, it returns an empty string.
func sequenceWarning(dir, node string) string {
	n, ok := zklock.ParseName(path.Base(node))
	full := n.Number < 0 || n.Number == math.MaxInt32
	if !ok || n.Number == zklock.NoNumber || !full && n.Number <= highSequence {
		return ""
	}
	reached := fmt.Sprintf("have reached %d of at most %d", n.Number, math.MaxInt32)
	if full {
		reached = fmt.Sprintf("have reached their maximum, %d", math.MaxInt32)
	}
	return fmt.Sprintf("lock %s: the sequence numbers of its znodes %s. At the maximum, they stop growing: zksh still keeps the order, but two of "+
		"the other clients may hold the lock at once. To start again at 0, delete the path while no client uses the lock: delete %s", dir, reached, commands.Quote(dir))
}

// warnOfElection warns the user that the servers must soon elect a new leader, because the
// transaction counter in the zxid is almost full. It does not warn about a standalone server,
// which never elects a leader, or about other products, which count differently. A standalone
// server of ZooKeeper 3.4 looks like an ensemble, so the warning may be wrong for such a server.
func (o *shellLock) warnOfElection(zxid int64) {
	o.probeZooKeeper(func(ctx context.Context, s *zkconn.Pinned, _ string) {
		if alone, err := s.Standalone(ctx); err != nil || alone || !o.table.warnings.first(s.ID(), "zxid") {
			return
		}
		o.warn(fmt.Sprintf("the leader has used %.0f %% of its transaction ids (zxid %s). When the lower half of the zxid reaches 0xffffffff, the servers elect "+
			"a new leader, and all clients are disconnected for a moment. To choose that moment yourself, restart the leader", 100*float64(uint32(zxid))/math.MaxUint32, render.Hex(zxid)))
	})
}

// probeZooKeeper calls ask like probe, with the current session and the version of its server. It
// does not call ask if the server belongs to another product or its version cannot be read.
func (o *shellLock) probeZooKeeper(ask func(ctx context.Context, s *zkconn.Pinned, version string)) {
	o.table.probe(func(ctx context.Context) {
		s, err := o.key.stay.Pin(ctx)
		if err != nil {
			return
		}
		if v, err := s.Version(ctx); err == nil && v.ZooKeeper() {
			ask(ctx, s, v.Number)
		}
	})
}

// warn prints a warning, unless the shell is quiet.
func (o *shellLock) warn(text string) { o.table.notifier.notify(o.env.Screen.Note, text) }

// atTerminal reports whether standard error is a terminal.
func (o *shellLock) atTerminal() bool {
	columns, _ := o.env.Screen.Region(commands.Remarks).Size()
	return columns > 0
}

// probeTimeout is how long a probe may take.
const probeTimeout = time.Second

// probe calls ask, which may send requests to the servers, in a goroutine. The context of ask
// ends after probeTimeout. Release waits for ask. If the shell is exiting, probe does nothing.
func (t *Table) probe(ask func(ctx context.Context)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ending {
		return
	}
	t.warnings.probes.Go(func() {
		ctx, cancel := context.WithTimeout(t.background, probeTimeout)
		defer cancel()
		ask(ctx)
	})
}
