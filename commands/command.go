// Package commands has the contract of a shell command and zkCli's command set.
// A command is data and one function; help, completion, usage errors and the
// README's table all come out of the data.
package commands

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/pflag"

	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zkconn"
)

// Command describes one command of the shell.
type Command struct {
	Name    string
	Aliases []string
	Group   string  // heading in help
	Args    string  // zkCli's usage line without the name; every flag is in it
	Summary string  // one line
	Help    string  // more, in paragraphs; may be empty
	Example string  // one line that can be typed
	Params  []Param // the positional words, in order; all but optional ones are needed
	Offline bool    // works without a session

	// Flags declares the flags on a fresh set and returns the function that
	// runs the command with them; it runs once for each line.
	Flags func(fs *pflag.FlagSet) Run
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
	Path Kind = iota
	Data
	ACL
	Scheme
	Version
	Watch
	Server
	Number
	LineNumber // of the history
	Switch     // on or off
	CommandName
	Secret
)

// Param is one positional word.
type Param struct {
	Name     string
	Kind     Kind
	Optional bool
	Rest     bool // the last one only: all words behind --, as they are
}

// Env is what a command may touch.
type Env struct {
	Session *zkconn.Session
	Print   func(render.Value) error // an answer, on standard output
	Note    func(text string)        // a remark, on standard error
	// Meter shows progress while a long piece of work is under way; its result
	// ends the show. It draws only on a terminal.
	Meter func(verb string) (update func(done, total int), end func())
	// Alert tells of something that happened meanwhile, on standard error, however
	// quiet the shell is asked to be.
	Alert func(text string)
	// Live shows one line on the terminal, in the place of the one before; an
	// empty text takes it away. It tells whether there is a terminal.
	Live func(text string) bool
	// Window is the size of the terminal that standard output is, in columns and
	// rows; zeros where it is none, or where answers are JSON.
	Window func() (columns, rows int)
	// Redraw shows lines on the terminal that standard output is, in the place of
	// those it showed before; nil leaves those where they are. It is for lines that
	// are cut to the window. Elsewhere it does nothing.
	Redraw  func(lines []string) error
	Stdin   io.Reader // one-shot only, else nil
	Streams Streams   // for programs a command starts
	Mode    Mode
	// Ask puts a question to the person at the terminal, whose answer is yes or no.
	// It is nil when there is nobody to ask.
	Ask     func(ctx context.Context, question string) (bool, error)
	Version string // of zksh
}

// Streams are what a program started by a command gets as its own; nil is none.
type Streams struct{ In, Out, Err *os.File }

// Mode is how the shell gets its lines.
type Mode int

// The modes.
const (
	OneShot Mode = iota // one command on the program's command line
	Batch               // from a file or pipe
	ByHand              // typed
)

// UsageError is a line that cannot be meant as it stands; nothing was done.
type UsageError struct {
	Command *Command // nil for a line that names none
	Problem string
}

func (e *UsageError) Error() string {
	if e.Command == nil {
		return e.Problem
	}
	return fmt.Sprintf("%s (usage: %s)", e.Problem, e.Command.Usage())
}

// Unmet is the error of a command whose answer is its exit status, such as
// exists: nothing is printed.
type Unmet struct{}

func (Unmet) Error() string { return "no" }

// StatusError is an error that has an exit status of its own.
type StatusError struct {
	Status int
	Err    error // nil: there is nothing to print
}

func (e *StatusError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("status %d", e.Status)
	}
	return e.Err.Error()
}

// Unwrap gives the cause.
func (e *StatusError) Unwrap() error { return e.Err }

// FinalError is an error after which a batch does not go on, as what follows
// relied on what failed.
type FinalError struct{ Err error }

func (e *FinalError) Error() string { return e.Err.Error() }

// Unwrap gives the cause.
func (e *FinalError) Unwrap() error { return e.Err }

// Usage is the command's line in zkCli's usage screen.
func (c *Command) Usage() string {
	return strings.TrimRight(c.Name+" "+c.Args, " ")
}

func (c *Command) misuse(format string, args ...any) error {
	return &UsageError{c, fmt.Sprintf(format, args...)}
}

// FlagSet declares the command's flags, for help and completion.
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

