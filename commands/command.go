// Package commands has the contract of a shell command and zkCli's command set.
// A command is data and one function; help, completion, usage errors and the
// manual's table all come out of the data.
//
// This package is part of the program zksh and may change at any time.
package commands

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/zksh/zksh/internal/render"
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
	Offline  bool     // works without a session
	Sweeps   bool     // removes whole trees: no hint proposes it
	Writes   bool     // may change the ensemble: not run where that is switched off
	Dry      []string // flags with which it does not

	// OneRequest tells whether a line with these flags sends a single request, which
	// every server knows, and touches nothing here but the screen: then the lines
	// behind it may be sent before it is answered. Nil: it does not.
	OneRequest func(fs *pflag.FlagSet) bool
	// Joins tells whether a line with these flags is a single write that can be part of
	// a transaction. Nil: it is not.
	Joins func(fs *pflag.FlagSet) bool
	// Destroys tells that it destroys what may have to be kept first.
	Destroys bool
	// Asks reports whether a line with these flags itself asks a person before it writes.
	// Its question includes Env.Confirm. Nil: it does not ask.
	Asks func(fs *pflag.FlagSet) bool
	// Aside tells that it may stand in the lines of a transaction without being part of it.
	Aside bool
	// Lines tells that what stands behind -- is a line of this shell, not a program.
	Lines bool
	// Streams tells that it answers with one render.Stream, if with any, unless it has a
	// line behind --.
	Streams bool
	// Quota tells that a quota may refuse it, or that it may set one. Servers hold a
	// quota against what they have carried out, not against what is under way.
	Quota bool

	// Elsewhere tells whether a line with these words writes to another ensemble alone. It
	// sees to it itself whether that may be. Nil: it does not.
	Elsewhere func(args []string) bool

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

// always is for a command whose every line is one request.
func always(*pflag.FlagSet) bool { return true }

