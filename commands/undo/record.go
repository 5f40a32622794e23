package undo

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"path"
	"slices"
	"sync"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktree"
)

// A Recorder records what commands change, in the user's undo log or in a file. In the log, all
// commands of one line are one operation.
type Recorder struct {
	backend backend
	log     Log                    // settings of the undo log; empty for a file
	inQueue func(name string) bool // reports whether a znode with this name belongs to a lock queue

	mu      sync.Mutex
	last    *operation   // latest operation, or nil
	all     []*operation // operations that have changed something
	unsaved string       // latest change, if it was not recorded; otherwise empty
}

var _ commands.Recorder = (*Recorder)(nil)

// backend is the place in which a Recorder stores operations: the undo log or a file.
type backend interface {
	begin() (draft, error)
	update(e *entry) error // stores the entry of an operation again
	remove(n int) error    // removes an operation that has changed nothing
	forImport() bool       // reports whether import reads the old states, which must then be complete
}

// draft is the storage of an operation.
type draft interface {
	Write(p []byte) (int, error) // appends to the dump of old states
	note(lines []byte) error     // appends to the list of edits
	commit(e *entry) error       // stores on disk what was written
	abort() error                // removes what was written since the last commit
	close() error
}

// operation is an operation that is being recorded.
type operation struct {
	entry
	draft draft
	line  string // Env.Line of its commands
	deed  deed   // what the latest edit does
	tally
}

// tally counts the edits of an operation.
type tally struct {
	edits  int // edits so far
	images int // old states in the dump
	maybe  int // edits with an unknown outcome
}

// Unrecorded implements commands.Recorder.
func (r *Recorder) Unrecorded(change string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unsaved = change
}

// Required implements commands.Recorder. It returns true for --undo FILE, because the user relies on
// the file.
func (r *Recorder) Required() bool { return r.backend.forImport() }

// Record implements commands.Recorder.
func (r *Recorder) Record(
	ctx context.Context, env *commands.Env, command, path string, change commands.Change,
) error {
	return r.record(ctx, &recording{env: env, command: command, path: path}, change)
}

// record calls change, and records what it changes with c.
func (r *Recorder) record(ctx context.Context, c *recording, change commands.Change) error {
	ends := r.log.Ending != "" && slices.Equal(c.env.Session.Servers().Hosts, []string{r.log.Ending})
	if ends && c.env.Mode == commands.OneShot {
		return change(ctx, nil)
	}
	c.r, c.unread.Root = r, c.path
	err := change(ctx, c)
	if errors.As(err, new(*zktree.UnrecordedError)) {
		c.env.Screen.Alert(fmt.Sprintf("nothing was done, because zksh was still saving %s for undo", c.path))
	}
	if failed := c.end(); failed != nil {
		c.env.Screen.Note(fmt.Sprintf("cannot update the undo log: %s", failed))
	}
	return err
}

// recording records one command. It implements zktree.Recorder.
type recording struct {
	r       *Recorder
	env     *commands.Env
	command string
	path    string
	undoes  int // number of the operation that the command undoes, or 0

	op      *operation // nil until something is recorded
	isNew   bool       // whether this command has begun the operation
	start   operation  // the operation before this command, without what the draft contains
	open    int        // recorded edits without a result
	changed int        // edits that were made
	results []event

	going   bool               // whether edits may have been sent
	agreed  bool               // whether the user agrees that some znodes cannot be saved
	gaveUp  bool               // whether the command goes on although nothing more is recorded
	existed int                // existing znodes that the command was about to change
	only    *zktree.Edit       // the only edit of the command, or nil if there may be several
	unread  zktree.UnreadError // znodes that could not be saved
}

var _ zktree.Recorder = (*recording)(nil)

