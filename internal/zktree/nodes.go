package zktree

import (
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/zkconn"
)

// Bounds of the data that is read ahead. How much a znode has is known before it is
// asked for, by its Stat.
const (
	dataBatch = 256 << 10 // bytes of data in one answer
	dataAhead = 2 << 20   // bytes of data asked for and not yet given out
)

// Nodes are the znodes of a subtree with data, ACL and Stat: each before what is below
// it, siblings by name. What vanishes meanwhile is left out. One that may not be read
// comes with an error of its own, and has no more than its path for sure; what is below
// it is unknown, and the rest goes on. Any other failure comes without a znode, and last.
func Nodes(ctx context.Context, src Source, root string, progress Progress) iter.Seq2[*dump.Znode, error] {
	return func(yield func(*dump.Znode, error) bool) {
		r := &reader{ctx: ctx, src: src, root: root, yield: yield, progress: progress, window: window}
		if err := r.all(); err != nil && !errors.Is(err, errLeft) {
			yield(nil, err)
		}
	}
}

// reader reads the data of the znodes that a walk comes to, which has their ACLs and
// Stats, with requests in flight.
type reader struct {
	ctx      context.Context
	src      Source
	root     string
	yield    func(*dump.Znode, error) bool
	progress Progress
	done     int
	total    int

	window  int      // batches in flight
	sized   []*known // whose data has not been asked for
	bytes   int      // of that
	data    []batch
	flying  int     // bytes of data asked for
	entries []Entry // of the answer before; used again for each
}

// size is about what the znode's data takes.
func (n *known) size() int {
	size := entryCost
	if n.Stat != nil {
		size += int(n.Stat.DataLength)
	}
	return size
}

// batch is znodes of which some, or none, were asked for together.
type batch struct {
	of    []*known
	asked []*known
	reply Answer
	bytes int
}

func (r *reader) all() error {
	w, err := Begin(r.ctx, r.src, r.root, Options{Access: true, Shut: true, Progress: func(_, total int) { r.total = total }})
	if err != nil {
		return err
	}
	for s, err := range w.Steps() {
		if err == nil && s.Kind == Enter {
			err = r.add(s.known)
		}
		if err != nil {
			return err
		}
	}
	r.askData()
	return r.takeData(0, 0)
}

// add takes a znode that the walk has come to, and asks for the data of as many as fit
// into one answer.
func (r *reader) add(n *known) error {
	n.own = nil // the walk has done with it, and who keeps the znode is not to keep its folder
	if len(r.sized) == listBatch || len(r.sized) > 0 && r.bytes+n.size() > dataBatch {
		r.askData()
	}
	r.sized = append(r.sized, n)
	r.bytes += n.size()
	return r.takeData(r.window, dataAhead)
}

// ask asks for those that may be read, for all that is known.
func (r *reader) ask(of []*known, want Want) batch {
	b := batch{of: of, asked: of}
	shut := func(n *known) bool { return n.err != nil }
	if slices.ContainsFunc(of, shut) {
		b.asked = slices.DeleteFunc(slices.Clone(of), shut)
	}
	if len(b.asked) == 0 {
		return b
	}
	paths := make([]string, len(b.asked))
	for i, n := range b.asked {
		paths[i] = n.Path
	}
	b.reply = r.src.Ask(paths, want)
	return b
}

// take waits for the answer to a batch, and has learn note each. Refusals are the
// znode's own.
func (r *reader) take(b batch, learn func(*known, *Entry)) error {
	if b.reply == nil {
		return nil
	}
	entries, err := b.reply.Wait(r.ctx, r.entries)
	if err != nil {
		return interrupted(r.ctx, err)
	}
	r.entries = entries
	defer clear(entries) // what is learnt is kept by those who need it
	r.window = pace(r.window, window, b.reply.Slowed())
	for i := range entries {
		switch e := &entries[i]; {
		case e.Err == nil:
			learn(b.asked[i], e)
		case errors.Is(e.Err, zkconn.NoNode), errors.Is(e.Err, zkconn.NoAuth):
			b.asked[i].err = e.Err
		default:
			return e.Err
		}
	}
	return nil
}

func (r *reader) askData() {
	b := r.ask(r.sized, Want{Data: true, Small: true})
	b.bytes = r.bytes
	r.data = append(r.data, b)
	r.flying += b.bytes
	r.sized, r.bytes = make([]*known, 0, len(r.sized)), 0
}

// takeData gives out znodes until only so many batches, and bytes, are under way.
func (r *reader) takeData(batches, bytes int) error {
	for len(r.data) > batches || len(r.data) > 0 && r.flying > bytes {
		b := r.data[0]
		r.data = r.data[1:]
		stale := false
		err := r.take(b, func(n *known, e *Entry) {
			stale = stale || e.Stat != nil && n.Stat != nil && e.Stat.Aversion != n.Stat.Aversion
			n.Data, n.Stat = e.Data, e.Stat
		})
		if err == nil && stale {
			err = r.settle(b.asked)
		}
		if err != nil {
			return err
		}
		r.flying -= b.bytes
		for _, n := range b.of {
			if err := r.give(n); err != nil {
				return err
			}
		}
		r.progress.tell(r.done, r.total)
	}
	return nil
}

// settle reads the ACLs once more of znodes of which one got a new one meanwhile.
func (r *reader) settle(some []*known) error {
	return r.take(r.ask(some, Want{ACL: true}), func(n *known, e *Entry) { n.ACL = e.ACL })
}

func (r *reader) give(n *known) error {
	switch gone := errors.Is(n.err, zkconn.NoNode); {
	case gone && n.Path == r.root:
		return n.err
	case gone:
		return nil
	}
	r.done++
	if !r.yield(&n.Znode, n.err) {
		return errLeft
	}
	return nil
}

// interrupted is the cause of what was broken off: that of its context, if it is that.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.As(err, new(*zkconn.UnsentError)) {
		return context.Cause(ctx)
	}
	return err
}
