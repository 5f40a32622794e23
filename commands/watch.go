package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/spf13/pflag"

	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktree"
)

var watchCommand = &Command{
	Name: "watch", Group: "Watches", Args: "[-r] [-1] [-t] path [-- command arg…]",
	Summary: "print each change to a znode, or run a command for each one",
	Help: "Each line shows the event, the path, the new version, the size of the data and the previous size. watch " +
		"opens a separate session for its watches. It runs until you press Ctrl-C, even if that session expires: " +
		"watch then opens a new one.\n\n" +
		"If several changes occur before watch can report them, watch merges them into one. It always reports the " +
		"final state, even if the znode changed while there was no connection.\n\n" +
		"If you add a command, watch runs that command for each change, one run at a time, instead of printing a " +
		"line. The command receives ZK_EVENT, ZK_PATH and ZK_VERSION as environment variables, and the data on " +
		"standard input.",
	Examples: []string{"watch -1 /app/config -- sh -c 'cat > app.conf'", "watch -r /app"},
	Params:   []Param{pathParam, {Name: "command", Kind: Data, Optional: true, Rest: true}},
	Flags: func(fs *pflag.FlagSet) Run {
		recurse := fs.BoolP("recursive", "r", false, "watch the entire subtree; needs ZooKeeper 3.6 or later")
		once := fs.BoolP("once", "1", false, "exit after the first change, with the command's exit status")
		timed := fs.BoolP("time", "t", false, "begin each line with the date and the time")
		return func(ctx context.Context, env *Env, args []string) error {
			if err := zkconn.ValidatePath(args[0], false); err != nil {
				return err
			}
			if *timed && len(args) > 1 {
				return Misuse("-t cannot be combined with a command, because it adds the time only to the lines that watch prints")
			}
			f := &follower{env: env, timed: *timed, path: args[0], recurse: *recurse, once: *once, argv: args[1:], isDue: map[string]bool{}}
			return f.follow(ctx)
		}
	},
}

// What happens to a znode, in ZooKeeper's terms.
const (
	nodeCreated = "NodeCreated"
	nodeChanged = "NodeDataChanged"
	nodeDeleted = "NodeDeleted"
)

// nodeChange is one change of a znode.
type nodeChange struct {
	Event   string `json:"event"`
	Path    string `json:"path"`
	Version int32  `json:"version"` // the last one of a znode that is gone
	Size    *int32 `json:"size"`    // nil: it is gone
	Was     *int32 `json:"was"`     // nil: it was not there
	Time    string `json:"time"`    // when it was seen

	seen time.Time // in words as well; zero: not there
}

// IsEvent is part of render.Event.
func (*nodeChange) IsEvent() {}

var _ render.Event = (*nodeChange)(nil)

// Text is one line.
func (c *nodeChange) Text(w io.Writer) error { return c.FitText(w, 0) }

// FitText is part of render.Fitter.
func (c *nodeChange) FitText(w io.Writer, columns int) error {
	line := fmt.Sprintf("%s %s version=%d", c.Event, render.OneLine(c.Path), c.Version)
	if c.Size != nil {
		line += fmt.Sprintf(" size=%d", *c.Size)
	}
	if c.Was != nil {
		line += fmt.Sprintf(" was=%d", *c.Was)
	}
	if !c.seen.IsZero() {
		line = c.seen.Format(time.DateTime) + " " + line
	}
	_, err := io.WriteString(w, render.Wrap(line, columns, "  ")+"\n")
	return err
}

// changes returns what happened to a znode between two readings. A nil Stat stands for a
// znode that does not exist.
func changes(path string, old, now *zk.Stat) []*nodeChange {
	switch {
	case old == nil && now == nil, old != nil && now != nil && old.Mzxid == now.Mzxid:
		return nil
	case old == nil:
		return []*nodeChange{{Event: nodeCreated, Path: path, Version: now.Version, Size: &now.DataLength}}
	case now == nil:
		return []*nodeChange{{Event: nodeDeleted, Path: path, Version: old.Version, Was: &old.DataLength}}
	case old.Czxid != now.Czxid:
		return append(changes(path, old, nil), changes(path, nil, now)...)
	}
	return []*nodeChange{{Event: nodeChanged, Path: path, Version: now.Version, Size: &now.DataLength, Was: &old.DataLength}}
}

// follower tells of the changes of a znode, or of a subtree. It has a session of its
// own, whose watches are nobody else's. All but the command's run belongs to one
// goroutine.
type follower struct {
	env           *Env
	path          string
	recurse, once bool
	timed         bool     // lines have the time
	argv          []string // the command; empty: changes are printed

	own   *zkconn.Session
	known map[string]*zk.Stat // as it was told last
	begun bool                // known is what there was at the start
	stale bool                // the connection is a new one: nothing is known of what has happened meanwhile
	due   []string            // paths to be read, oldest first
	isDue map[string]bool     // the same
	bytes int                 // of these paths
	ran   chan error          // receives the end of the command; nil while none runs
	lost  error               // what has become of the shell's own session meanwhile
}

// follow goes on until ctx ends, or after the first change.
func (f *follower) follow(ctx context.Context) (err error) {
	if f.own, err = f.env.Session.Second(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, Closing(ctx, f.own.Close), f.lost) }()
	if err := f.own.Ready(ctx); err != nil && !errors.Is(err, zkconn.SessionExpired) {
		return err
	}
	for {
		told, err := f.step(ctx)
		if err != nil || told && f.once {
			return err
		}
	}
}

