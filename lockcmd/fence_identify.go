package lockcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/zkconn"
)

// enclosingIn returns the znodes of those enclosing locks that are in the ensemble of this
// session. It determines them once per session.
func (f *fence) enclosingIn(ctx context.Context, epoch zkconn.Epoch) ([]string, error) {
	if len(f.enclosing) == 0 {
		return nil, nil
	}
	if nodes, known := f.cached(epoch); known {
		return nodes, nil
	}
	select {
	case f.identifying <- struct{}{}:
		defer func() { <-f.identifying }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if nodes, known := f.cached(epoch); known {
		return nodes, nil
	}
	ctx, cancel := withoutValues(ctx)
	defer cancel()
	nodes, err := f.identify(ctx, epoch)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.knownFor, f.inEnsemble, f.known = epoch, nodes, true
	return slices.Clone(nodes), nil
}

func (f *fence) cached(epoch zkconn.Epoch) (nodes []string, known bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.inEnsemble), f.known && f.knownFor == epoch
}

// withoutValues returns a context that ends together with ctx but has none of its values. The fence
// uses it for requests that identify the ensemble. Otherwise, these requests would become part of
// the transaction of the write.
func withoutValues(ctx context.Context) (context.Context, func()) {
	alone, cancel := context.WithCancelCause(context.Background())
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	return alone, func() {
		stop()
		cancel(nil)
	}
}

// identify returns the znodes of those enclosing locks that are in the ensemble of this session.
// It groups the locks by the servers that they name, and examines each group separately.
func (f *fence) identify(ctx context.Context, epoch zkconn.Epoch) (nodes []string, err error) {
	f.mu.Lock()
	enclosing := slices.DeleteFunc(slices.Clone(f.enclosing), func(p fencedLock) bool { return p.parseErr == nil && f.isDropped(p.node) })
	f.mu.Unlock()
	for _, p := range enclosing {
		if p.parseErr != nil {
			return nil, invalidLineError(p)
		}
	}
	enclosing, noMarks := withMarks(ctx, enclosing)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	name := func(p fencedLock) string { return p.servers() + p.cluster }
	slices.SortStableFunc(enclosing, func(a, b fencedLock) int { return cmp.Compare(name(a), name(b)) })
	for len(enclosing) > 0 {
		n := slices.IndexFunc(enclosing, func(p fencedLock) bool { return name(p) != name(enclosing[0]) })
		if n < 0 {
			n = len(enclosing)
		}
		here, err := f.sameEnsemble(ctx, epoch, enclosing[:n], noMarks)
		if err != nil {
			return nil, err
		}
		if here {
			for _, p := range enclosing[:n] {
				nodes = append(nodes, p.node)
			}
		}
		enclosing = enclosing[n:]
	}
	return nodes, nil
}

// invalidLineError returns the error for a line of ZK_LOCK_FENCE that cannot be parsed.
func invalidLineError(p fencedLock) error {
	return &zkconn.FencedError{Err: lockLost(fmt.Errorf("nothing was written: %s contains an invalid line: %q: %w; "+
		"to write without the check, use --no-fence", fenceName, p.line, p.parseErr))}
}

// sameEnsemble reports whether the locks, which all name the same servers, are in the ensemble of
// this session. It returns true if the session's servers overlap with the named ones, or if the
// session sees a znode that has one of the locks' marks.
//
// It returns false only with proof: the session sees no such znode, but a later query in the locks'
// own ensemble still finds one for each lock. These znodes existed all the time, so the session
// would have seen them in the same ensemble. Without this proof, sameEnsemble returns an error.
func (f *fence) sameEnsemble(ctx context.Context, epoch zkconn.Epoch, locks []fencedLock, noMarks error) (bool, error) {
	ours, hosts := epoch.Servers().Hosts, locks[0].hosts
	if zkconn.Overlap(ours, hosts) || zkconn.Overlap(addresses(ctx, epoch.LookupHost, ours), addresses(ctx, epoch.LookupHost, hosts)) {
		return true, nil
	}
	stats, err := readLatestStats(ctx, epoch, locks)
	if err != nil {
		return false, err
	}
	if slices.ContainsFunc(locks, func(p fencedLock) bool { return p.isHere(stats) }) {
		return true, nil
	}
	for _, p := range locks {
		if p.marks == nil {
			return false, unknownEnsembleError(p, cmp.Or(noMarks, errors.New("zksh knows only the names of the enclosing lock's servers, and names alone do not identify an ensemble")))
		}
	}
	missing, why := f.findMarks(ctx, locks)
	switch {
	case len(missing) == 0:
		return false, nil
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	}
	return false, unknownEnsembleError(missing[0], why)
}