// Execute runs the command with the words that follow its name.
func (c *Command) Execute(ctx context.Context, env *Env, words []Word) error {
	if !c.Offline && !env.Session.Live() {
		return zkconn.ErrNotConnected
	}
	fs := newFlagSet(c.Name)
	run := c.Flags(fs)
	words, rest := c.cutRest(words)
	if rest != nil && len(rest) == 0 {
		return c.misuse("there is nothing behind --")
	}
	line, err := Reorder(fs, words, false)
	if err == nil {
		err = fs.Parse(line)
	}
	if err != nil && c.secret() { // what was typed must not show
		return c.misuse("a flag that %s does not have; put -- before data that begins with a dash", c.Name)
	}
	if bad := (*pflag.InvalidValueError)(nil); errors.As(err, &bad) {
		return c.misuse("-%s: %s", cmp.Or(bad.GetFlag().Shorthand, bad.GetFlag().Name), bad.Unwrap())
	}
	if unknown := (unknownFlag{}); errors.As(err, &unknown) && unknown.nearest == "" {
		return c.misuse("%s; quote data that begins with a dash, or put -- before it", err)
	}
	if err != nil {
		return c.misuse("%s", err)
	}
	args := fs.Args()
	if err := c.count(args); err != nil {
		return err
	}
	return run(ctx, env, append(args, rest...))
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
	switch {
	case len(args) > len(params) && c.secret():
		return c.misuse("too many words")
	case len(args) > len(params) && c.takesRest():
		return c.misuse("unexpected word %q; put -- before the command to run", args[len(params)])
	case len(args) > len(params):
		return c.misuse("unexpected word %q; quote a value that has blanks", args[len(params)])
	case len(args) < len(params) && !params[len(args)].Optional:
		return c.misuse("missing %s", params[len(args)].Name)
	}
	return nil
}

// secret tells whether one of the words is a credential.
func (c *Command) secret() bool {
	return slices.ContainsFunc(c.Params, func(p Param) bool { return p.Kind == Secret })
}

// arg is the i-th positional word, or "" when it was left out.
func arg(args []string, i int) string {
	if i < len(args) {
		return args[i]
	}
	return ""
}

// Registry finds commands by name or alias.
type Registry struct {
	list   []*Command
	byName map[string]*Command
}

// NewRegistry collects commands. A name used twice is an error in the program
// and panics.
func NewRegistry(lists ...[]*Command) *Registry {
	r := &Registry{byName: map[string]*Command{}}
	for _, c := range slices.Concat(lists...) {
		for _, n := range append([]string{c.Name}, c.Aliases...) {
			if r.byName[n] != nil {
				panic("two commands are named " + n)
			}
			r.byName[n] = c
		}
		r.list = append(r.list, c)
	}
	return r
}

// Find returns the command of that name or alias, or nil.
func (r *Registry) Find(name string) *Command { return r.byName[name] }

// All returns the commands in the order of their registration.
func (r *Registry) All() []*Command { return r.list }

// Nearest returns the name closest to a mistyped one, or "" when none is close.
func (r *Registry) Nearest(name string) string {
	if name == "" || !unicode.IsLetter(rune(name[0])) {
		return ""
	}
	best, at := "", 1+min(2, len(name)/2)
	for _, c := range r.list {
		for _, n := range append([]string{c.Name}, c.Aliases...) {
			if d := distance(strings.ToLower(name), strings.ToLower(n)); d < at || d == at && best != "" && n < best {
				best, at = n, d
			}
		}
	}
	return best
}

// distance is the number of single-character edits, swaps of neighbours
// included, between two words.
func distance(a, b string) int {
	var before, prev, cur []int
	for j := range len(b) + 1 {
		prev = append(prev, j)
	}
	for i := range len(a) {
		cur = append(make([]int, 0, len(b)+1), i+1)
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			d := min(prev[j]+cost, prev[j+1]+1, cur[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				d = min(d, before[j-1]+1)
			}
			cur = append(cur, d)
		}
		before, prev = prev, cur
	}
	return prev[len(b)]
}

// All is zkCli's command set.
func All() []*Command {
	return slices.Concat(readCommands(), writeCommands(), treeCommands(), aclCommands(), quotaCommands(),
		watchCommands(), sessionCommands(), clusterCommands())
}
