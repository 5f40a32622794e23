// Package commands defines the type Command, which describes one command of the shell, and
// implements zkCli's commands and zksh's additions to them.
//
// A Command consists of data and one function. The help texts, the completion, the usage errors
// and the manual's table of commands are all derived from the data. A command runs in an Env,
// which holds the session, the Screen that shows results, and the Saver that saves old data for
// undo. Begin reading at Command and Env; delete.go has a short command as an example.
//
// This package is part of the program zksh and may change at any time.
package commands

import (
	"context"
	"io"
	"strings"

	"github.com/spf13/pflag"
)

// Command describes one command of the shell.
type Command struct {
	Name    string
	Aliases []string
	Group   string // heading in the list of commands that help prints
	Args    string // zkCli's usage line without the command's name; shows every flag
	Summary string // an imperative phrase of at most 60 characters

	Help     string   // behaviour, in paragraphs separated by blank lines; may be empty
	Limits   []string // sentences for the list of limits that ends the help; may be empty
	Examples []string // lines to type at the prompt; at least one
	Params   []Param  // the positional arguments, in order; a line must contain all that are not Optional
	Effect   Effect   // all effects that a line of this command can have

	// Except returns those effects in Effect that a line with these flags and positional
	// arguments does not have. It is nil if every line has all of them. ByFlag returns a typical
	// Except.
	Except func(fs *pflag.FlagSet, args []string) Effect
	// Flags declares the command's flags on an empty flag set and returns the function that runs
	// the command with their values. It is called once for each line.
	Flags func(fs *pflag.FlagSet) Run
	// Wrap is used instead of Flags by a command such as time, whose flags are followed by
	// another command line.
	Wrap func(fs *pflag.FlagSet) Wrapper
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
	Path     Kind = iota
	Folder        // a path; if it is relative, the command itself resolves it
	ClientID      // a path, or the id or address of a session
	Data          // any text; not completed
	ACL
	Scheme
	LineNumber // number of a line in the history
	Choice     // one of Param.Words, in upper or lower case
	File       // a file on this machine
	HeldLock   // path of a lock that this shell holds
	CommandName
	HelpName // name of a command, or of a topic of the manual
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
	Here     bool // only for the first argument: if omitted, it is the current znode (see cd)
	Rest     bool // only for the last argument: stands for all words after --, unchanged
	Many     bool // only for the last argument: may be repeated
}

// helpWidth is the maximum width of help texts, in columns.
const helpWidth = 78

// HelpWidthIn returns the width, in columns, to which help texts are wrapped on a terminal of the
// given width. If there is no terminal, columns is 0 and HelpWidthIn returns helpWidth.
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

// FlagSet returns a new flag set that declares the command's flags, for help and completion.
func (c *Command) FlagSet() *pflag.FlagSet {
	fs := newFlagSet(c.Name)
	if c.Wrap != nil {
		c.Wrap(fs)
	} else {
		c.Flags(fs)
	}
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
