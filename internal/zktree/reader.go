package zktree

import (
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/zkconn"
)

// Limits on reading data ahead, in bytes. The Stat of a znode contains the size of its data, so the
// sizes are known in advance.
const (
	dataBatch = 256 << 10 // maximum total size of the data in one answer
	dataAhead = 2 << 20   // maximum total size of data that is requested but not yet yielded
)

// Nodes yields the znodes of a subtree with their data, ACLs and Stats. A znode comes before its
// descendants, and siblings are sorted by name. Nodes skips znodes that other clients delete during
// the iteration.
//
// Nodes yields an unreadable znode together with an error, and skips its descendants. Only the path
// of such a znode is certain to be set. Any other error comes last, with a nil znode.
func Nodes(ctx context.Context, src Source, root string, progress Progress) iter.Seq2[*dump.Znode, error] {
	return func(yield func(*dump.Znode, error) bool) {
		r := &nodeReader{ctx: ctx, src: src, root: root, yield: yield, progress: progress, window: window}
		if err := r.run(); err != nil && !errors.Is(err, errStopped) {
			yield(nil, err)
		}
	}
}

// A nodeReader reads the data of the znodes that a walk visits, with several requests in flight.
// The walk has already read the ACLs and Stats of these znodes.
type nodeReader struct {
	ctx      context.Context
	src      Source
	root     string
	yield    func(*dump.Znode, error) bool
	progress Progress
	done     int
	total    int

	window        int          // maximum number of batches in flight
	toAsk         []*znodeInfo // znodes whose data is to be requested
	toAskBytes    int          // estimated size of the data of these znodes, in bytes
	inFlight      []batch
	bytesInFlight int     // estimated size of the data in flight
	entries       []Entry // entries of the last answer; the next answer reuses their memory
}

// dataSize returns an estimate of the memory for an answer with the znode's data, in bytes.
func (n *znodeInfo) dataSize() int {
	size := entryOverhead
	if n.Stat != nil {
		size += int(n.Stat.DataLength)
	}
	return size
}

// A batch is a group of consecutive znodes. A single request asks for all readable znodes of a
// batch.
type batch struct {
	nodes []*znodeInfo
	asked []*znodeInfo // the readable znodes of the batch
	reply Answer       // nil if asked is empty
	bytes int          // estimated size of the znodes' data
}

func (r *nodeReader) run() error {
	w, err := Begin(r.ctx, r.src, r.root, Options{Access: true, Shut: true, Progress: func(_, total int) { r.total = total }})
	if err != nil {
		return err
	}
	for s, err := range w.Steps() {
		if err == nil && s.Kind == Enter {
			err = r.add(s.info)
		}
		if err != nil {
			return err
		}
	}
	r.askData()
	return r.drainTo(0, 0)
}

// add adds a znode that the walk has visited. When the collected znodes have enough data to fill
// one answer, add requests the data.
func (r *nodeReader) add(n *znodeInfo) error {
	n.folder = nil // do not keep the folder in memory, because it is no longer needed
	if len(r.toAsk) == listBatch || len(r.toAsk) > 0 && r.toAskBytes+n.dataSize() > dataBatch {
		r.askData()
	}
	r.toAsk = append(r.toAsk, n)
	r.toAskBytes += n.dataSize()
	return r.drainTo(r.window, dataAhead)
}

// ask requests the data or the ACLs of those nodes that are readable.
func (r *nodeReader) ask(nodes []*znodeInfo, want Want) batch {
	b := batch{nodes: nodes, asked: nodes}
	unreadable := func(n *znodeInfo) bool { return n.err != nil }
	if slices.ContainsFunc(nodes, unreadable) {
		b.asked = slices.DeleteFunc(slices.Clone(nodes), unreadable)
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

// receive waits for the answer to a batch and calls learn for each entry. If a znode no longer
// exists or is unreadable, receive stores the error in the znode's znodeInfo.
func (r *nodeReader) receive(b batch, learn func(*znodeInfo, *Entry)) error {
	if b.reply == nil {
		return nil
	}
	entries, err := b.reply.Wait(r.ctx, r.entries)
	if err != nil {
		return interrupted(r.ctx, err)
	}
	r.entries = entries
	defer clear(entries) // learn has copied the entries, so free the memory of their data
	r.window = adjustWindow(r.window, window, b.reply.Slowed())
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

func (r *nodeReader) askData() {
	b := r.ask(r.toAsk, Want{Data: true, Small: true})
	b.bytes = r.toAskBytes
	r.inFlight = append(r.inFlight, b)
	r.bytesInFlight += b.bytes
	r.toAsk, r.toAskBytes = make([]*znodeInfo, 0, len(r.toAsk)), 0
}

// drainTo yields znodes until the batches in flight are at most maxBatches, with at most maxBytes
// of data in total.
func (r *nodeReader) drainTo(maxBatches, maxBytes int) error {
	for len(r.inFlight) > maxBatches || len(r.inFlight) > 0 && r.bytesInFlight > maxBytes {
		b := r.inFlight[0]
		r.inFlight = r.inFlight[1:]
		stale := false
		err := r.receive(b, func(n *znodeInfo, e *Entry) {
			stale = stale || e.Stat != nil && n.Stat != nil && e.Stat.Aversion != n.Stat.Aversion
			n.Data, n.Stat = e.Data, e.Stat
		})
		if err == nil && stale {
			err = r.rereadACLs(b.asked)
		}
		if err != nil {
			return err
		}
		r.bytesInFlight -= b.bytes
		for _, n := range b.nodes {
			if err := r.emit(n); err != nil {
				return err
			}
		}
		r.progress.report(r.done, r.total)
	}
	return nil
}

// rereadACLs reads the ACLs of some znodes again, because another client has changed at least one
// of them.
func (r *nodeReader) rereadACLs(some []*znodeInfo) error {
	return r.receive(r.ask(some, Want{ACL: true}), func(n *znodeInfo, e *Entry) { n.ACL = e.ACL })
}

func (r *nodeReader) emit(n *znodeInfo) error {
	switch gone := errors.Is(n.err, zkconn.NoNode); {
	case gone && n.Path == r.root:
		return n.err
	case gone:
		return nil
	}
	r.done++
	if !r.yield(&n.Znode, n.err) {
		return errStopped
	}
	return nil
}

// interrupted returns the cause of ctx if err means that a request was not sent because ctx had
// ended. Otherwise, it returns err.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.As(err, new(*zkconn.UnsentError)) {
		return context.Cause(ctx)
	}
	return err
}