// Before implements zktree.Recorder. If an old state cannot be saved, the command continues only as
// described in proceedUnsaved.
func (c *recording) Before(ctx context.Context, images iter.Seq2[*zktree.Image, error]) error {
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	if c.gaveUp {
		return nil
	}
	var was operation
	if c.op != nil {
		was = *c.op
	}
	unread, open := c.unread.N, c.open
	fatal, err := c.save(images)
	if fatal == nil && err == nil && c.unread.N > unread && !c.agreed {
		fatal = c.proceedUnsaved(ctx, &c.unread)
		c.agreed = fatal == nil
	}
	if fatal == nil && err == nil && c.op != nil {
		err = c.op.commit(c.r.backend)
	}
	if fatal == nil && err == nil {
		c.going = true
		return nil
	}
	c.open = open
	if c.op != nil {
		err = errors.Join(err, c.op.draft.abort())
		if was.draft == nil && c.isNew { // nothing of this operation is stored
			c.r.last, c.op, c.isNew = nil, nil, false
		} else {
			if was.draft == nil {
				was = c.start
			}
			c.op.entry, c.op.tally = was.entry, was.tally
		}
	}
	if fatal == nil && c.existed > 0 { // otherwise, nothing is lost
		fatal = c.proceedUnsaved(ctx, err)
		c.gaveUp = fatal == nil
	}
	if fatal == nil {
		c.going, c.r.unsaved = true, c.command+" "+c.path
	}
	return fatal
}

// commit stores on disk what was recorded.
func (op *operation) commit(b backend) error {
	ended := op.State == done
	op.State = begun
	err := op.draft.commit(&op.entry)
	if err == nil && ended { // by an earlier command of the line
		err = b.update(&op.entry)
	}
	return err
}

// save records edits, and the states of their znodes. fatal is an error of reading the znodes.
func (c *recording) save(images iter.Seq2[*zktree.Image, error]) (fatal, err error) {
	update, endProgress := c.env.Screen.Progress("saved")
	defer endProgress()
	var w *writer
	defer func() {
		if w != nil && (fatal != nil || err != nil) { // make the dump.Writer stop writing to the draft
			err = errors.Join(err, w.abort())
		}
	}()
	for image, failed := range images {
		if failed != nil {
			return failed, nil
		}
		z := image.Znode
		if z == nil && c.r.backend.forImport() {
			continue
		}
		if z != nil {
			if c.existed++; image.Alone {
				c.only = image.Edit
			}
			update(c.existed, c.existed)
		}
		if c.op == nil {
			if err := c.begin(); err != nil {
				return nil, err
			}
		}
		if w == nil {
			w = &writer{op: c.op, server: c.env.Session.Servers().Spec}
		}
		ev := newEvent(image)
		switch {
		case z == nil: // there is no old state
		case image.Does == zktree.Deletes && c.isQueued(z):
			ev.Queued = true
		case c.savable(image):
			ev.image = z
		}
		if c.undoes != 0 && image.New != nil && image.New.Stat != nil {
			ev.Restores = versionsOf(image.New.Stat)
		}
		c.op.deed = ev.Does
		c.op.edits++
		image.Number = c.op.edits
		c.open++
		if err := w.add(ev); err != nil {
			return nil, err
		}
	}
	if w == nil {
		return nil, nil
	}
	return nil, w.close(c.unread.N)
}

// savable reports whether the state of a znode can be saved, and changes it to what is to be saved. It
// counts the ephemeral znodes.
func (c *recording) savable(image *zktree.Image) bool {
	z, hidden := image.Znode, slices.ContainsFunc(image.Znode.ACL, zkconn.Masked)
	switch {
	case hidden && image.Does == zktree.Sets: // undo must not create the znode again with another ACL
		z.ACL = nil
	case image.Err == nil:
	case image.Does == zktree.Sets, image.Does == zktree.Deletes, z.ACL == nil, hidden, c.r.backend.forImport():
		c.unread.Add(image.Err)
		return false
	}
	if image.Does == zktree.Deletes && z.Kind == dump.Ephemeral {
		c.op.Ephemeral++
	}
	return true
}

// isQueued reports whether a znode, or one of its ancestors up to the path of the command, belongs to a
// lock queue, and is not ephemeral. It counts those of which no ancestor does.
func (c *recording) isQueued(z *dump.Znode) bool {
	if z.Kind == dump.Ephemeral {
		return false
	}
	top := "" // the topmost one
	for up := z.Path; up != ""; up = dump.Parent(up) {
		if c.r.inQueue(path.Base(up)) {
			top = up
		}
		if up == c.path {
			break
		}
	}
	if top == z.Path {
		c.op.Queued++
	}
	return top != ""
}

