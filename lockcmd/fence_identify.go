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

// aboveAt returns the znodes of the enclosing locks that are in the ensemble of a session.
// It identifies the ensemble once for each session.
func (f *fence) aboveAt(ctx context.Context, at zkconn.Epoch) ([]string, error) {
	if len(f.above) == 0 {
		return nil, nil
	}
	if own, known := f.foundOut(at); known {
		return own, nil
	}
	select {
	case f.deciding <- struct{}{}:
		defer func() { <-f.deciding }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if own, known := f.foundOut(at); known {
		return own, nil
	}
	ctx, cancel := bare(ctx)
	defer cancel()
	own, err := f.findOut(ctx, at)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at, f.own, f.known = at, own, true
	return slices.Clone(own), nil
}

func (f *fence) foundOut(at zkconn.Epoch) (own []string, known bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.own), f.known && f.at == at
}

// bare returns a context that ends with ctx but carries none of its values: the requests that
// identify the ensemble must not join the write's transaction or count as part of it.
func bare(ctx context.Context) (context.Context, func()) {
	alone, cancel := context.WithCancelCause(context.Background())
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	return alone, func() {
		stop()
		cancel(nil)
	}
}

// findOut does the work of aboveAt, for each list of servers in turn.
func (f *fence) findOut(ctx context.Context, at zkconn.Epoch) (own []string, err error) {
	f.mu.Lock()
	above := slices.DeleteFunc(slices.Clone(f.above), func(p post) bool { return p.fault == nil && f.without(p.node) })
	f.mu.Unlock()
	for _, p := range above {
		if p.fault != nil {
			return nil, unfit(p)
		}
	}
	above, noMarks := withMarks(ctx, above)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	name := func(p post) string { return p.servers() + p.cluster }
	slices.SortStableFunc(above, func(a, b post) int { return cmp.Compare(name(a), name(b)) })
	for len(above) > 0 {
		n := slices.IndexFunc(above, func(p post) bool { return name(p) != name(above[0]) })
		if n < 0 {
			n = len(above)
		}
		here, err := f.here(ctx, at, above[:n], noMarks)
		if err != nil {
			return nil, err
		}
		if here {
			for _, p := range above[:n] {
				own = append(own, p.node)
			}
		}
		above = above[n:]
	}
	return own, nil
}

// unfit returns the error for a line that cannot be parsed.
func unfit(p post) error {
	return &zkconn.FencedError{Err: lockLost(fmt.Errorf("nothing was written: %s contains an invalid line: %q: %w; "+
		"to write without the check, use --no-fence", fenceName, p.line, p.fault))}
}

// here reports whether the locks of posts, which all name the same servers, are in the
// ensemble of a session. It returns true if the session names one of these servers, or if a
// marked znode is there. It returns false only with proof: the session's ensemble has no
// marked znode, and afterwards each lock's ensemble still has one. Such a znode was there all
// the time, so in the same ensemble the session would have seen it. Otherwise here returns
// an error.
func (f *fence) here(ctx context.Context, at zkconn.Epoch, posts []post, noMarks error) (bool, error) {
	ours, hosts := at.Servers().Hosts, posts[0].hosts
	if zkconn.Overlap(ours, hosts) || zkconn.Overlap(addresses(ctx, ours), addresses(ctx, hosts)) {
		return true, nil
	}
	stats, err := latest(ctx, at, posts)
	if err != nil {
		return false, err
	}
	if slices.ContainsFunc(posts, func(p post) bool { return p.there(stats) }) {
		return true, nil
	}
	for _, p := range posts {
		if p.marks == nil {
			return false, unknown(p, cmp.Or(noMarks, errors.New("zksh knows only the names of the enclosing lock's servers, and names alone do not identify an ensemble")))
		}
	}
	left, why := f.unseen(ctx, posts)
	switch {
	case len(left) == 0:
		return false, nil
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	}
	return false, unknown(left[0], why)
}

// unknown returns the error for a write that may go to the ensemble of a lock.
func unknown(p post, why error) error {
	return &zkconn.FencedError{Err: lockLost(fmt.Errorf("nothing was written: zksh cannot tell whether this is "+
		"the ensemble of the enclosing lock (%s): %w; to write without the check, use --no-fence", p.place(), why))}
}

// unseen looks for a marked znode of each post in the lock's ensemble, first through the
// connections of this program, then in a session of its own. It returns the posts of which
// it saw none, and why.
func (f *fence) unseen(ctx context.Context, posts []post) (left []post, why error) {
	left = slices.Clone(posts)
	see := func(at zkconn.Ensemble) error {
		ctx, cancel := context.WithTimeoutCause(ctx, visitTimeout, fmt.Errorf("the servers did not answer within %s", visitTimeout))
		defer cancel()
		stats, err := latest(ctx, at.Epoch(), left)
		left = slices.DeleteFunc(left, func(p post) bool { return p.marked(stats) })
		return err
	}
	var homes []zkconn.Ensemble
	for _, p := range posts {
		if p.home != (zkconn.Ensemble{}) && !p.home.Closed() && !slices.Contains(homes, p.home) {
			homes = append(homes, p.home)
		}
	}
	for _, home := range homes {
		if why = see(home); len(left) == 0 { // else the visit below decides
			return nil, nil
		}
	}
	for _, spec := range slices.Compact([]string{cmp.Or(posts[0].cluster, posts[0].servers()), posts[0].servers()}) {
		other, err := f.session.Elsewhere(spec)
		if err == nil {
			err = see(other.Ensemble())
			_ = commands.Closing(ctx, other.Close) // the server ends it later, if it has to
		}
		if len(left) == 0 {
			return nil, nil
		}
		why = err
	}
	return left, cmp.Or(why, errors.New("the path of the enclosing lock was deleted, together with all of its parents"))
}

// visitTimeout bounds each attempt to ask a lock's ensemble.
const visitTimeout = 10 * time.Second

// latest is gather behind a barrier: the session's server may lag behind.
func latest(ctx context.Context, at zkconn.Epoch, posts []post) (map[string]*zk.Stat, error) {
	if err := at.Barrier(ctx); err != nil {
		return nil, err
	}
	return gather(ctx, at, posts)
}

// lookupTimeout bounds how long names are looked up. What a server is not known by then,
// its znodes tell.
const lookupTimeout = 2 * time.Second

// addresses are the numbers behind the names of servers, of those that can be looked up.
func addresses(ctx context.Context, hosts []string) (all []string) {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	for _, h := range hosts {
		host, port, err := net.SplitHostPort(h)
		if err != nil {
			continue
		}
		numbers, err := net.DefaultResolver.LookupHost(ctx, host)
		if err != nil {
			continue
		}
		for _, n := range numbers {
			all = append(all, net.JoinHostPort(n, port))
		}
	}
	return all
}
