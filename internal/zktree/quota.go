package zktree

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/zkconn"
)

// hardQuotas are the hard quotas that limit writes at and below one znode. A nil *hardQuotas has no
// quotas.
//
// A server with enforceQuota=true checks a quota against the changes that have taken effect. It
// therefore accepts a multi if each of its changes alone would be within the quota, and the same
// holds for requests in flight. hardQuotas tells the caller which writes are certain to be within
// the quota, so that all others can be sent one by one. The server then decides about each of them.
type hardQuotas struct {
	c   zkconn.Client         // client of the writes
	all map[string]*hardQuota // quotas by path on the server; the server applies only the deepest one to a znode
}

// A hardQuota is the quota of one znode and its descendants.
type hardQuota struct {
	path          string // on the server
	znodes, bytes allowance
}

// An allowance is one limit of a hardQuota.
type allowance struct {
	limit int64 // -1 for no limit
	used  int64 // as reported by the server
	left  int64 // limit, minus used, minus the writes that were counted since then
}

// has reports whether the allowance is enough for n more.
func (a allowance) has(n int64) bool { return a.limit < 0 || n <= 0 || n <= a.left }

// ignoredSince reports whether the server has accepted a write although the allowance was used up.
// before is the allowance before that write.
func (a allowance) ignoredSince(before allowance) bool {
	return a.limit >= 0 && before.used >= before.limit && a.used > a.limit && a.used != before.used
}

// readQuotas reads the hard quotas of root, of its ancestors and of its descendants. It returns nil
// if there are none. In an ensemble without quotas, it sends a single request. It ignores quotas
// that the session has no permission to read.
func readQuotas(ctx context.Context, c zkconn.Client, root string) (*hardQuotas, error) {
	absolute := c.Absolute()
	list, err := zkconn.Do(ctx, absolute, zkconn.List(zkconn.QuotaPath))
	if errors.Is(err, zkconn.NoNode) || errors.Is(err, zkconn.NoAuth) || err == nil && len(list.Names) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	q := &hardQuotas{c: c, all: map[string]*hardQuota{}}
	top := c.ServerPath(root)
	for at := path.Dir(top); at != "/"; at = path.Dir(at) {
		h := &hardQuota{path: at}
		exists, err := q.refresh(ctx, h)
		if err != nil {
			return nil, err
		}
		if exists {
			q.all[at] = h
		}
	}
	below := ServerTree(ctx, absolute, strings.TrimSuffix(zkconn.QuotaPath+top, "/"), nil).OrEmpty()
	limits, used := map[string]jute.Quota{}, map[string]jute.Quota{}
	for z, err := range below.Nodes {
		switch {
		case z == nil:
			return nil, err
		case err != nil: // unreadable
			continue
		}
		at := strings.TrimPrefix(path.Dir(z.Path), zkconn.QuotaPath)
		switch numbers, _ := jute.ParseQuota(z.Data); path.Base(z.Path) {
		case zkconn.QuotaLimits:
			limits[at] = numbers
		case zkconn.QuotaStats:
			used[at] = numbers
		}
	}
	for at := range limits {
		q.all[at] = &hardQuota{path: at}
		q.all[at].set(limits[at], used[at])
	}
	for _, h := range q.all {
		if h.znodes.limit >= 0 || h.bytes.limit >= 0 {
			return q, nil
		}
	}
	return nil, nil
}

// set sets the limits and the use of the quota, as they are stored on the server. A nil map means
// that the znode does not exist or is unreadable. The server then ignores the quota.
func (h *hardQuota) set(limits, used jute.Quota) {
	if used == nil {
		limits = nil
	}
	h.znodes = newAllowance(limits.Get("countHardLimit"), used.Get("count"))
	h.bytes = newAllowance(limits.Get("byteHardLimit"), used.Get("bytes"))
}

func newAllowance(limit, used int64) allowance { return allowance{limit, used, limit - used} }

// refresh reads the limits and the use of the quota h again, and reports whether the quota exists.
func (q *hardQuotas) refresh(ctx context.Context, h *hardQuota) (exists bool, err error) {
	p, err := q.c.Absolute().Pipe(ctx, h.path)
	if err != nil {
		return false, err
	}
	var numbers [2]jute.Quota
	var asked [2]*zkconn.Pending[zkconn.Node]
	for i, name := range []string{zkconn.QuotaLimits, zkconn.QuotaStats} {
		asked[i] = zkconn.Add(p, zkconn.GetData(zkconn.Join(zkconn.QuotaPath+h.path, name)))
	}
	for i := range asked {
		n, err := asked[i].Wait(ctx)
		switch {
		case err == nil:
			numbers[i], _ = jute.ParseQuota(n.Data)
		case !errors.Is(err, zkconn.NoNode) && !errors.Is(err, zkconn.NoAuth):
			return false, err
		}
	}
	h.set(numbers[0], numbers[1])
	return numbers[0] != nil, nil
}

// of returns the quota that limits writes to a znode, or nil if there is none.
func (q *hardQuotas) of(znode string) *hardQuota {
	if q == nil {
		return nil
	}
	at := q.c.ServerPath(znode)
	for ; at != "/" && q.all[at] == nil; at = path.Dir(at) {
	}
	return q.all[at]
}

// A growth is the number of znodes and bytes that a change adds. It is negative for a delete.
type growth struct{ znodes, bytes int64 }