// step does the next thing there is to do, or waits for one. told tells that a change
// has been told of, by the end of its command if there is one.
func (f *follower) step(ctx context.Context) (told bool, err error) {
	if err := f.hear(); err != nil {
		return false, err
	}
	switch {
	case f.ran != nil:
	case f.stale:
		return false, f.unlessCut(f.lookAround(ctx))
	case len(f.due) > 0:
		told, err = f.tell(ctx)
		return told, f.unlessCut(err)
	}
	select {
	case <-f.own.EventsReady():
		return false, nil
	case err := <-f.ran:
		f.ran = nil
		return true, err
	case <-ctx.Done():
		if f.ran != nil {
			<-f.ran // it has been told to end
		}
		return false, context.Cause(ctx)
	}
}

// unlessCut passes over that the connection broke: there will be another one, on which
// all is read anew.
func (f *follower) unlessCut(err error) error {
	if errors.Is(err, zkconn.ConnectionLoss) || errors.Is(err, zkconn.SessionExpired) {
		return nil
	}
	return err
}

// hear takes the events that have come.
func (f *follower) hear() error {
	for _, e := range f.own.Events() {
		switch {
		case !e.Session():
			f.read(e.Path)
		case f.own.Gone() != nil:
			return f.own.Gone()
		case e.Connected():
			f.stale = true
		}
	}
	if f.bytes > maxDue {
		return fmt.Errorf("too many changes: %d znodes below %s changed before zksh could read them; watch a smaller subtree", len(f.due), f.path)
	}
	return nil
}

// maxDue bounds the paths of the znodes that are to be read, in bytes.
const maxDue = 32 << 20

// read has a znode read when it is its turn.
func (f *follower) read(path string) {
	if !f.isDue[path] {
		f.isDue[path] = true
		f.due = append(f.due, path)
		f.bytes += len(path)
	}
}

// lookAround sets the watches of a new connection and finds by comparing what has
// changed since the last one.
func (f *follower) lookAround(ctx context.Context) error {
	f.stale = false
	if !f.begun { // the server may be behind the one that the shell's own session has written to
		if err := zkconn.Exec(ctx, f.own, zkconn.Sync(f.path)); err != nil {
			return err
		}
	}
	now, err := f.all(ctx)
	if err != nil {
		return err
	}
	if !f.begun {
		f.known, f.begun = now, true
		f.env.Screen.Note("watching " + f.path)
		return nil
	}
	both := maps.Clone(f.known)
	maps.Copy(both, now)
	for _, path := range slices.Sorted(maps.Keys(both)) {
		if len(changes(path, f.known[path], now[path])) > 0 {
			f.read(path)
		}
	}
	return nil
}

// all leaves the watches and reads all that they cover.
func (f *follower) all(ctx context.Context) (map[string]*zk.Stat, error) {
	if !f.recurse {
		st, _, err := f.get(ctx, f.path)
		if st == nil {
			return map[string]*zk.Stat{}, err
		}
		return map[string]*zk.Stat{f.path: st}, err
	}
	err := zkconn.Exec(ctx, f.own, zkconn.AddWatch(f.path, true))
	if errors.Is(err, zkconn.Unimplemented) {
		return nil, fmt.Errorf("cannot watch %s recursively: this requires ZooKeeper 3.6 or later; omit -r to watch only the znode itself", f.path)
	}
	if err != nil {
		return nil, err
	}
	return zktree.Stats(ctx, f.own.Client, f.path)
}

// get reads a znode, the data only for a command, and leaves the watch on its next
// change where no other covers it. One that is not there has no Stat.
func (f *follower) get(ctx context.Context, path string) (st *zk.Stat, data []byte, err error) {
	for len(f.argv) > 0 {
		node, err := zkconn.Do(ctx, f.own, zkconn.GetData(path).Watch(!f.recurse))
		if !errors.Is(err, zkconn.NoNode) {
			return node.Stat, node.Data, err
		}
		if err = zkconn.Exec(ctx, f.own, zkconn.Exists(path).Watch(!f.recurse)); err != nil {
			return nil, nil, ignore(err, zkconn.NoNode)
		}
	}
	st, err = zkconn.Do(ctx, f.own, zkconn.Exists(path).Watch(!f.recurse))
	if errors.Is(err, zkconn.NoAuth) {
		return nil, nil, fmt.Errorf("%w (ZooKeeper 3.8.4, 3.9.2 and later report changes only to clients with permission to read the znode)", err)
	}
	if err != nil {
		return nil, nil, ignore(err, zkconn.NoNode)
	}
	return st, nil, nil
}

// tell reads the znode whose turn it is and tells what has happened to it.
func (f *follower) tell(ctx context.Context) (told bool, err error) {
	path := f.due[0]
	f.due = f.due[1:]
	delete(f.isDue, path)
	f.bytes -= len(path)
	now, data, err := f.get(ctx, path)
	if err != nil {
		return false, err
	}
	list := changes(path, f.known[path], now)
	if delete(f.known, path); now != nil {
		f.known[path] = now
	}
	if len(list) > 0 && (f.once || len(f.argv) > 0) {
		list = list[len(list)-1:]
	}
	switch {
	case len(list) == 0:
		return false, nil
	case len(f.argv) > 0:
		f.start(ctx, list[0], data)
		return false, nil
	}
	seen := time.Now()
	for _, c := range list {
		if c.Time = render.Time(seen); f.timed {
			c.seen = seen
		}
		err := f.env.Screen.Print(c)
		if errors.Is(err, zkconn.SessionExpired) { // the shell's own has: it does not matter here, but to the lines behind this one
			f.lost, err = err, nil
		}
		if err != nil {
			return false, err
		}
	}
	return true, nil
}
