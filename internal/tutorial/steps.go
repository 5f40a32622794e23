package tutorial

import (
	"context"
	"errors"
	"path"
	"strings"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/zkconn"
)

// titles are those of the steps.
var titles = []string{
	"make a znode",
	"read it and its stat",
	"write it, if its version matches",
	"make a tree and walk through it",
	"watch for a change",
	"ephemeral and sequential znodes",
	"take a lock",
	"see who holds and who waits",
	"release it, and wait for it",
	"get help, undo and tidy up",
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

const farewell = "This is the end of the tutorial. What next? help lists all commands, help WORD lists the commands about a subject, and" +
	" COMMAND --help explains one. lockdemo compares nine ways to lock. zksh --sandbox in a second terminal joins this" +
	" sandbox, and sandbox pause shows the effect of a lost connection. To use a cluster of your own, run zksh --server HOST:2181."

var tasks = []task{
	{1, "ZooKeeper stores a tree of znodes: small pieces of data that all its clients share. Create one. Tab completes commands" +
		" and paths.\n\nYou can type any other line at any time. tutorial shows the current step again, and tutorial --end ends the" +
		" tutorial. Type:",
		`create {} "hello"`, "{} does not exist yet.", there("{}"), nil},

	{2, "Read its data. With -s you also see its stat: when and by which transaction (zxid) it was created and changed, and the" +
		" dataVersion, which counts the writes.",
		"get -s {}", "get reads a znode, and -s adds its stat.", command("get"), nil},

	{3, "A write can demand a version. If another client wrote first, ZooKeeper rejects your write, and nothing is lost.",
		`set -v 0 {} "good day"`, "{} still has version 0.", version("{}", 1), nil},
	{3, "Now try the same again, as a client that has not seen the first write. ZooKeeper rejects the write, because the version" +
		" is now 1. The Up key recalls the line, and Ctrl-R searches the history.",
		`set -v 0 {} "good night"`, "this step needs a write that demands version 0.", refused("set", zkconn.BadVersion), nil},

	{4, "A znode can have both data and children. After cd you can use relative paths, and the prompt shows the current folder.",
		"cd {}", "cd changes the current folder.", command("cd"), nil},
	{4, "Create a child here.",
		`create config "threads=4"`, "{}/config does not exist yet; if you left {}, cd {} returns to it.", there("{}/config"), nil},
	{4, "Now look at the whole tree.",
		"tree {}", "tree draws a znode and its descendants.", command("tree"), nil},

	{5, "A client does not have to poll: a watch reports the next change, once. get -w leaves a watch.",
		"get -w {}/config", "there is no watch yet; -w leaves one.", watching, nil},
	{5, "Now change the data. The event appears above your next prompt, whichever client wrote.",
		`set {}/config "threads=8"`, "{}/config has not changed yet.", version("{}/config", 1), nil},

	{6, "ZooKeeper deletes an ephemeral znode (-e) when its session ends, so it shows which clients are alive. The name of a" +
		" sequential znode (-s) ends in a unique number, so it shows who came first. Locks use both.",
		`create -e -s {}/worker- "me"`, "you have no ephemeral znode below {} yet.", ownBelow("{}"), nil},

	{7, "A lock is a queue of such znodes; the owner of the first one holds the lock. Apache Curator uses the same names, so zksh" +
		" and Curator exclude each other. (For kazoo, add --as kazoo.) Other users see your note (-m).",
		`lock -m "learning" {}/lock`, "you do not hold the lock yet.", ownBelow("{}/lock"), (*Guide).invite},

	{8, "Meanwhile Ben, a client that the tutorial started, waits for the lock, too. See who holds it and who waits. For scripts," +
		" the exit status of locks is 75 while somebody holds the lock.",
		"locks {}/lock", "locks shows the queue of a lock.", command("locks"), nil},

	{9, "Release the lock, and Ben gets it at once: his watch reported the release. If your program died, ZooKeeper would release the lock when its session ends.",
		"unlock {}/lock", "you still hold the lock.", noneBelow("{}/lock"), nil},
	{9, "Now you wait for the lock. With -b you wait in the background and can go on typing. (Without -b, Ctrl-C ends the wait.)",
		"lock -b {}/lock", "you are not waiting for the lock yet.", ownBelow("{}/lock"), nil},
	{9, "Look at the queue again. (In scripts, lock -n does not wait, and lock -w 5s waits for at most 5 seconds.)",
		"locks {}/lock", "locks shows the queue of a lock.", command("locks"), (*Guide).sendOff},
	{9, "Ben has released the lock, and you get it: the prompt counts your locks. Release it. In scripts, lock PATH -- COMMAND" +
		" does all of this: it runs the command under the lock, and terminates it before the lock can be lost.",
		"unlock {}/lock", "you still hold the lock.", noneBelow("{}/lock"), nil},

	{10, "Each command explains itself.",
		"help lock", "help explains a command.", command("help"), nil},
	{10, "deleteall counts the znodes and asks before it deletes them. Answer y.",
		"deleteall {}", "{} still exists.", gone("{}"), nil},
	{10, "At the prompt, zksh saves what you delete or overwrite. Restore the tree; undo -l lists what you can undo.",
		"undo", "{} is not restored yet.", there("{}"), nil},
	{10, "Delete it again, this time without the question.",
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
