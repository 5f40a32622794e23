package commands

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/zksh/zksh/internal/userfile"
	"github.com/zksh/zksh/internal/zkconn"
)

// Word is one word of a command line, without its quotes. A quoted word is never a flag.
type Word struct {
	Text   string
	Quoted bool
}

func texts(words []Word) []string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = w.Text
	}
	return out
}

// Line is a parsed command line. A Line can be run only once.
type Line struct {
	c      *Command
	run    Run
	args   []string
	numOwn int // number of args before "--"; the remaining args were after it

	flags      *pflag.FlagSet
	effect     Effect
	redirected bool // result of the method Redirected
}

// Read parses the words after the command's name. It returns pflag.ErrHelp if the words contain
// --help, or -h and the command has no flag -h.
func (c *Command) Read(env *Env, words []Word) (Line, error) {
	l, err := c.read(words)
	if errors.Is(err, pflag.ErrHelp) {
		return Line{}, err
	}
	if !c.Effect.Has(Offline) {
		if gone := env.Session.Gone(); gone != nil {
			return Line{}, gone
		}
	}
	if err != nil {
		return Line{}, c.asUsageError(err)
	}
	return l, nil
}

func (c *Command) read(words []Word) (l Line, err error) {
	words, rest := c.splitRest(words)
	if rest != nil && len(rest) == 0 {
		return l, Misuse("missing command after --")
	}
	d, flagless := c.declare(words)
	args := texts(words)
	if !flagless {
		if err := c.parse(d.fs, words); err != nil {
			return l, err
		}
		args = d.fs.Args()
	}
	if err := c.checkArgs(args); err != nil {
		return l, err
	}
	c.expandHome(args)
	return Line{
		c: c, run: d.run, args: append(args, rest...), numOwn: len(args),
		flags: d.fs, effect: c.effectOf(d.fs, args, len(rest) > 0),
	}, nil
}

// maybeFlag reports whether a word can be a flag, or end the flags.
func maybeFlag(w Word) bool { return !w.Quoted && strings.HasPrefix(w.Text, "-") }

// declare returns the flags and the function of a line. All lines without flags share them if the
// command has the effect OneRequest; flagless is then true. Declaring the flags again for each line
// would take an eighth of the time of a script.
func (c *Command) declare(words []Word) (d *declared, flagless bool) {
	flagless = c.Effect.Has(OneRequest) && !slices.ContainsFunc(words, maybeFlag)
	if flagless {
		if d = c.flagless.Load(); d != nil {
			return d, true
		}
	}
	fs := newFlagSet(c.Name)
	d = &declared{fs, c.Flags(fs)}
	if flagless {
		c.flagless.Store(d) // another goroutine may have stored an equal one
	}
	return d, flagless
}

