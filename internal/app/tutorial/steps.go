package tutorial

import (
	"context"
	"errors"
	"path"
	"strings"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/zkconn"
)

// titles contains the titles of the tutorial's steps, in order.
var titles = []string{
	"create a znode",
	"read the znode's data and its stat",
	"write with a version check",
	"build a tree, and move around in it",
	"watch for a change",
	"ephemeral and sequential znodes",
	"acquire a lock",
	"see who holds the lock and who waits for it",
	"release the lock, and wait for it yourself",
	"get help, undo, and clean up",
}

// A task asks the user to type one line. In its texts, {} is a placeholder for the path of the
// tutorial's znode.
type task struct {
	step int    // number of the step, from 1
	text string // explanation; an empty line separates paragraphs
	line string // the line to type
	hint string // printed after a line that does not complete the task
	done func(ctx context.Context, l *finishedLine) (bool, error)

	after func(g *Guide, ctx context.Context) error // called when the task is done or skipped; may be nil
}

const farewell = "You have finished the tutorial. To go on from here, try help all (all commands), help WORD (the " +
	"commands related to a word), COMMAND --help (one command) and lockdemo (ten lock recipes, side by side). To " +
	"join this sandbox from another terminal, run zksh --sandbox. To see what a lost connection looks like, type " +
	"sandbox pause. To use your own cluster, start zksh --server HOST:2181."

var tasks = []task{
	{1, "ZooKeeper stores a tree of znodes: small pieces of data that all its clients share. Create one. The Tab key " +
		"completes commands and paths.\n\n" +
		"You can type any other line at any time. To see the current step again, type tutorial. To end the tutorial, " +
		"type tutorial --end. Now type:",
		`create {} "hello"`, "there is no {} yet.", isThere("{}"), nil},

	{2, "Read the data of the znode. With -s, you also see its stat: when and by which transaction (zxid) it was " +
		"created and changed, and its dataVersion, which counts the writes.",
		"get -s {}", "this step needs the get command, which reads a znode.", ran("get"), nil},

	{3, "A write can state which version it expects. If someone else has changed the znode in the meantime, " +
		"ZooKeeper rejects the write, so no change is lost.",
		`set -v 0 {} "good day"`, "the data still has version 0.", versionAtLeast("{}", 1), nil},
	{3, "Now write again and expect version 0, like a client that has not seen the first write. ZooKeeper rejects " +
		"the write, because the version is now 1. The Up key recalls the previous line, and Ctrl-R searches the " +
		"history.",
		`set -v 0 {} "good night"`, "this step needs a write that expects version 0, which ZooKeeper rejects.", failedWith("set", zkconn.BadVersion), nil},

	{4, "A znode can have both data and children. After cd, you can use relative paths, and the prompt shows the " +
		"current znode.",
		"cd {}", "this step needs the cd command, which goes to a znode.", ran("cd"), nil},
	{4, "Create a child here.",
		`create config "threads=4"`, "there is no {}/config yet; to go to its parent, type: cd {}.", isThere("{}/config"), nil},
	{4, "Look at the entire subtree.",
		"tree {}", "this step needs the tree command, which draws a subtree.", ran("tree"), nil},

	{5, "You do not have to read a znode again and again to notice a change. A watch reports the next change, once. " +
		"get -w sets a watch.",
		"get -w {}/config", "there is no watch on {}/config yet; -w sets one.", hasWatch, nil},
	{5, "Now change the data. The event appears above your next prompt, as it would if another client had written.",
		`set {}/config "threads=8"`, "config has not changed yet.", versionAtLeast("{}/config", 1), nil},

	{6, "An ephemeral znode (-e) is deleted when its session ends, so it shows which clients are alive. A sequential " +
		"znode (-s) gets a unique, increasing number in its name, so it shows who came first. Locks use both.",
		`create -e -s {}/worker- "me"`, "you have no ephemeral znode below {} yet.", ownsChildOf("{}"), nil},

	{7, "A lock is a queue of such znodes, and the first one holds the lock. Curator's InterProcessMutex uses the " +
		"same znodes, so it waits for you, and you wait for it. (To share a lock with kazoo, use lock --as kazoo.) " +
		"Other users see the note (-m).",
		`lock -m "learning" {}/lock`, "you do not hold the lock yet.", ownsChildOf("{}/lock"), (*Guide).inviteBen},

	{8, "In the meantime Ben, a client that the tutorial runs, also wants the lock and waits in the queue. See who " +
		"holds the lock and who waits for it. For scripts, locks returns exit status 75, because somebody holds the " +
		"lock.",
		"locks {}/lock", "this step needs the locks command, which shows the queue of a lock.", ran("locks"), nil},

	{9, "Release the lock. Ben acquires it at once, because he watches your znode. If a program dies, ZooKeeper " +
		"releases its locks when its session ends.",
		"unlock {}/lock", "you still hold the lock.", ownsNoChildOf("{}/lock"), nil},
	{9, "Now it is your turn to wait. With -b, lock waits in the background, so you can go on typing. (Without -b, " +
		"Ctrl-C cancels the wait.)",
		"lock -b {}/lock", "you are not waiting for the lock yet.", ownsChildOf("{}/lock"), nil},
	{9, "Look at the queue again. (In scripts, use lock -n to not wait at all, or lock -w 5s to wait at " +
		"most 5 seconds.)",
		"locks {}/lock", "this step needs the locks command, which shows the queue of a lock.", ran("locks"),
		(*Guide).dismissBen},
	{9, "Ben has released the lock, so you hold it now. The prompt shows how many locks you hold. Release it. In " +
		"scripts, use lock PATH -- COMMAND: it acquires the lock, runs the command, and terminates the command " +
		"before the lock can be lost.",
		"unlock {}/lock", "you still hold the lock.", ownsNoChildOf("{}/lock"), nil},

	{10, "Each command has a help text. (To leave a text that fills the screen, type q.)",
		"help lock", "this step needs the help command, which explains a command.", ran("help"), nil},
	{10, "deleteall counts the znodes and asks before it deletes them. Answer y.",
		"deleteall {}", "{} still exists.", isGone("{}"), nil},
	{10, "At the prompt, zksh saves znodes before it overwrites or deletes them. Restore the subtree with undo. To " +
		"list what you can undo, type undo -l.",
		"undo", "{} has not been restored yet.", isThere("{}"), nil},
	{10, "Clean up. This time, -y skips the question.",
		"deleteall -y {}", "{} still exists.", isGone("{}"), nil},
}