// unknownEnsembleError returns the error for a write that zksh does not send, because it cannot
// find out whether the session is in the ensemble of the enclosing lock p. why is the reason.
func unknownEnsembleError(p fencedLock, why error) error {
	return &zkconn.FencedError{Err: lockLost(fmt.Errorf("nothing was written: zksh cannot tell whether this is "+
		"the ensemble of the enclosing lock (%s): %w; to write without the check, use --no-fence", p.address(), why))}
}

// findMarks queries the locks' own ensemble. For each lock, it searches for a znode that still has
// the mark recorded for it. It first uses the connections of this program, and then a new session.
// missing contains the locks without such a znode. If there are any, why is the reason.
func (f *fence) findMarks(ctx context.Context, locks []fencedLock) (missing []fencedLock, why error) {
	missing = slices.Clone(locks)
	search := func(at zkconn.Ensemble) error {
		ctx, cancel := context.WithTimeoutCause(ctx, queryTimeout, fmt.Errorf("the servers did not answer within %s", queryTimeout))
		defer cancel()
		stats, err := readLatestStats(ctx, at.Epoch(), missing)
		missing = slices.DeleteFunc(missing, func(p fencedLock) bool { return p.hasMark(stats) })
		return err
	}
	var homes []zkconn.Ensemble
	for _, p := range locks {
		if p.home != (zkconn.Ensemble{}) && !p.home.Closed() && !slices.Contains(homes, p.home) {
			homes = append(homes, p.home)
		}
	}
	for _, home := range homes {
		if why = search(home); len(missing) == 0 { // otherwise, search again in a new session below
			return nil, nil
		}
	}
	for _, spec := range slices.Compact([]string{cmp.Or(locks[0].cluster, locks[0].servers()), locks[0].servers()}) {
		other, err := f.session.Elsewhere(ctx, spec)
		if err == nil {
			err = search(other.Ensemble())
			_ = commands.CleanUp(ctx, other.Close) // if this fails, the server expires the session
		}
		if len(missing) == 0 {
			return nil, nil
		}
		why = err
	}
	return missing, cmp.Or(why, errors.New("the path of the enclosing lock was deleted, together with all of its parents"))
}

// queryTimeout is the time limit for each attempt to query a lock's ensemble.
const queryTimeout = 10 * time.Second

// readLatestStats is like readStats, but returns the latest state. The session's server may lag
// behind the leader, so readLatestStats first commits an empty transaction.
func readLatestStats(ctx context.Context, epoch zkconn.Epoch, locks []fencedLock) (map[string]*zk.Stat, error) {
	if err := epoch.Barrier(ctx); err != nil {
		return nil, err
	}
	return readStats(ctx, epoch, locks)
}

// lookupTimeout is the time limit for resolving the names of servers. If they cannot be resolved
// in time, zksh identifies the ensemble by the marks of its znodes instead.
const lookupTimeout = 2 * time.Second

// addresses resolves hosts with the function lookup, and returns their numeric addresses as host:port. It skips hosts that
// cannot be resolved.
func addresses(ctx context.Context, lookup func(context.Context, string) ([]string, error), hosts []string) (all []string) {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	for _, h := range hosts {
		host, port, err := net.SplitHostPort(h)
		if err != nil {
			continue
		}
		numbers, err := lookup(ctx, host)
		if err != nil {
			continue
		}
		for _, n := range numbers {
			all = append(all, net.JoinHostPort(n, port))
		}
	}
	return all
}
