package tutorial

import (
	"context"
	"errors"
	"path"
	"strings"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/zkconn"
)

// titles are the titles of the steps.
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

// task is a line that a step wants. {} is the tutorial's folder.
type task struct {
	step int    // from 1
	say  string // why, in paragraphs
	line string // what to type
	hint string // when something else was typed
	done func(ctx context.Context, l *line) (bool, error)

	after func(g *Guide, ctx context.Context) error // what happens when it is done, or left out; may be nil
}

const farewell = "You have finished the tutorial. To go on from here, try help (all commands), help WORD (the commands related to a word)," +
	" COMMAND --help (one command) and lockdemo (nine lock recipes, side by side). To join this sandbox from another terminal, run" +
	" zksh --sandbox. To see what a lost connection looks like, type sandbox pause. To use your own cluster, start zksh --server HOST:2181."

var tasks = []task{
	{1, "ZooKeeper stores a tree of znodes: small pieces of data that all its clients share. Create one. The Tab key completes" +
		" commands and paths.\n\nYou can type any other line at any time. To see the current step again, type tutorial. To end the" +
		" tutorial, type tutorial --end. Now type:",
		`create {} "hello"`, "there is no {} yet.", there("{}"), nil},

	{2, "Read the data of the znode. With -s, you also see its stat: when and by which transaction (zxid) it was created and changed, and" +
		" its dataVersion, which counts the writes.",
		"get -s {}", "this step needs the get command, which reads a znode.", command("get"), nil},

	{3, "A write can state which version it expects. If someone else has changed the znode in the meantime, ZooKeeper rejects the write, so" +
		" no change is lost.",
		`set -v 0 {} "good day"`, "the data still has version 0.", version("{}", 1), nil},
	{3, "Now write again and expect version 0, like a client that has not seen the first write. ZooKeeper rejects the write, because the" +
		" version is now 1. The Up key recalls the previous line, and Ctrl-R searches the history.",
		`set -v 0 {} "good night"`, "this step needs a write that expects version 0, which ZooKeeper rejects.", refused("set", zkconn.BadVersion), nil},

	{4, "A znode can have both data and children. After cd, you can use relative paths, and the prompt shows the current znode.",
		"cd {}", "this step needs the cd command, which goes to a znode.", command("cd"), nil},
	{4, "Create a child here.",
		`create config "threads=4"`, "there is no {}/config yet; to go to its parent, type: cd {}.", there("{}/config"), nil},
	{4, "Look at the entire subtree.",
		"tree {}", "this step needs the tree command, which draws a subtree.", command("tree"), nil},

	{5, "You do not have to read a znode again and again to notice a change. A watch reports the next change, once. get -w sets a watch.",
		"get -w {}/config", "there is no watch on {}/config yet; -w sets one.", watching, nil},
	{5, "Now change the data. The event appears above your next prompt, as it would if another client had written.",
		`set {}/config "threads=8"`, "config has not changed yet.", version("{}/config", 1), nil},

	{6, "An ephemeral znode (-e) is deleted when its session ends, so it shows which clients are alive. A sequential znode (-s)" +
		" gets a unique, increasing number in its name, so it shows who came first. Locks use both.",
		`create -e -s {}/worker- "me"`, "you have no ephemeral znode below {} yet.", ownBelow("{}"), nil},

	{7, "A lock is a queue of such znodes, and the first one holds the lock. Curator's InterProcessMutex uses the same znodes, so it" +
		" waits for you, and you wait for it. (To share a lock with kazoo, use lock --as kazoo.) Other users see the note (-m).",
		`lock -m "learning" {}/lock`, "you do not hold the lock yet.", ownBelow("{}/lock"), (*Guide).invite},

	{8, "In the meantime Ben, a client that the tutorial runs, also wants the lock and waits in the queue. See who holds the lock and who" +
		" waits for it. For scripts, locks returns exit status 75, because somebody holds the lock.",
		"locks {}/lock", "this step needs the locks command, which shows the queue of a lock.", command("locks"), nil},

	{9, "Release the lock. Ben acquires it at once, because he watches your znode. If a program dies, ZooKeeper releases its locks when" +
		" its session ends.",
		"unlock {}/lock", "you still hold the lock.", noneBelow("{}/lock"), nil},
	{9, "Now it is your turn to wait. With -b, lock waits in the background, so you can go on typing. (Without -b, Ctrl-C cancels the" +
		" wait.)",
		"lock -b {}/lock", "you are not waiting for the lock yet.", ownBelow("{}/lock"), nil},
	{9, "Look at the queue again. (In scripts, use lock -n to not wait at all, or lock -w 5s to wait at most 5 seconds.)",
		"locks {}/lock", "this step needs the locks command, which shows the queue of a lock.", command("locks"), (*Guide).sendOff},
	{9, "Ben has released the lock, so you hold it now. The prompt shows how many locks you hold. Release it. In scripts, use" +
		" lock PATH -- COMMAND: it acquires the lock, runs the command, and terminates the command before the lock can be lost.",
		"unlock {}/lock", "you still hold the lock.", noneBelow("{}/lock"), nil},

	{10, "Each command has a help text. (To leave a text that fills the screen, type q.)",
		"help lock", "this step needs the help command, which explains a command.", command("help"), nil},
	{10, "deleteall counts the znodes and asks before it deletes them. Answer y.",
		"deleteall {}", "{} still exists.", gone("{}"), nil},
	{10, "At the prompt, zksh saves znodes before it overwrites or deletes them. Restore the subtree with undo. To list what you can" +
		" undo, type undo -l.",
		"undo", "{} has not been restored yet.", there("{}"), nil},
	{10, "Clean up. This time, -y skips the question.",
		"deleteall -y {}", "{} still exists.", gone("{}"), nil},
}

// line is a line that has ended.
type line struct {
	session *zkconn.Session
	folder  string
	command string
	err     error
}

func (l *line) path(of string) string { return strings.ReplaceAll(of, "{}", l.folder) }

type check = func(ctx context.Context, l *line) (bool, error)

// command wants a line of that command, which the person saw the answer of: a status is one.
func command(name string) check {
	return func(_ context.Context, l *line) (bool, error) {
		status := (*commands.StatusError)(nil)
		answered := l.err == nil || errors.As(l.err, &status) && status.Err == nil
		return l.command == name && answered, nil
	}
}

// refused wants a line of that command that failed so.
func refused(name string, code error) check {
	return func(_ context.Context, l *line) (bool, error) {
		return l.command == name && errors.Is(l.err, code), nil
	}
}

func there(of string) check {
	return func(ctx context.Context, l *line) (bool, error) { return exists(ctx, l.session, l.path(of)) }
}

func gone(of string) check {
	return func(ctx context.Context, l *line) (bool, error) {
		is, err := exists(ctx, l.session, l.path(of))
		return !is, err
	}
}

// version wants the data to have been written so often.
func version(of string, least int32) check {
	return func(ctx context.Context, l *line) (bool, error) {
		stat, err := zkconn.Do(ctx, l.session, zkconn.Exists(l.path(of)))
		if errors.Is(err, zkconn.NoNode) {
			return false, nil
		}
		return err == nil && stat.Version >= least, err
	}
}

func watching(_ context.Context, l *line) (bool, error) { return l.session.Watching(), nil }

// ownBelow wants an ephemeral child of this session.
func ownBelow(of string) check {
	return func(ctx context.Context, l *line) (bool, error) {
		dir := l.path(of)
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

func noneBelow(of string) check {
	return func(ctx context.Context, l *line) (bool, error) {
		is, err := ownBelow(of)(ctx, l)
		return !is, err
	}
}
