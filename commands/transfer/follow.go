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

// mirrored tells what a pass, or a change, has made of it.
type mirrored struct {
	zktree.Counts
	src, dst string
}

// IsEvent is part of render.Event.
func (mirrored) IsEvent() {}

var _ render.Event = mirrored{}

// Text is one line.
func (m mirrored) Text(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%s %s: %s\n", m.src, m.dst, changes(m.Counts))
	return err
}

func changes(n zktree.Counts) string {
	return fmt.Sprintf("%d created, %d changed, %d deleted", n.Created, n.Changed, n.Deleted)
}

// MarshalJSON is the JSON form.
func (m mirrored) MarshalJSON() ([]byte, error) {
	return render.Facts{"event", "Mirrored", "src", m.src, "dst", m.dst,
		"created", m.Created, "changed", m.Changed, "deleted", m.Deleted}.MarshalJSON()
}

// follow mirrors all, and then each change of the source, until ctx ends. Events come in
// a session of their own. After each new connection all is compared anew.
func (m *mirror) follow(ctx context.Context) (err error) {
	if m.src.tree != nil {
		return commands.Misuse("--watch needs a znode as its source, but %s is a file", m.src.word)
	}
	switch {
	case m.env.Keeper == nil:
	case m.env.Keeper.Demanded():
		return commands.Misuse("--watch cannot be combined with --undo, because mirror --watch does not save the old state")
	default:
		m.env.Screen.Note("mirror --watch does not save the old state, so undo cannot restore it")
	}
	events, err := m.src.session.Second()
	if err != nil {
		return err
	}
	defer func() {
		if closed := commands.Closing(ctx, events.Close); closed != nil {
			err = errors.Join(err, closed)
		}
	}()
	if err := events.Ready(ctx); err != nil && !errors.Is(err, zkconn.SessionExpired) {
		return m.src.wrap(err)
	}
	f := &following{mirror: m, events: events, stale: true}
	for {
		if err := f.step(ctx); err != nil || m.declined {
			return err
		}
	}
}

// following is a mirror that goes on.
type following struct {
	*mirror
	events *zkconn.Session // whose watch it is
	stale  bool            // what has happened since the last pass may not be known
	begun  bool
	due    []string // paths of the source that have changed
}

// maxSingly is how many changed znodes are looked at one by one.
const maxSingly = 500

// retryPause is how long it waits before it tries again what failed for a connection.
const retryPause = time.Second

// step does the next thing there is to do, or waits for one.
func (f *following) step(ctx context.Context) error {
	for _, e := range f.events.Events() {
		switch {
		case !e.Session():
			f.due = append(f.due, e.Path)
		case f.events.Gone() != nil:
			return f.src.wrap(f.events.Gone())
		case e.Connected():
			f.stale = true
		}
	}
	var err error
	switch {
	case f.stale || len(f.due) > maxSingly:
		err = f.all(ctx)
	case len(f.due) > 0:
		err = f.some(ctx)
	default:
		select {
		case <-f.events.EventsReady():
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		return nil
	}
	if errors.Is(err, zkconn.NoAuth) && f.begun { // what may not be read a pass tells, and goes on
		f.stale = true
		return nil
	}
	if ctx.Err() == nil && (errors.Is(err, zkconn.ConnectionLoss) || errors.Is(err, zkconn.SessionExpired)) {
		f.stale = true
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

// all leaves the watch and compares everything.
func (f *following) all(ctx context.Context) error {
	f.stale, f.due = false, nil
	err := zkconn.Exec(ctx, f.events, zkconn.AddWatch(f.src.Path, true))
	if errors.Is(err, zkconn.Unimplemented) {
		return fmt.Errorf("cannot watch %s recursively: this requires ZooKeeper 3.6 or later; omit --watch, and run mirror repeatedly instead", f.src.word)
	}
	if err != nil {
		return f.src.wrap(err)
	}
	done, err := f.pass(ctx)
	first := !f.begun
	f.begun = true
	if err := f.tell(done, err, first); err != nil {
		return err
	}
	f.sure = true // it has asked, and later it does not
	return nil
}

// tell prints what was done, if it is anything. That something was refused, or may not be
// read, ends nothing: it may be otherwise the next time.
func (f *following) tell(done zktree.Counts, err error, always bool) error {
	refused, _ := errors.AsType[*zktree.WriteError](err)
	switch {
	case refused != nil && refused.Cause == nil, refused == nil && errors.As(err, new(*zktree.UnreadError)):
		f.env.Screen.Alert(err.Error())
		f.stale = errors.Is(err, zkconn.BadVersion) || errors.Is(err, zkconn.NoNode) // somebody else was quicker
	case err != nil:
		return err
	}
	if done.Total() == 0 && !always {
		return nil
	}
	return f.env.Screen.Print(mirrored{done, f.src.word, f.dst.word})
}

// some sees to the znodes that have changed, each as it is now.
func (f *following) some(ctx context.Context) error {
	paths := f.due
	f.due = nil
	src, dst := zktree.Tree{Root: f.src.Path}, zktree.Tree{Root: f.dst.Path}
	slices.SortFunc(paths, dump.InOrder)
	var all []zktree.Difference
	for _, path := range slices.Compact(paths) {
		d := zktree.Difference{Below: src.Below(path)}
		to := dst.At(d.Below)
		if f.src.spares(path) || f.dst.spares(to) {
			continue
		}
		var err error
		if d.B, err = znode(ctx, f.events, path); err != nil {
			return f.src.wrap(err)
		}
		if d.A, err = znode(ctx, f.dst.session, to); err != nil {
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
	return f.tell(done, f.dst.wrap(err), false)
}

// znode reads one; nil is one that is not there.
func znode(ctx context.Context, s *zkconn.Session, path string) (*dump.Znode, error) {
	switch z, err := zktree.ReadOne(ctx, s.Client, path, true); {
	case err == nil:
		return z, nil
	case errors.Is(err, zkconn.NoNode):
		return nil, nil
	default:
		return nil, err
	}
}