// begin begins an operation, unless an earlier command of the same line has begun one.
func (c *recording) begin() error {
	servers, r := c.env.Session.Servers(), c.r
	if last := r.last; last != nil && c.env.Line != "" && last.line == c.env.Line && !r.backend.forImport() &&
		slices.Equal(last.Servers, servers.Hosts) && last.Chroot == servers.Chroot {
		c.op = last
	} else {
		if last != nil {
			if err := last.draft.close(); err != nil {
				return err
			}
			r.last = nil
		}
		d, err := r.backend.begin()
		if err != nil {
			return err
		}
		by := r.log.By
		by.Script = c.env.Script
		c.isNew = true
		c.op = &operation{draft: d, line: c.env.Line, entry: entry{
			Command: c.command, Path: c.path, Undoes: c.undoes, Servers: servers.Hosts, Chroot: servers.Chroot,
			Cluster: c.env.Session.Cluster(), Time: time.Now(), By: &by,
		}}
		r.last = c.op
	}
	c.start = *c.op
	return nil
}

// After implements zktree.Recorder.
func (c *recording) After(e *zktree.Edit, result zktree.Result) {
	if e.Number == 0 { // it is not recorded (Before may be running), or its result is known
		return
	}
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	if c.op == nil || e.Number > c.op.edits { // recording it has failed
		return
	}
	ev := event{From: e.Number, To: e.Number, Made: &result.Made, Czxid: result.Czxid}
	if result.Made && result.Path != e.Path {
		ev.Path = result.Path
	}
	e.Number = 0
	c.open--
	if result.Made {
		c.changed++
		c.op.Seen = max(c.op.Seen, result.Czxid)
		if e.Does == zktree.Creates {
			c.op.Created++
		}
	}
	if last := len(c.results) - 1; last < 0 || !c.results[last].extend(ev) {
		c.results = append(c.results, ev)
	}
}

// end records the outcome of the command. If it has changed nothing, end removes what it recorded.
func (c *recording) end() error {
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	op := c.op
	switch {
	case op == nil:
		return nil
	case c.changed+c.open == 0 && c.isNew:
		c.r.last = nil
		return errors.Join(op.draft.close(), c.r.backend.remove(op.N))
	}
	var lines bytes.Buffer
	for _, ev := range c.results {
		if err := ev.write(&lines); err != nil {
			return err
		}
	}
	err := op.draft.note(lines.Bytes())
	if op.maybe += c.open; op.maybe == 0 {
		op.State = done
	}
	if c.changed+c.open == 0 {
		op.entry.counts = c.start.counts
	} else {
		c.r.unsaved = ""
		if c.isNew {
			c.r.all = append(c.r.all, op)
		} else {
			op.Last = c.command + " " + c.path
		}
	}
	return errors.Join(err, c.r.backend.update(&op.entry))
}

// proceedUnsaved returns an error unless the command may continue without a complete copy. At the
// prompt, it asks the user. A single command typed in a shell such as bash continues, because no
// user can be asked. With --undo FILE, the command fails.
func (c *recording) proceedUnsaved(ctx context.Context, why error) error {
	what := "nothing was done"
	if c.going {
		what = "the rest was not done"
	}
	switch {
	case c.r.Required():
		return fmt.Errorf("%s, because zksh cannot save the whole subtree %s: %w", what, c.path, why)
	case c.env.Mode != commands.ByHand:
		c.env.Screen.Alert(c.unsavedText(why) + "; continuing anyway")
		return nil
	}
	if err := c.wouldFail(ctx); err != nil {
		return err
	}
	err := c.env.AskToContinue(ctx, c.unsavedText(why))
	if err != nil && c.going {
		err = fmt.Errorf("the rest was not done: %w", err)
	}
	return err
}

// unsavedText returns a message about the data that cannot be saved, and the reason.
func (c *recording) unsavedText(why error) string {
	if c.only != nil && c.unread.N > 0 && errors.Is(why, zkconn.NoAuth) {
		return fmt.Sprintf("no permission to read %s, so undo will not be able to restore it", c.path)
	}
	return fmt.Sprintf("zksh cannot save the whole subtree %s for undo: %s", c.path, why)
}