// parse parses the flags in words and stores their values in fs.
func (c *Command) parse(fs *pflag.FlagSet, words []Word) error {
	line, err := Reorder(fs, words, false)
	if err == nil {
		err = fs.Parse(line)
	}
	if errors.Is(err, pflag.ErrHelp) {
		return err
	}
	if err != nil && c.takesSecret() { // do not print the rejected word, because it may be a credential
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

// invalidValue returns the error for a flag with an invalid value. The error names the flag in the
// same form as the usage line.
func (c *Command) invalidValue(bad *pflag.InvalidValueError) error {
	name := c.flagName(bad.GetFlag())
	why := whyInvalid(bad)
	if strings.HasPrefix(why, name+" ") { // error texts that come from zkCli already name the flag
		return Misuse("%s", why)
	}
	return Misuse("%s: %s", name, why)
}

// flagName returns the name of a flag as the command's usage line shows it.
func (c *Command) flagName(f *pflag.Flag) string {
	switch long := "--" + f.Name; {
	case f.Shorthand != "":
		return "-" + f.Shorthand
	case strings.Contains(c.Args, long):
		return long
	}
	return "-" + f.Name // the usage lines of zkCli's commands have long names with one dash
}

// whyInvalid explains why a value of a flag is invalid.
func whyInvalid(bad *pflag.InvalidValueError) string {
	if _, is := errors.AsType[*strconv.NumError](bad.Unwrap()); is {
		return strconv.Quote(bad.GetValue()) + " is not a number"
	}
	return strings.TrimPrefix(bad.Unwrap().Error(), "time: ")
}

// ExplainOption returns err, the error with which the parser of the program's options has failed, in
// zksh's words.
func ExplainOption(err error) error {
	if bad, is := errors.AsType[*pflag.InvalidValueError](err); is {
		return fmt.Errorf("--%s: %s", bad.GetFlag().Name, whyInvalid(bad))
	}
	return err
}

// takesRest reports whether the command receives the words after "--" unchanged.
func (c *Command) takesRest() bool {
	return len(c.Params) > 0 && c.Params[len(c.Params)-1].Rest
}

// splitRest splits words at "--", if the command receives the words after "--" unchanged: own are
// the words before it, and rest the words after it. Otherwise own contains all words.
func (c *Command) splitRest(words []Word) (own []Word, rest []string) {
	at := slices.IndexFunc(words, func(w Word) bool { return w.Text == "--" && !w.Quoted })
	if at < 0 || !c.takesRest() {
		return words, nil
	}
	return words[:at], texts(words[at+1:])
}

// checkArgs checks the number of positional arguments before "--" against the command's Params.
func (c *Command) checkArgs(args []string) error {
	params := c.Params
	if c.takesRest() {
		params = params[:len(params)-1]
	}
	if n := len(params); n > 0 && params[n-1].Many && len(args) > n {
		args = args[:n]
	}
	switch {
	case len(args) > len(params) && c.takesSecret():
		return Misuse("too many arguments")
	case len(args) > len(params) && c.takesRest():
		return Misuse("unexpected word %q; put -- before the command to run", args[len(params)])
	case len(args) > len(params):
		return Misuse("unexpected word %q; quote a value that contains spaces", args[len(params)])
	case len(args) < len(params) && !params[len(args)].Optional:
		return Misuse("missing %s", params[len(args)].Name)
	}
	for i, a := range args {
		if p := params[i]; a == "" && (p.Kind == File || p.Kind == Server) {
			return Misuse("the value of %s is empty", p.Name)
		}
		if p := params[i]; p.Kind == Choice && !slices.Contains(p.Words, strings.ToLower(a)) {
			if !strings.Contains(p.Name, "|") {
				return Misuse("there is no %s %q; the %[1]ss are %[3]s", p.Name, a, strings.Join(p.Words, ", "))
			}
			return Misuse("invalid argument %q: must be one of %s", a, strings.Join(p.Words, ", "))
		}
	}
	return nil
}

// expandHome replaces a leading ~/ in the arguments that name files. ParsePlace does the same for
// arguments that can also name a path.
func (c *Command) expandHome(args []string) {
	for i, a := range args {
		if c.Params[min(i, len(c.Params)-1)].Kind == File {
			args[i] = userfile.Home(a)
		}
	}
}

// takesSecret reports whether one of the command's positional arguments is a credential.
func (c *Command) takesSecret() bool {
	return slices.ContainsFunc(c.Params, func(p Param) bool { return p.Kind == Secret })
}

// asUsageError turns an error that Misuse returned into a UsageError of the command. It returns
// other errors unchanged.
func (c *Command) asUsageError(err error) error {
	if bad := misuse(""); errors.As(err, &bad) {
		return &UsageError{Command: c, Problem: string(bad)}
	}
	return err
}

// Has reports whether the line has at least one of the effects in e.
func (l Line) Has(e Effect) bool { return l.effect.Has(e) }

// FlagAgainst returns the flag because of which the line lacks the effects e, although its command
// can have them. It returns an empty string if there is no such flag.
func (l Line) FlagAgainst(e Effect) (flag string) {
	if !l.c.Effect.Has(e) {
		return ""
	}
	l.flags.Visit(func(f *pflag.Flag) {
		f.Changed = false
		if l.c.effectOf(l.flags, l.args[:l.numOwn], l.hasRest()).Has(e) {
			flag = l.c.flagName(f)
		}
		f.Changed = true
	})
	return flag
}

// Run runs the command with the line's arguments. If the command fails, the error says what its user
// can do next; see explain.
func (l Line) Run(ctx context.Context, env *Env) error {
	if l.c.Look == nil || !l.Has(Writes) {
		return l.c.asUsageError(l.run(ctx, env, l.args))
	}
	var recorder zkconn.Recorder
	err := l.c.asUsageError(l.run(recorder.Context(ctx), env, l.args))
	if err != nil {
		err = l.explain(ctx, env, err, recorder.Written())
	}
	return err
}

// Passing returns a remark if the line achieves only what ends with the session; see
// Command.Passing. Otherwise, it returns an empty string.
func (l Line) Passing() string {
	if l.c.Passing == nil {
		return ""
	}
	return l.c.Passing(l.flags, l.args[:l.numOwn])
}

// WithPaths returns a copy of the line in which every argument that is a path has been replaced by
// the result of resolve, without a slash at its end.
func (l Line) WithPaths(resolve func(path string) string) Line {
	l.args = slices.Clone(l.args)
	for i := range l.numOwn {
		p := l.c.Params[min(i, len(l.c.Params)-1)]
		if p.Kind != Path && p.Kind != HeldLock && (p.Kind != PlaceWord || !ParsePlace(l.args[i]).Here()) {
			continue
		}
		if l.args[i] = resolve(l.args[i]); p.Slash == nil || !p.Slash(l.flags) {
			l.args[i] = withoutSlash(l.args[i])
		}
	}
	return l
}

// withoutSlash removes one slash from the end of a path, because completion and many users append one.
func withoutSlash(path string) string {
	if short, ends := strings.CutSuffix(path, "/"); ends && short != "" && !strings.HasSuffix(short, "/") {
		return short
	}
	return path
}

// MapError returns a copy of the line that applies explain to each error of its command.
func (l Line) MapError(explain func(error) error) Line {
	c, run := l.c, l.run
	l.run = func(ctx context.Context, env *Env, args []string) error {
		return explain(c.asUsageError(run(ctx, env, args)))
	}
	return l
}

// WrappedBy returns a line that calls the function around, which in turn runs l. The new line
// cannot be part of a transaction, and cannot be in flight together with other lines.
func (l Line) WrappedBy(around Wrapper) Line {
	inner := l
	l.redirected = inner.Has(Joins)
	l.effect &= Writes | Asks | Quotas
	l.run = func(ctx context.Context, env *Env, _ []string) error { return around(ctx, env, inner.Run) }
	return l
}

// Bare reports whether the line has no arguments other than flags.
func (l Line) Bare() bool { return l.numOwn == 0 }

// Redirected reports whether the line cannot join a transaction for the sole reason that its output
// is redirected to a file or a program.
func (l Line) Redirected() bool { return l.redirected }

// Program reports whether the line runs a program, whose command line follows "--".
func (l Line) Program() bool { return l.hasRest() && !l.c.Effect.Has(RunsLine) }

// hasRest reports whether the line has words after "--".
func (l Line) hasRest() bool { return len(l.args) > l.numOwn }

// ReadInner calls read to parse the zksh command after "--", if the line has one. Mistakes in that
// command are then reported before anything runs. The returned line has the effect Writes if that
// command has it.
func (l Line) ReadInner(read func(words []Word) (Line, error)) (Line, error) {
	if !l.c.Effect.Has(RunsLine) || !l.hasRest() {
		return l, nil
	}
	var words []Word
	for _, text := range l.args[l.numOwn:] {
		words = append(words, Word{Text: text})
	}
	inner, err := read(words)
	l.effect |= inner.effect & Writes
	return l, err
}

// Do is a function that runs a command line.
type Do func(ctx context.Context, env *Env) error

// Wrapper is a function that runs another command line by calling do.
type Wrapper func(ctx context.Context, env *Env, do Do) error
