// Package commands has the contract of a shell command and zkCli's command set.
// A command is data and one function; help, completion, usage errors and the
// manual's table all come out of the data.
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
	Group   string // heading in help
	Args    string // zkCli's usage line without the name; every flag is in it
	Summary string // an imperative phrase of at most 60 characters

	Help     string   // behaviour, in paragraphs that a blank line separates; may be empty
	Limits   []string // sentences for the list at the end of its help; may be empty
	Examples []string // lines that can be typed; at least one
	Params   []Param  // the positional words, in order; all but optional ones are needed
	Effect   Effect   // what its lines do

	// Except returns the part of Effect that a line with these flags and positional words does
	// not have. It may be nil; see ByFlag.
	Except func(fs *pflag.FlagSet, args []string) Effect
	// Flags declares the flags on a fresh set and returns the function that
	// runs the command with them; it runs once for each line.
	Flags func(fs *pflag.FlagSet) Run
	// Over is Flags for a command that has a line of another one behind its flags.
	Over func(fs *pflag.FlagSet) Around
}

// Run carries out a command. args are the positional words, already counted
// against Params.
type Run func(ctx context.Context, env *Env, args []string) error

// NoFlags is the Flags of a command that has none.
func NoFlags(run Run) func(*pflag.FlagSet) Run {
	return func(*pflag.FlagSet) Run { return run }
}

// Kind says what a positional word is, for completion.
type Kind int

// The kinds of positional words.
const (
	Path     Kind = iota
	Folder        // a path that the command itself takes as relative
	ClientID      // a path, or another name of a session
	Data          // anything: nothing is proposed
	ACL
	Scheme
	LineNumber // of the history
	Choice     // one of Words, in any case
	File       // on this machine
	HeldLock   // the path of a lock of this shell
	CommandName
	HelpName // a command, or a topic of the manual
	Secret
	Server    // a connect string, or a cluster's name
	WholeLine // a line of this shell, in one word
	Side      // a path, maybe in another ensemble, or a file; see Place
)

// Param is one positional word.
type Param struct {
	Name     string
	Kind     Kind
	Words    []string // of a Choice
	Optional bool
	Here     bool // the first one only: where it is missing it is the folder that cd has gone to
	Rest     bool // the last one only: all words behind --, as they are
	Many     bool // the last one only: any number of words
}

// helpWidth is the width of help in columns.
const helpWidth = 78

// HelpWidthIn is how wide help is on a terminal of so many columns; 0: on none.
func HelpWidthIn(columns int) int {
	if columns < 1 {
		return helpWidth
	}
	return min(columns, helpWidth)
}

// Usage is the command's line in zkCli's usage screen.
func (c *Command) Usage() string {
	return strings.TrimRight(c.Name+" "+c.Args, " ")
}

// Paragraphs returns the paragraphs of Help, each as one line.
func (c *Command) Paragraphs() (list []string) {
	for p := range strings.SplitSeq(c.Help, "\n\n") {
		if p = strings.Join(strings.Fields(p), " "); p != "" {
			list = append(list, p)
		}
	}
	return list
}

// FlagSet declares the command's flags, for help and completion.
func (c *Command) FlagSet() *pflag.FlagSet {
	fs := newFlagSet(c.Name)
	if c.Over != nil {
		c.Over(fs)
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
