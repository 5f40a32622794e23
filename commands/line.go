package commands

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// Word is one word of a command line, without its quotes. A word that was written in quotes
// is data, never a flag.
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

// Line is a line that has been read, and can be run once.
type Line struct {
	c    *Command
	run  Run
	args []string
	own  int // how many of the args stood before --

	effect     Effect
	redirected bool // it could be part of a transaction, but its answers go elsewhere
}

// Read takes the words that follow the command's name. The error is pflag.ErrHelp
// where they have --help or -h, and the command has no such flag.
func (c *Command) Read(env *Env, words []Word) (Line, error) {
	l, err := c.read(words)
	if !(c.Effect | l.effect).Has(Offline) {
		if gone := env.Session.Gone(); gone != nil {
			return Line{}, gone
		}
	}
	if err != nil {
		return Line{}, c.usage(err)
	}
	return l, nil
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
	return Line{c: c, run: run, args: append(args, rest...), own: len(args), effect: c.effectOf(fs, args, len(rest) > 0)}, nil
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

// takesRest reports whether the command gets the words after -- unchanged.
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

// secret reports whether one of the command's words is a credential.
func (c *Command) secret() bool {
	return slices.ContainsFunc(c.Params, func(p Param) bool { return p.Kind == Secret })
}

// usage makes misuse a UsageError of the command.
func (c *Command) usage(err error) error {
	if bad := misused(""); errors.As(err, &bad) {
		return &UsageError{Command: c, Problem: string(bad)}
	}
	return err
}

// Has reports whether the line has an effect, by what the Command says of it, or of the line
// that it is over.
func (l Line) Has(e Effect) bool { return l.effect.Has(e) }

// Run carries the line out.
func (l Line) Run(ctx context.Context, env *Env) error { return l.c.usage(l.run(ctx, env, l.args)) }

// At is the line with its paths as resolve gives them.
func (l Line) At(resolve func(path string) string) Line {
	l.args = slices.Clone(l.args)
	for i := range l.own {
		if k := l.c.Params[min(i, len(l.c.Params)-1)].Kind; k == Path || k == HeldLock || k == Side && ParsePlace(l.args[i]).Here() {
			l.args[i] = resolve(l.args[i])
		}
	}
	return l
}

// Explained is the line with an error that explain may add something to.
func (l Line) Explained(explain func(error) error) Line {
	c, run := l.c, l.run
	l.run = func(ctx context.Context, env *Env, args []string) error { return explain(c.usage(run(ctx, env, args))) }
	return l
}

// Within is the line carried out by around. It runs alone.
func (l Line) Within(around Around) Line {
	inner := l
	l.redirected = inner.Has(Joins)
	l.effect &= inherited | Quotas
	l.run = func(ctx context.Context, env *Env, _ []string) error { return around(ctx, env, inner.Run) }
	return l
}

// Bare reports whether the line has no word besides flags.
func (l Line) Bare() bool { return l.own == 0 }

// Redirected reports whether the answers of a line that could join a transaction go elsewhere.
func (l Line) Redirected() bool { return l.redirected }

// Program reports whether the line has a program to run behind --.
func (l Line) Program() bool { return l.rest() && !l.c.Effect.Has(RunsLine) }

// rest reports whether there are words behind --.
func (l Line) rest() bool { return len(l.args) > l.own }

// Checked has read read the line behind -- once, if there is one: it may write if that
// does, and what is wrong with it is wrong before anything is done.
func (l Line) Checked(read func(words []Word) (Line, error)) (Line, error) {
	if !l.c.Effect.Has(RunsLine) || !l.rest() {
		return l, nil
	}
	var words []Word
	for _, text := range l.args[l.own:] {
		words = append(words, Word{Text: text})
	}
	inner, err := read(words)
	l.effect |= inner.effect & Writes
	return l, err
}

// Do carries a line out.
type Do func(ctx context.Context, env *Env) error

// Around carries a line out in a way of its own, by do.
type Around func(ctx context.Context, env *Env, do Do) error

// ReadOver is Read for a command that is Over another line, which read reads: now, and
// each time it is carried out.
func (c *Command) ReadOver(words []Word, read func(words []Word) (Line, error)) (l Line, err error) {
	fs := newFlagSet(c.Name)
	around := c.Over(fs)
	own, inner := c.CutOver(words)
	if err := c.parse(fs, own); err != nil {
		return l, c.usage(err)
	}
	if len(inner) == 0 {
		return l, c.usage(Misuse("missing %s", c.Params[0].Name))
	}
	over, err := read(inner)
	if err != nil {
		return l, err
	}
	l = Line{c: c, effect: c.Effect | over.effect&inherited, run: func(ctx context.Context, env *Env, _ []string) error {
		return around(ctx, env, func(ctx context.Context, env *Env) error {
			l, err := read(inner)
			if err != nil {
				return err
			}
			return l.Run(ctx, env)
		})
	}}
	return l, nil
}

// CutOver cuts the words of a command that is Over another line, before that line.
func (c *Command) CutOver(words []Word) (own, inner []Word) {
	fs := c.FlagSet()
	for i := 0; i < len(words); i++ {
		switch {
		case words[i].Text == "--" && !words[i].Quoted:
			return words[:i], words[i+1:]
		case isData(fs, words[i]):
			return words[:i], words[i:]
		}
		if _, wants, err := canonical(fs, words[i].Text); err == nil && wants {
			i++
		}
	}
	return words, nil
}