// growthOf returns the growth of a change. sizes contains the sizes of the data of existing znodes.
// If a size is missing, the growth is an upper bound.
func growthOf(c zkconn.Change, sizes map[string]int64) growth {
	size, writes := c.Writes()
	switch {
	case c.Creates():
		return growth{1, int64(size)}
	case writes:
		return growth{0, int64(size) - sizes[c.Path()]}
	case c.Deletes():
		return growth{-1, -sizes[c.Path()]}
	}
	return growth{}
}

// has reports whether the quota is enough for the growth g.
func (h *hardQuota) has(g growth) bool { return h.znodes.has(g.znodes) && h.bytes.has(g.bytes) }

// take counts a change that is about to be sent, and reports whether it is certain to be within the
// quota together with all changes that were counted since the quota was read. If not, take does not
// count it.
func (q *hardQuotas) take(c zkconn.Change) bool {
	h, g := q.of(c.Path()), growthOf(c, nil)
	switch {
	case h == nil:
		return true
	case !h.has(g):
		return false
	}
	h.znodes.left -= max(0, g.znodes)
	h.bytes.left -= max(0, g.bytes)
	return true
}

// A QuotaError reports that a multi was not sent, because it would exceed a hard quota without the
// server noticing.
type QuotaError struct {
	Path string // znode with the quota
	What string // what the quota limits, such as "znodes"

	Limit, Used int64
	Adds        int64 // how much the multi would add
}

func (e *QuotaError) Error() string {
	return fmt.Sprintf("the hard quota of %s allows %d %s; %d are used, and the transaction would add %d",
		e.Path, e.Limit, e.What, e.Used, e.Adds)
}

// Unwrap returns the error with which a server rejects a single change that exceeds a quota.
func (e *QuotaError) Unwrap() error { return &zkconn.Error{Code: zkconn.QuotaExceeded, Path: e.Path} }

// CheckQuotas returns a *QuotaError if the changes, in one multi, would exceed a hard quota that a
// server enforces only for each change alone. No request shows whether a server enforces quotas at
// all, unless its version is older than 3.7. If one of the changes alone exceeds the quota,
// CheckQuotas returns nil, because the server then decides.
func CheckQuotas(ctx context.Context, c zkconn.Client, changes []zkconn.Change) error {
	if len(changes) == 0 {
		return nil
	}
	root := changes[0].Path()
	for _, change := range changes {
		for !dump.Within(change.Path(), root) {
			root = path.Dir(root)
		}
	}
	q, err := readQuotas(ctx, c, root)
	if err != nil || q == nil {
		return err
	}
	if excess, _ := q.excess(changes, nil); excess == nil {
		return nil
	}
	sizes, err := q.sizes(ctx, changes)
	if err != nil {
		return err
	}
	excess, serverDecides := q.excess(changes, sizes)
	if excess == nil || serverDecides {
		return nil
	}
	p, err := c.Pipe(ctx, root)
	if err != nil {
		return err
	}
	if p.KnownOlder(ctx, 7) {
		return nil
	}
	return excess
}

// excess returns an error if the changes together exceed a quota. serverDecides is true if one of
// them alone exceeds a quota. sizes contains the sizes of the data of existing znodes; where one is
// missing, excess assumes that data is added and not replaced.
func (q *hardQuotas) excess(changes []zkconn.Change, sizes map[string]int64) (excess *QuotaError, serverDecides bool) {
	sizes = maps.Clone(sizes) // the changes modify it
	if sizes == nil {
		sizes = map[string]int64{}
	}
	total := map[*hardQuota]growth{}
	for _, c := range changes {
		h, g := q.of(c.Path()), growthOf(c, sizes)
		if h == nil {
			continue
		}
		if size, writes := c.Writes(); writes || c.Deletes() {
			sizes[c.Path()] = int64(size)
		}
		serverDecides = serverDecides || !h.has(g)
		total[h] = growth{total[h].znodes + g.znodes, total[h].bytes + g.bytes}
	}
	for _, at := range slices.Sorted(maps.Keys(q.all)) {
		switch h, g := q.all[at], total[q.all[at]]; {
		case !h.znodes.has(g.znodes):
			return q.errorFor(h, "znodes", h.znodes, g.znodes), serverDecides
		case !h.bytes.has(g.bytes):
			return q.errorFor(h, "bytes of data", h.bytes, g.bytes), serverDecides
		}
	}
	return nil, serverDecides
}

func (q *hardQuotas) errorFor(h *hardQuota, what string, a allowance, adds int64) *QuotaError {
	return &QuotaError{Path: q.c.ClientPath(h.path), What: what, Limit: a.limit, Used: a.used, Adds: adds}
}

// sizes returns the sizes of the data of the existing znodes that the changes write or delete, if a
// quota limits them.
func (q *hardQuotas) sizes(ctx context.Context, changes []zkconn.Change) (map[string]int64, error) {
	p, err := q.c.Pipe(ctx, changes[0].Path())
	if err != nil {
		return nil, err
	}
	sizes := map[string]int64{}
	var paths []string
	for _, c := range changes {
		_, writes := c.Writes()
		if h := q.of(c.Path()); h != nil && h.bytes.limit >= 0 && !c.Creates() && (writes || c.Deletes()) {
			paths = append(paths, c.Path())
		}
	}
	if paths == nil {
		return sizes, nil
	}
	at := 0
	err = zkconn.AddEach(p, paths, zkconn.Exists).Each(ctx, func(st *zk.Stat, refusal error) {
		if refusal == nil {
			sizes[paths[at]] = int64(st.DataLength)
		}
		at++
	})
	return sizes, interrupted(ctx, err)
}
