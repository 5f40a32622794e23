// Package commands defines the type Command, which describes one command of the shell, and
// implements zkCli's commands and zksh's additions to them.
//
// A Command consists of data and one function. The help texts, the completion, the usage errors
// and the manual's table of commands are all derived from the data. A command runs in an Env,
// which holds the session, the Screen that shows results, and the Recorder that records changes for
// undo. Begin reading at Command and Env; delete.go has a short command as an example.
//
// This package is part of the program zksh and may change at any time.
package commands

import (
	"context"
	"io"
	"strings"
	"sync/atomic"

	"github.com/spf13/pflag"
)

// Command describes one command of the shell.
type Command struct {
	Name    string
	Aliases []string
	Group   string // heading in the list of commands that help prints
	Args    string // usage line without the command's name, in zkCli's style; shows every flag
	Summary string // an imperative phrase of at most 60 characters

	Help     string   // what the command does, in paragraphs separated by blank lines; may be empty
	Limits   []string // limitations, as sentences at the end of the help; may be empty
	Examples []string // command lines to type at the prompt; at least one
	Params   []Param  // positional arguments, in order; required unless marked Optional
	Effect   Effect   // all effects that a line with this command can have

	// Except returns the effects to remove from Effect for one command line. fs and args are the
	// flags and positional arguments of that line. If Except is nil, every line has all effects in
	// Effect. ByFlag returns an Except function for effects that depend only on flags.
	Except func(fs *pflag.FlagSet, args []string) Effect
	// Look returns a command line that shows whether a write of this line took effect, for the error
	// that its answer was lost. fs and args are as in Except. Look is nil if the command does not
	// write, or reports such a loss itself.
	Look func(fs *pflag.FlagSet, args []string) string
	// Passing returns a remark if the line achieves only what ends with the session, such as a watch.
	// The shell prints the remark after a single command, whose session ends at once. For any other
	// line, Passing returns an empty string. It is nil if the command has no such line. fs and args
	// are as in Except.
	Passing func(fs *pflag.FlagSet, args []string) string
	// Flags declares the command's flags on an empty flag set. It returns the function that runs
	// the command with the values of these flags. Flags is called once for each command line,
	// except that lines without flags share one call if the command has the effect OneRequest. The
	// function of such a command can run more than once at a time, and must not change the values.
	Flags func(fs *pflag.FlagSet) Run

	flagless atomic.Pointer[declared] // what lines without flags share, or nil
}

// declared contains a flag set on which Command.Flags has declared the flags, and its result.
type declared struct {
	fs  *pflag.FlagSet
	run Run
}

// Run executes a command. args are the positional arguments; their number has been checked
// against Params.
type Run func(ctx context.Context, env *Env, args []string) error

// NoFlags returns the value of Command.Flags for a command that has no flags.
func NoFlags(run Run) func(*pflag.FlagSet) Run {
	return func(*pflag.FlagSet) Run { return run }
}

// Kind is the kind of a positional argument. It determines how the argument is completed.
type Kind int

// The kinds of positional arguments.
const (
	Path      Kind = iota
	Folder         // a path that the command itself resolves if it is relative
	SessionID      // the path of a znode, or the id of a session
	Data           // any text; not completed
	ACL
	Scheme
	LineNumber // the number of a line in the history
	Choice     // one of Param.Words, in upper or lower case
	File       // a file on this machine
	HeldLock   // the path of a lock that this shell holds
	CommandName
	HelpName // the name of a command, or of a topic of the manual
	Secret
	Server    // a connect string, or the name of a cluster
	WholeLine // a zksh command line, quoted as one word
	PlaceWord // a path in this or another ensemble, or a file; see Place
)

// Param describes one positional argument.
type Param struct {
	Name     string
	Kind     Kind
	Words    []string // the valid words; only for the kind Choice
	Optional bool
	Here     bool // whether the argument defaults to the current znode (see cd); only for the first argument
	Root     bool // whether the argument defaults to / before the first cd; only if Here is true
	Rest     bool // whether the argument consists of all words after --, unchanged; only for the last argument
	Many     bool // whether the argument may be repeated; only for the last argument
	// Slash reports whether a slash at the end of a path has a meaning, so that it is not removed. It is
	// nil if a slash never has.
	Slash func(flags *pflag.FlagSet) bool
}

// helpWidth is the maximum width of help texts, in columns.
const helpWidth = 78

// HelpWidthIn returns the width to which help texts are wrapped on a terminal with the given number
// of columns. If there is no terminal, columns is 0 and the width is helpWidth.
func HelpWidthIn(columns int) int {
	if columns < 1 {
		return helpWidth
	}
	return min(columns, helpWidth)
}

// Usage returns the command's usage line: its name and Args.
func (c *Command) Usage() string {
	return strings.TrimRight(c.Name+" "+c.Args, " ")
}

// Paragraphs returns the paragraphs of Help. Line breaks inside a paragraph become spaces.
func (c *Command) Paragraphs() (list []string) {
	for p := range strings.SplitSeq(c.Help, "\n\n") {
		if p = strings.Join(strings.Fields(p), " "); p != "" {
			list = append(list, p)
		}
	}
	return list
}

// FlagSet returns a new flag set with all flags of the command, for help and completion.
func (c *Command) FlagSet() *pflag.FlagSet {
	fs := newFlagSet(c.Name)
	c.Flags(fs)
	return fs
}

func newFlagSet(name string) *pflag.FlagSet {
	fs := pflag.NewFlagSet(name, pflag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.SortFlags = false
	fs.Usage = func() {}
	return fs
}

var (
	pathParam  = Param{Name: "path", Kind: Path}
	hereParam  = Param{Name: "path", Kind: Path, Here: true}
	watchParam = Param{Name: "watch", Kind: Data, Optional: true}
)
