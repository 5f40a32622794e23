package commands

import (
	"context"
	"slices"
)

// At is the line with its paths as resolve gives them.
func (l Line) At(resolve func(path string) string) Line {
	l.args = slices.Clone(l.args)
	for i := range l.own {
		if l.c.Params[i].Kind == Path {
			l.args[i] = resolve(l.args[i])
		}
	}
	return l
}

// Do carries a line out.
type Do func(ctx context.Context, env *Env) error

// Around carries a line out in a way of its own, by do.
type Around func(ctx context.Context, env *Env, do Do) error

// Within is the line carried out by around. It runs alone.
func (l Line) Within(around Around) Line {
	inner := l
	l.c = &Command{Name: l.c.Name, Args: l.c.Args, Example: l.c.Example, Params: l.c.Params, Quota: l.c.Quota}
	l.run = func(ctx context.Context, env *Env, _ []string) error { return around(ctx, env, inner.Run) }
	return l
}

// Program tells whether the line has a program to run behind --.
func (l Line) Program() bool { return len(l.args) > l.own }

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
	if _, err := read(inner); err != nil {
		return l, err
	}
	l = Line{c: c, fs: fs, run: func(ctx context.Context, env *Env, _ []string) error {
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
