package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktree"
)

// mirrorEvent is the event that mirror --watch prints after it has mirrored the whole source or a
// change of the source.
type mirrorEvent struct {
	zktree.Counts
	src, dst string
}

// IsEvent implements render.Event.
func (mirrorEvent) IsEvent() {}

var _ render.Event = mirrorEvent{}

// Text prints the event on one line.
func (m mirrorEvent) Text(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%s %s: %s\n", m.src, m.dst, countsText(m.Counts))
	return err
}

func countsText(n zktree.Counts) string {
	return fmt.Sprintf("%d created, %d changed, %d deleted", n.Created, n.Changed, n.Deleted)
}

// MarshalJSON implements json.Marshaler.
func (m mirrorEvent) MarshalJSON() ([]byte, error) {
	return render.Facts{"event", "Mirrored", "src", m.src, "dst", m.dst,
		"created", m.Created, "changed", m.Changed, "deleted", m.Deleted}.MarshalJSON()
}

// follow mirrors the whole source, and then each change of the source, until ctx is cancelled. It
// receives the events in a separate session. After each reconnect, it compares the whole source
// with the destination again.
func (m *mirror) follow(ctx context.Context) (err error) {
	if m.src.tree != nil {
		return commands.Misuse("--watch needs a znode as its source, but %s is a file", m.src.word)
	}
	switch {
	case m.env.Saver == nil:
	case m.env.Saver.Required():
		return commands.Misuse("--watch cannot be combined with --undo, because mirror --watch does not save the old state")
	default:
		m.env.Screen.Note("mirror --watch does not save the old state, so undo cannot restore it")
	}
	events, err := m.src.session.Second()
	if err != nil {
		return err
	}
	defer func() {
		if closed := commands.CleanUp(ctx, events.Close); closed != nil {
			err = errors.Join(err, closed)
		}
	}()
	if err := events.Ready(ctx); err != nil && !errors.Is(err, zkconn.SessionExpired) {
		return m.src.wrap(err)
	}
	f := &follower{mirror: m, events: events, reconnected: true}
	for {
		if err := f.step(ctx); err != nil || m.declined {
			return err
		}
	}
}

// follower is one run of mirror --watch.
type follower struct {
	*mirror
	events      *zkconn.Session // separate session in which the watch is set
	reconnected bool            // whether events may have been missed, so that the next step compares the whole source
	firstDone   bool            // whether the first comparison of the whole source is complete
	changed     []string        // paths of changed znodes in the source that are not mirrored yet
}

// maxSingle is the largest number of changed znodes that mirror --watch mirrors one by one. If more
// have changed, it compares the whole source with the destination instead.
const maxSingle = 500

// retryPause is how long mirror --watch waits after a connection loss before it tries again.
const retryPause = time.Second

// step handles pending work or, if there is none, waits for an event.
func (f *follower) step(ctx context.Context) error {
	for _, e := range f.events.Events() {
		switch {
		case !e.Session():
			f.changed = append(f.changed, e.Path)
		case f.events.Gone() != nil:
			return f.src.wrap(f.events.Gone())
		case e.Connected():
			f.reconnected = true
		}
	}
	var err error
	switch {
	case f.reconnected || len(f.changed) > maxSingle:
		err = f.mirrorAll(ctx)
	case len(f.changed) > 0:
		err = f.mirrorChanged(ctx)
	default:
		select {
		case <-f.events.EventsReady():
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		return nil
	}
	// The next comparison of the whole source will report the unreadable znode and continue.
	if errors.Is(err, zkconn.NoAuth) && f.firstDone {
		f.reconnected = true
		return nil
	}
	if ctx.Err() == nil && (errors.Is(err, zkconn.ConnectionLoss) || errors.Is(err, zkconn.SessionExpired)) {
		f.reconnected = true
		f.env.Screen.Note("connection lost; mirror continues after reconnecting: " + err.Error())
		select {
		case <-time.After(retryPause):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return err
}

// mirrorAll sets the watch on the source. It then compares the whole source with the destination,
// and mirrors the differences.
func (f *follower) mirrorAll(ctx context.Context) error {
	f.reconnected, f.changed = false, nil
	err := zkconn.Exec(ctx, f.events, zkconn.AddWatch(f.src.Path, true))
	if errors.Is(err, zkconn.Unimplemented) {
		return fmt.Errorf("cannot watch %s recursively: this requires ZooKeeper 3.6 or later; omit --watch, and run mirror repeatedly instead", f.src.word)
	}
	if err != nil {
		return f.src.wrap(err)
	}
	done, err := f.pass(ctx)
	first := !f.firstDone
	f.firstDone = true
	if err := f.report(done, err, first); err != nil {
		return err
	}
	f.sure = true // only the first pass asks the user for confirmation
	return nil
}

// report prints the numbers of changes in done. If they are all 0, report prints them only if
// always is true. If err means that writes were rejected or znodes are unreadable, report prints
// err and returns nil, because the next attempt may succeed. It returns other errors.
func (f *follower) report(done zktree.Counts, err error, always bool) error {
	refused, _ := errors.AsType[*zktree.WriteError](err)
	switch {
	case refused != nil && refused.Cause == nil, refused == nil && errors.As(err, new(*zktree.UnreadError)):
		f.env.Screen.Alert(err.Error())
		// If another client has changed the destination, make the next step compare everything
		// again.
		f.reconnected = errors.Is(err, zkconn.BadVersion) || errors.Is(err, zkconn.NoNode)
	case err != nil:
		return err
	}
	if done.Total() == 0 && !always {
		return nil
	}
	return f.env.Screen.Print(mirrorEvent{done, f.src.word, f.dst.word})
}

// mirrorChanged copies the current state of the changed znodes to the destination.
func (f *follower) mirrorChanged(ctx context.Context) error {
	paths := f.changed
	f.changed = nil
	src, dst := zktree.Tree{Root: f.src.Path}, zktree.Tree{Root: f.dst.Path}
	slices.SortFunc(paths, dump.InOrder)
	var all []zktree.Difference
	for _, path := range slices.Compact(paths) {
		d := zktree.Difference{Below: src.Below(path)}
		to := dst.At(d.Below)
		if f.src.isReserved(path) || f.dst.isReserved(to) {
			continue
		}
		var err error
		if d.B, err = readZnode(ctx, f.events, path); err != nil {
			return f.src.wrap(err)
		}
		if d.A, err = readZnode(ctx, f.dst.session, to); err != nil {
			return f.dst.wrap(err)
		}
		if d.B == nil && d.Below == "" {
			return fmt.Errorf("the source %s was deleted, so mirror left the destination %s unchanged: %w", f.src.word, f.dst.word, zkconn.NoNode)
		}
		if d.Differs() {
			all = append(all, d)
		}
	}
	done, err := f.apply(ctx, zktree.Seq(all), nil, func() {})
	return f.report(done, f.dst.wrap(err), false)
}

// readZnode returns the current state of a znode, or nil if the znode does not exist.
func readZnode(ctx context.Context, s *zkconn.Session, path string) (*dump.Znode, error) {
	switch z, err := zktree.ReadOne(ctx, s.Client, path, true); {
	case err == nil:
		return z, nil
	case errors.Is(err, zkconn.NoNode):
		return nil, nil
	default:
		return nil, err
	}
}