// unless is for a command that is one request but with any of these flags.
func unless(flags ...string) func(*pflag.FlagSet) bool {
	return func(fs *pflag.FlagSet) bool { return !slices.ContainsFunc(flags, fs.Changed) }
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

type misused string

func (m misused) Error() string { return string(m) }

// Misuse is the error of words that a command cannot do with. Execute makes it a
// UsageError of the command.
func Misuse(format string, args ...any) error { return misused(fmt.Sprintf(format, args...)) }

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

// Line is a line that has been read, and can be run once.
type Line struct {
	c    *Command
	fs   *pflag.FlagSet
	run  Run
	args []string
	own  int // how many of the args stood before --

	writes   bool // it, or the line that it is over, may change the ensemble
	asks     bool // it, or the line that it is over, asks a person before it writes
	joinsNot bool // a transaction, as it would but for where its answers go
}

// Read takes the words that follow the command's name. The error is pflag.ErrHelp
// where they have --help or -h, and the command has no such flag.
func (c *Command) Read(env *Env, words []Word) (Line, error) {
	l, err := c.read(words)
	if !c.Offline && (err != nil || !l.Offline()) {
		if gone := env.Session.Gone(); gone != nil {
			return Line{}, gone
		}
	}
	if err != nil {
		return Line{}, c.usage(err)
	}
	return l, nil
}

// Offline tells whether the line works without a session.
func (l Line) Offline() bool { return l.c.Offline || l.fs != nil && l.fs.Changed(inFlag) }

// Run carries the line out.
func (l Line) Run(ctx context.Context, env *Env) error { return l.c.usage(l.run(ctx, env, l.args)) }

// OneRequest is what the Command says of it.
func (l Line) OneRequest() bool { return l.c.OneRequest != nil && l.c.OneRequest(l.fs) }

// Writes tells whether it may change the ensemble, by what the Command says of it, or of
// the line that it is over.
func (l Line) Writes() bool { return l.writes }

// Joins is what the Command says of it.
func (l Line) Joins() bool { return l.c.Joins != nil && l.c.Joins(l.fs) }

// Aside is what the Command says of it.
func (l Line) Aside() bool { return l.c.Aside }

// Destroys is what the Command says of it.
func (l Line) Destroys() bool { return l.c != nil && l.c.Destroys }

// Asks reports whether the line itself, or the line that it is over, asks a person before it
// writes; see Command.Asks.
func (l Line) Asks() bool { return l.asks }

// Quota is what the Command says of it.
func (l Line) Quota() bool { return l.c != nil && l.c.Quota }

// usage makes misuse a UsageError of the command.
func (c *Command) usage(err error) error {
	if bad := misused(""); errors.As(err, &bad) {
		return &UsageError{Command: c, Problem: string(bad)}
	}
	return err
}

func (c *Command) read(words []Word) (l Line, err error) {
	fs := newFlagSet(c.Name)
	run := c.Flags(fs)
	words, rest := c.cutRest(words)
	if rest != nil && len(rest) == 0 {
		return l, Misuse("missing command after --")
	}
	if err := c.parse(fs, words); err != nil {
		return l, err
	}
	args := fs.Args()
	if err := c.count(args); err != nil {
		return l, err
	}
	set := func(name string) bool { return fs.Lookup(name).Value.String() == "true" }
	writes := c.Writes && !slices.ContainsFunc(c.Dry, set) && (c.Elsewhere == nil || !c.Elsewhere(args))
	return Line{c: c, fs: fs, run: run, args: append(args, rest...), own: len(args), writes: writes, asks: c.Asks != nil && c.Asks(fs)}, nil
}

// invalidValue names the flag, as the command's usage does, and its value.
func (c *Command) invalidValue(bad *pflag.InvalidValueError) error {
	name := "-" + cmp.Or(bad.GetFlag().Shorthand, bad.GetFlag().Name)
	if long := "-" + name; strings.Contains(c.Args, long) {
		name = long
	}
	why := strings.TrimPrefix(bad.Unwrap().Error(), "time: ")
	if _, is := errors.AsType[*strconv.NumError](bad.Unwrap()); is {
		why = strconv.Quote(bad.GetValue()) + " is not a number"
	}
	if strings.HasPrefix(why, name+" ") { // zkCli's words name it
		return Misuse("%s", why)
	}
	return Misuse("%s: %s", name, why)
}

// parse reads the flags.
func (c *Command) parse(fs *pflag.FlagSet, words []Word) error {
	line, err := Reorder(fs, words, false)
	if err == nil {
		err = fs.Parse(line)
	}
	if errors.Is(err, pflag.ErrHelp) {
		return err
	}
	if err != nil && c.secret() { // what was typed must not show
		return Misuse("unknown flag (not shown because it may be a credential); put -- before an argument that begins with a dash")
	}
	if bad := (*pflag.InvalidValueError)(nil); errors.As(err, &bad) {
		return c.invalidValue(bad)
	}
	if unknown := (unknownFlag{}); errors.As(err, &unknown) && unknown.nearest == "" {
		return &UsageError{c, err.Error() + "; quote an argument that begins with a dash, or put -- before it", unknown.word}
	}
	if err != nil {
		return Misuse("%s", err)
	}
	return nil
}

// takesRest tells whether the words behind -- go to the command as they are.
func (c *Command) takesRest() bool {
	return len(c.Params) > 0 && c.Params[len(c.Params)-1].Rest
}

// cutRest takes the words behind -- away if they are not for us to read.
func (c *Command) cutRest(words []Word) (ours []Word, rest []string) {
	at := slices.IndexFunc(words, func(w Word) bool { return w.Text == "--" && !w.Quoted })
	if at < 0 || !c.takesRest() {
		return words, nil
	}
	return words[:at], texts(words[at+1:])
}

// count checks the positional words before -- against Params.
func (c *Command) count(args []string) error {
	params := c.Params
	if c.takesRest() {
		params = params[:len(params)-1]
	}
	if n := len(params); n > 0 && params[n-1].Many && len(args) > n {
		args = args[:n]
	}
	switch {
	case len(args) > len(params) && c.secret():
		return Misuse("too many arguments")
	case len(args) > len(params) && c.takesRest():
		return Misuse("unexpected word %q; put -- before the command to run", args[len(params)])
	case len(args) > len(params):
		return Misuse("unexpected word %q; quote a value that contains spaces", args[len(params)])
	case len(args) < len(params) && !params[len(args)].Optional:
		return Misuse("missing %s", params[len(args)].Name)
	}
	for i, a := range args {
		if p := params[i]; p.Kind == Choice && !slices.Contains(p.Words, strings.ToLower(a)) {
			if !strings.Contains(p.Name, "|") {
				return Misuse("there is no %s %q; the %[1]ss are %[3]s", p.Name, a, strings.Join(p.Words, ", "))
			}
			return Misuse("invalid argument %q: must be one of %s", a, strings.Join(p.Words, ", "))
		}
	}
	return nil
}

// secret tells whether one of the words is a credential.
func (c *Command) secret() bool {
	return slices.ContainsFunc(c.Params, func(p Param) bool { return p.Kind == Secret })
}

// All is zkCli's command set.
func All() []*Command {
	return []*Command{
		lsCommand, ls2Command, getCommand, statCommand, existsCommand, createCommand, setCommand, editCommand, deleteCommand,
		treeCommand, findCommand, duCommand, deleteallCommand, rmrCommand, countCommand, getACLCommand, setACLCommand, addauthCommand,
		setquotaCommand, listquotaCommand, delquotaCommand, addWatchCommand, removewatchesCommand, waitCommand, watchCommand, getEphemeralsCommand,
		connectCommand, closeCommand, syncCommand, whoamiCommand, versionCommand, configCommand, reconfigCommand,
	}
}

// done is the answer of a command zkCli lets pass without a word, with more facts
// about what it did.
func done(name, path string, more ...any) render.Answer {
	return render.Answer{JSON: append(render.Facts{"done", name, "path", path}, more...)}
}
