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

// Names of the events of a znode, as ZooKeeper spells them.
const (
	nodeCreated = "NodeCreated"
	nodeChanged = "NodeDataChanged"
	nodeDeleted = "NodeDeleted"
)

// nodeChange is one change of a znode, in the form in which the command watch reports it.
type nodeChange struct {
	Event   string `json:"event"`
	Path    string `json:"path"`
	Version int32  `json:"version"` // data version; if the znode was deleted, its last version
	Size    *int32 `json:"size"`    // size of the data, in bytes; nil if the znode was deleted
	Was     *int32 `json:"was"`     // previous size, in bytes; nil if the znode did not exist
	Time    string `json:"time"`    // when zksh read the change

	seen time.Time // equal to Time if the text output shows the time; otherwise zero
}

// IsEvent implements render.Event.
func (*nodeChange) IsEvent() {}

var (
	_ render.Event  = (*nodeChange)(nil)
	_ render.Fitter = (*nodeChange)(nil)
)

// Text prints the change on one line.
func (c *nodeChange) Text(w io.Writer) error { return c.FitText(w, 0) }

// FitText implements render.Fitter.
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

// changes returns the changes of a znode between two reads, given its stats at these reads. A nil
// stat means that the znode did not exist.
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

// follower reports the changes of a znode or a subtree. It has a separate session, so that the
// events of its watches do not reach the rest of the shell. A follower is not safe for concurrent
// use.
type follower struct {
	env           *Env
	path          string
	recurse, once bool
	timed         bool     // whether text output shows the time of each change
	argv          []string // command to run for each change, or empty to print the changes

	own         *zkconn.Session     // separate session that sets the watches
	known       map[string]*zk.Stat // stat of each znode when it was last reported, by path
	hasBaseline bool                // whether known contains the stats from the start of the watch
	reconnected bool                // whether events may have been missed before a reconnect
	due         []string            // paths of znodes to read again, oldest first
	isDue       map[string]bool     // set of the paths in due, to find them fast
	dueBytes    int                 // total length of the paths in due, in bytes
	exited      chan error          // receives the result of the running command; nil if none is running
	sessionErr  error               // error of the shell's own session if it has expired; otherwise nil
}

// follow reports changes until ctx is cancelled. With the flag -1, it stops after the first
// change.
func (f *follower) follow(ctx context.Context) (err error) {
	if f.own, err = f.env.Session.Second(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, CleanUp(ctx, f.own.Close), f.sessionErr) }()
	if err := f.own.Ready(ctx); err != nil && !errors.Is(err, zkconn.SessionExpired) {
		return err
	}
	for {
		reported, err := f.step(ctx)
		if err != nil || reported && f.once {
			return err
		}
	}
}

// step handles pending work or, if there is none, waits for an event. reported is true if a change
// was printed, or if the command for a change has exited.
func (f *follower) step(ctx context.Context) (reported bool, err error) {
	if err := f.handleEvents(); err != nil {
		return false, err
	}
	switch {
	case f.exited != nil:
	case f.reconnected:
		return false, f.ignoreConnectionLoss(f.resync(ctx))
	case len(f.due) > 0:
		reported, err = f.reportNext(ctx)
		return reported, f.ignoreConnectionLoss(err)
	}
	select {
	case <-f.own.EventsReady():
		return false, nil
	case err := <-f.exited:
		f.exited = nil
		return true, err
	case <-ctx.Done():
		if f.exited != nil {
			<-f.exited // wait for the command, which ctx has interrupted
		}
		return false, context.Cause(ctx)
	}
}

// ignoreConnectionLoss returns nil if err is a connection loss or an expired session. After these
// errors, the follower reads all znodes again anyway. It returns other errors unchanged.
func (f *follower) ignoreConnectionLoss(err error) error {
	if errors.Is(err, zkconn.ConnectionLoss) || errors.Is(err, zkconn.SessionExpired) {
		return nil
	}
	return err
}

// handleEvents handles the events that have arrived on the follower's session.
func (f *follower) handleEvents() error {
	for _, e := range f.own.Events() {
		switch {
		case !e.Session():
			f.markDue(e.Path)
		case f.own.Gone() != nil:
			return f.own.Gone()
		case e.Connected():
			f.reconnected = true
		}
	}
	if f.dueBytes > maxDueBytes {
		return fmt.Errorf("too many changes: %d znodes below %s changed before zksh could read them; watch a smaller subtree", len(f.due), f.path)
	}
	return nil
}

// maxDueBytes is the maximum total length of the paths in follower.due, in bytes.
const maxDueBytes = 32 << 20

// markDue adds a path to due, unless due already contains it.
func (f *follower) markDue(path string) {
	if !f.isDue[path] {
		f.isDue[path] = true
		f.due = append(f.due, path)
		f.dueBytes += len(path)
	}
}

// resync sets the watches again after a reconnect. It then finds the changes that happened in the
// meantime, by comparing the znodes with their known stats.
func (f *follower) resync(ctx context.Context) error {
	f.reconnected = false
	// Wait until the server of this session has caught up, because it may lag behind the server of
	// the shell's own session.
	if !f.hasBaseline {
		if err := zkconn.Exec(ctx, f.own, zkconn.Sync(f.path)); err != nil {
			return err
		}
	}
	now, err := f.readAll(ctx)
	if err != nil {
		return err
	}
	if !f.hasBaseline {
		f.known, f.hasBaseline = now, true
		f.env.Screen.Note("watching " + f.path)
		return nil
	}
	both := maps.Clone(f.known)
	maps.Copy(both, now)
	for _, path := range slices.Sorted(maps.Keys(both)) {
		if len(changes(path, f.known[path], now[path])) > 0 {
			f.markDue(path)
		}
	}
	return nil
}

// readAll sets the watches, and returns the stats of all znodes that the watches cover, by path.
func (f *follower) readAll(ctx context.Context) (map[string]*zk.Stat, error) {
	if !f.recurse {
		st, _, err := f.readOne(ctx, f.path)
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

// readOne returns a znode's stat, which is nil if the znode does not exist, and its data if there
// is a command to run. Unless a recursive watch covers the znode, readOne also sets a watch for its
// next change.
func (f *follower) readOne(ctx context.Context, path string) (st *zk.Stat, data []byte, err error) {
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

// reportNext reads the znode at the oldest path in due and reports its changes.
func (f *follower) reportNext(ctx context.Context) (reported bool, err error) {
	path := f.due[0]
	f.due = f.due[1:]
	delete(f.isDue, path)
	f.dueBytes -= len(path)
	now, data, err := f.readOne(ctx, path)
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
		// The shell's own session has expired. watch continues in its separate session, but later
		// lines of a script cannot.
		if errors.Is(err, zkconn.SessionExpired) {
			f.sessionErr, err = err, nil
		}
		if err != nil {
			return false, err
		}
	}
	return true, nil
}
