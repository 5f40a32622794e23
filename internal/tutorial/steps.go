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

const farewell = "You have finished the tutorial. What next? help lists all commands, help WORD lists those related to a word, and COMMAND --help" +
	" explains a command. lockdemo runs nine lock recipes side by side. zksh --sandbox in a second terminal joins this sandbox," +
	" and sandbox pause shows what happens when a connection is lost. To use your own cluster, start zksh --server HOST:2181."

var tasks = []task{
	{1, "ZooKeeper stores a tree of znodes: small pieces of data that all clients share. Create a znode. Tab completes" +
		" commands and paths.\n\nYou can also type any other line at any time. tutorial shows the current step again, and" +
		" tutorial --end ends the tutorial. Type:",
		`create {} "hello"`, "{} does not exist yet.", there("{}"), nil},

	{2, "Read the data of the znode. With -s, you also see its stat: when and by which transaction (zxid) it was created and changed, and the" +
		" dataVersion, which counts the writes.",
		"get -s {}", "get reads a znode, and -s also prints its stat.", command("get"), nil},

	{3, "A write can include the version that you expect. If someone else has written in the meantime, ZooKeeper rejects your write, so" +
		" nothing is lost.",
		`set -v 0 {} "good day"`, "the data still has version 0.", version("{}", 1), nil},
	{3, "Now write with version 0 again, like someone who has not seen the first write. ZooKeeper rejects this write, because the" +
		" version is now 1. Up recalls the previous line, and Ctrl-R searches the history.",
		`set -v 0 {} "good night"`, "this step needs a write with version 0, which ZooKeeper rejects.", refused("set", zkconn.BadVersion), nil},

	{4, "A znode can have both data and children. After cd, you can use relative paths, and the prompt shows the current znode.",
		"cd {}", "cd changes the current znode.", command("cd"), nil},
	{4, "Create a child here.",
		`create config "threads=4"`, "{}/config does not exist yet; if you are elsewhere, type cd {} first.", there("{}/config"), nil},
	{4, "Look at the entire subtree.",
		"tree {}", "tree prints a subtree.", command("tree"), nil},

	{5, "You do not have to read a znode again and again: a watch reports the next change, once. get -w sets a watch.",
		"get -w {}/config", "-w sets a watch, as in the line below.", watching, nil},
	{5, "Now change the data. The event appears above your next prompt, as it would if another client had written.",
		`set {}/config "threads=8"`, "config has not changed yet.", version("{}/config", 1), nil},

	{6, "An ephemeral znode (-e) is deleted when its session ends, so it shows which clients are alive. A sequential znode (-s)" +
		" gets a unique, increasing number, so it shows who came first. Locks use both.",
		`create -e -s {}/worker- "me"`, "you have not created an ephemeral znode below {} yet.", ownBelow("{}"), nil},

	{7, "A lock is a queue of such znodes; the owner of the first one holds the lock. Curator's InterProcessMutex uses the same znodes, so it" +
		" waits for you, and you wait for it. (For clients that use kazoo, add --as kazoo.) Other clients can see the note (-m).",
		`lock -m "learning" {}/lock`, "you do not hold the lock yet.", ownBelow("{}/lock"), (*Guide).invite},

	{8, "In the meantime, Ben, a client that belongs to the tutorial, also wants the lock and waits in the queue. See who holds the lock and who" +
		" waits for it. Scripts can use the exit status: 75 means that a client holds the lock.",
		"locks {}/lock", "locks shows the queue of a lock.", command("locks"), nil},

	{9, "Release the lock. Ben acquires it immediately, because he watches your znode. If a program dies, its lock is released when" +
		" its session ends.",
		"unlock {}/lock", "you still hold the lock.", noneBelow("{}/lock"), nil},
	{9, "Now it is your turn to wait. -b waits in the background, so that you can continue to type. (Without -b, Ctrl-C cancels the" +
		" wait.)",
		"lock -b {}/lock", "you do not wait for the lock yet.", ownBelow("{}/lock"), nil},
	{9, "Look at the queue again. (In scripts, use lock -n to avoid waiting, or lock -w 5s to wait at most 5 seconds.)",
		"locks {}/lock", "locks shows the queue of a lock.", command("locks"), (*Guide).sendOff},
	{9, "Ben has released the lock, and now you hold it. The prompt shows how many locks you hold. Release the lock. In scripts, lock PATH -- COMMAND" +
		" does all of this: it runs the command under the lock, and terminates the command before the lock can be lost.",
		"unlock {}/lock", "you still hold the lock.", noneBelow("{}/lock"), nil},

	{10, "Every command has a help text.",
		"help lock", "help explains a command.", command("help"), nil},
	{10, "deleteall counts the znodes and asks for confirmation. Answer y.",
		"deleteall {}", "{} still exists.", gone("{}"), nil},
	{10, "At the prompt, zksh saves znodes before it overwrites or deletes them. Restore the subtree; undo -l lists what you can" +
		" undo.",
		"undo", "{} has not been restored yet.", there("{}"), nil},
	{10, "Clean up, this time without a question.",
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
		stat, err := l.session.Exists(ctx, l.path(of), false)
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
		names, _, err := l.session.Children(ctx, dir, false)
		if errors.Is(err, zkconn.NoNode) {
			return false, nil
		}
		id := l.session.Info().ID
		if err != nil {
			return false, err
		}
		for _, name := range names {
			stat, err := l.session.Exists(ctx, path.Join(dir, name), false)
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
