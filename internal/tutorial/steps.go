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
	"read it, and its stat",
	"write it, by its version",
	"make a tree, and go about in it",
	"watch for a change",
	"znodes that go, and number themselves",
	"take a lock",
	"see who holds and who waits",
	"let go, and wait yourself",
	"find your way, and tidy up",
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

const farewell = "That was it. From here: help lists all commands, help WORD those that are about something, and COMMAND --help explains" +
	" one. lockdemo plays nine ways to lock side by side. zksh --sandbox in a second terminal joins this sandbox, and sandbox" +
	" pause shows what a lost connection does. With a cluster of your own it is zksh -server HOST:2181."

var tasks = []task{
	{1, "ZooKeeper keeps a tree of znodes, small pieces of data that all its clients see alike. Make one; Tab completes what" +
		" you type, commands and paths.\n\nYou may type any other line at any time, too. tutorial shows where you are, and tutorial --end ends it. Type:",
		`create {} "hello"`, "there is no {} yet.", there("{}"), nil},

	{2, "Read its data. With -s you also see its stat: when it was made and changed, by which transaction (zxid), and the" +
		" dataVersion, which counts the writes.",
		"get -s {}", "get reads a znode, and -s shows its stat.", command("get"), nil},

	{3, "A write can name the version that it is meant for. If somebody else has been faster, it is refused, and nothing is lost.",
		`set -v 0 {} "good day"`, "the data is still of version 0.", version("{}", 1), nil},
	{3, "Now the same once more: you play somebody who has not seen the first write. It is refused, as the version is 1 by now. Up" +
		" recalls the line, and Ctrl-R searches the history.",
		`set -v 0 {} "good night"`, "a write for version 0 is to be refused.", refused("set", zkconn.BadVersion), nil},

	{4, "A znode has data and children at once. After cd relative paths work, and the prompt shows where you are.",
		"cd {}", "cd goes to a znode.", command("cd"), nil},
	{4, "Make a child here.",
		`create config "threads=4"`, "there is no {}/config yet; cd {} goes there.", there("{}/config"), nil},
	{4, "And look at all of it.",
		"tree {}", "tree draws what is below a znode.", command("tree"), nil},

	{5, "Nobody has to ask again and again: a watch tells of the next change, once. With -w get leaves one.",
		"get -w {}/config", "-w leaves a watch, as in the line below.", watching, nil},
	{5, "Now change it. The event stands above your next prompt; it would as well if another client had written.",
		`set {}/config "threads=8"`, "config has not changed yet.", version("{}/config", 1), nil},

	{6, "An ephemeral znode (-e) goes when its session ends, so it tells who is alive. A sequential one (-s) gets a number that" +
		" nobody else gets, so it tells who came first. Locks are made of both.",
		`create -e -s {}/worker- "me"`, "no ephemeral znode of yours is below {} yet.", ownBelow("{}"), nil},

	{7, "A lock is a queue of such znodes: the first one holds it. Curator's and kazoo's clients use the same, so you exclude" +
		" them, too. The note (-m) is for others to see.",
		`lock -m "learning" {}/lock`, "you do not hold the lock yet.", ownBelow("{}/lock"), (*Guide).invite},

	{8, "Meanwhile Ben, a client of the tutorial's, wants the lock, too, and queues behind you. See who holds it and who waits. The" +
		" status is 75 as somebody holds it, for scripts.",
		"locks {}/lock", "locks shows the queue of a lock.", command("locks"), nil},

	{9, "Let go, and Ben has it at once: his watch told him. Had your program died, the lock would have gone with its session.",
		"unlock {}/lock", "you still hold the lock.", noneBelow("{}/lock"), nil},
	{9, "Now you are the one who waits; -b does it in the background, so that you can go on typing. (Without it Ctrl-C gives up.)",
		"lock -b {}/lock", "you do not wait for the lock yet.", ownBelow("{}/lock"), nil},
	{9, "Look at the queue again. (In scripts -n does not wait at all, and -w 5s not for longer.)",
		"locks {}/lock", "locks shows the queue of a lock.", command("locks"), (*Guide).sendOff},
	{9, "Ben has let go, and you hold it: the prompt counts your locks. Give it back. In scripts lock PATH -- COMMAND does all" +
		" of it: the command runs under the lock, and is ended before the lock can be lost.",
		"unlock {}/lock", "you still hold the lock.", noneBelow("{}/lock"), nil},

	{10, "Each command explains itself.",
		"help lock", "help explains a command.", command("help"), nil},
	{10, "deleteall tells what would go, and asks. Answer y.",
		"deleteall {}", "{} is still there.", gone("{}"), nil},
	{10, "What you destroy by hand is kept before it goes. Bring it back; undo -l lists what can be.",
		"undo", "{} is not back yet.", there("{}"), nil},
	{10, "Tidy up, this time without the question.",
		"deleteall -y {}", "{} is still there.", gone("{}"), nil},
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