// finishedLine is a line that the user has typed and whose command has ended.
type finishedLine struct {
	session *zkconn.Session
	folder  string
	command string
	err     error
}

func (l *finishedLine) path(of string) string { return strings.ReplaceAll(of, "{}", l.folder) }

// check is a function that reports whether a line has completed a task.
type check = func(ctx context.Context, l *finishedLine) (bool, error)

// ran returns a check for a line that ran the command with the given name and printed an answer. A
// StatusError without a message counts as an answer.
func ran(name string) check {
	return func(_ context.Context, l *finishedLine) (bool, error) {
		status := (*commands.StatusError)(nil)
		answered := l.err == nil || errors.As(l.err, &status) && status.Err == nil
		return l.command == name && answered, nil
	}
}

// failedWith returns a check for a line that ran the command with the given name and failed with
// the given error code.
func failedWith(name string, code error) check {
	return func(_ context.Context, l *finishedLine) (bool, error) {
		return l.command == name && errors.Is(l.err, code), nil
	}
}

// isThere returns a check that the given znode exists.
func isThere(node string) check {
	return func(ctx context.Context, l *finishedLine) (bool, error) { return exists(ctx, l.session, l.path(node)) }
}

// isGone returns a check that the given znode does not exist.
func isGone(node string) check {
	return func(ctx context.Context, l *finishedLine) (bool, error) {
		is, err := exists(ctx, l.session, l.path(node))
		return !is, err
	}
}

// versionAtLeast returns a check that the data version of the given znode is at least version.
func versionAtLeast(node string, version int32) check {
	return func(ctx context.Context, l *finishedLine) (bool, error) {
		stat, err := zkconn.Do(ctx, l.session, zkconn.Exists(l.path(node)))
		if errors.Is(err, zkconn.NoNode) {
			return false, nil
		}
		return err == nil && stat.Version >= version, err
	}
}

// hasWatch is a check that the user's session has set a watch.
func hasWatch(_ context.Context, l *finishedLine) (bool, error) { return l.session.Watching(), nil }

// ownsChildOf returns a check that the user's session owns an ephemeral child of parent.
func ownsChildOf(parent string) check {
	return func(ctx context.Context, l *finishedLine) (bool, error) {
		dir := l.path(parent)
		list, err := zkconn.Do(ctx, l.session, zkconn.List(dir))
		if errors.Is(err, zkconn.NoNode) {
			return false, nil
		}
		id := l.session.Info().ID
		if err != nil {
			return false, err
		}
		for _, name := range list.Names {
			stat, err := zkconn.Do(ctx, l.session, zkconn.Exists(path.Join(dir, name)))
			switch {
			case err == nil && stat.EphemeralOwner == id:
				return true, nil
			case err != nil && !errors.Is(err, zkconn.NoNode):
				return false, err
			}
		}
		return false, nil
	}
}

// ownsNoChildOf returns a check that the user's session owns no ephemeral child of parent.
func ownsNoChildOf(parent string) check {
	return func(ctx context.Context, l *finishedLine) (bool, error) {
		is, err := ownsChildOf(parent)(ctx, l)
		return !is, err
	}
}