// wouldFail returns the error with which the server would reject the command, so that zksh does not
// ask the user about a command that would fail. It returns nil if the command may succeed, or if it
// cannot find out.
//
// To find out without changing anything, wouldFail sends the only edit of the command in a transaction
// that always fails, because it also creates the root znode, which exists.
func (c *recording) wouldFail(ctx context.Context) error {
	if c.only == nil || c.path == "/" {
		return nil
	}
	version := int32(-1)
	if old := c.only.Old; old != nil && old.Stat != nil {
		version = old.Stat.Version
	}
	var change zkconn.Change
	switch c.only.Does {
	case zktree.Sets:
		change = zkconn.NewData(c.only.Path, c.only.New.Data, version)
	case zktree.Deletes:
		change = zkconn.Removal(c.only.Path, version)
	default:
		return nil
	}
	exists := zkconn.Creation("/", nil, zkconn.OpenACL(), zkconn.CreateMode{})
	_, err := c.env.Session.Multi(ctx, []zkconn.Change{change, exists})
	refusal, refused := errors.AsType[*zkconn.Error](err)
	if !refused || refusal.Path != c.only.Path || !slices.Contains(rejections, refusal.Code) {
		return nil
	}
	return refusal
}

// rejections lists the error codes with which a server can reject a set or a delete.
var rejections = []zkconn.Code{zkconn.NoAuth, zkconn.NoNode, zkconn.NotEmpty, zkconn.BadVersion}

// A writer writes the edits of an operation and the old states of their znodes to a draft. The states
// are dumps, one after the other: each contains znodes whose parents precede them.
type writer struct {
	op     *operation
	server string
	dump   *dump.Writer // nil if none has begun
	way    []string     // paths of the latest znode in the dump and of its ancestors in the dump
	events []event      // events that are not written yet
	size   int          // size of the data in events, in bytes
}

// Limits on the events that a writer holds before it sorts and writes them.
const (
	maxEvents    = 1000
	maxEventData = 1 << 20 // in bytes
)

// add adds an edit with the old state of its znode.
func (w *writer) add(ev event) error {
	ev.number = w.op.edits
	w.events = append(w.events, ev)
	if ev.image != nil {
		w.size += len(ev.image.Data)
	}
	if len(w.events) < maxEvents && w.size < maxEventData {
		return nil
	}
	return w.flush()
}

// flush writes the events in the order of their paths, so that few dumps are needed.
func (w *writer) flush() error {
	sorted := slices.Clone(w.events)
	slices.SortStableFunc(sorted, func(a, b event) int { return dump.InOrder(a.Path, b.Path) })
	numbers := map[int]int{}
	for _, ev := range sorted {
		if z := ev.image; z != nil {
			if err := w.znode(z); err != nil {
				return err
			}
			w.op.images++
			numbers[ev.number] = w.op.images
			if st := z.Stat; st != nil {
				w.op.Seen = max(w.op.Seen, st.Czxid, st.Mzxid, st.Pzxid)
			}
			w.op.Znodes++
			w.op.Data += int64(len(z.Data))
		}
	}
	var lines bytes.Buffer
	for _, ev := range w.events {
		ev.Image = numbers[ev.number]
		if err := ev.write(&lines); err != nil {
			return err
		}
	}
	w.events, w.size = nil, 0
	return w.op.draft.note(lines.Bytes())
}

// znode writes a znode to the dump. If its parent is not in the dump, it begins another one.
func (w *writer) znode(z *dump.Znode) (err error) {
	for len(w.way) > 0 && w.way[len(w.way)-1] != dump.Parent(z.Path) {
		w.way = w.way[:len(w.way)-1]
	}
	if len(w.way) == 0 {
		if err := w.endDump(0); err != nil {
			return err
		}
		header := dump.Header{Root: z.Path, Server: w.server, Time: w.op.Time}
		if w.dump, err = dump.NewWriter(w.op.draft, header); err != nil {
			return err
		}
	}
	w.way = append(w.way, z.Path)
	return w.dump.Write(z)
}

func (w *writer) endDump(missed int) error {
	d := w.dump
	if w.dump = nil; d == nil {
		return nil
	}
	return d.Close(dump.Trailer{Missed: missed})
}

// close writes the rest. missed is the number of znodes that could not be read.
func (w *writer) close(missed int) error {
	return cmp.Or(w.flush(), w.endDump(missed))
}

// abort ends the dump without completing it.
func (w *writer) abort() error {
	d := w.dump
	if w.dump = nil; d == nil {
		return nil
	}
	return d.Abort()
}
