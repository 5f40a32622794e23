package commands

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"github.com/zksh/zksh/internal/render"
)

// Blanks are the bytes that separate words: what \s means to zkCli. Wider
// Unicode spaces are data, as node names may hold them.
const Blanks = " \t\n\v\f\r"

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

// Place is what a word of Kind Side says: a path here, one of another ensemble, or a
// file, whole or from a path on.
type Place struct {
	Spec string // a cluster or a connect string
	File string
	Path string // empty: all of the file
}

// fileMark begins a file's name that could be taken for something else.
const fileMark = "file:"

// ParsePlace reads the word. A file begins with ./ or ../, or with file: before its name;
// what has :/ in it and does not begin with a slash is of another ensemble.
func ParsePlace(word string) Place {
	name, named := strings.CutPrefix(word, fileMark)
	front, path := name, ""
	if at := strings.LastIndex(name, ":/"); at > 0 {
		front, path = name[:at], name[at+1:]
	}
	switch {
	case named || strings.HasPrefix(word, "./") || strings.HasPrefix(word, "../"):
		return Place{File: front, Path: path}
	case strings.HasPrefix(word, "/") || path == "":
		return Place{Path: word}
	}
	at := strings.Index(word, ":/")
	return Place{Spec: word[:at], Path: word[at+1:]}
}

// Here tells whether it is a path of the shell's own ensemble.
func (p Place) Here() bool { return p.Spec == "" && p.File == "" }

// The annotations of a flag whose values are known.
const (
	flagWords = "words"
	flagFile  = "file"
	flagLine  = "line"
)

// FlagWords says which values a flag takes, for completion.
func FlagWords(fs *pflag.FlagSet, name string, words ...string) {
	annotate(fs, name, map[string][]string{flagWords: words})
}

// Annotations that every flag of a kind shares: each line declares its flags anew.
var (
	fileFlag = map[string][]string{flagFile: nil}
	lineFlag = map[string][]string{flagLine: nil}
)

// FlagFile says that a flag's value is a file on this machine, for completion.
func FlagFile(fs *pflag.FlagSet, name string) { annotate(fs, name, fileFlag) }

// FlagLine says that a flag's value is a line of this shell, for completion.
func FlagLine(fs *pflag.FlagSet, name string) { annotate(fs, name, lineFlag) }

// annotate panics over a flag that the set does not have: a mistake in the program.
func annotate(fs *pflag.FlagSet, name string, annotations map[string][]string) {
	fs.Lookup(name).Annotations = annotations
}

// FlagParam is what a flag's value is, as if it were a positional word.
func FlagParam(f *pflag.Flag) Param {
	if words := f.Annotations[flagWords]; words != nil {
		return Param{Kind: Choice, Words: words}
	}
	if _, is := f.Annotations[flagFile]; is {
		return Param{Kind: File}
	}
	if _, is := f.Annotations[flagLine]; is {
		return Param{Kind: WholeLine}
	}
	return Param{Kind: Data}
}

// Do carries a line out.
type Do func(ctx context.Context, env *Env) error

// Around carries a line out in a way of its own, by do.
type Around func(ctx context.Context, env *Env, do Do) error

// Explained is the line with an error that explain may add something to.
func (l Line) Explained(explain func(error) error) Line {
	c, run := l.c, l.run
	l.run = func(ctx context.Context, env *Env, args []string) error { return explain(c.usage(run(ctx, env, args))) }
	return l
}

// Within is the line carried out by around. It runs alone.
func (l Line) Within(around Around) Line {
	inner := l
	l.joinsNot = inner.Joins()
	l.c = &Command{Name: l.c.Name, Args: l.c.Args, Examples: l.c.Examples, Params: l.c.Params, Quota: l.c.Quota}
	l.run = func(ctx context.Context, env *Env, _ []string) error { return around(ctx, env, inner.Run) }
	return l
}

// Bare tells whether the line has no word besides flags.
func (l Line) Bare() bool { return l.own == 0 }

// Redirected tells whether the answers of a line that could join a transaction go elsewhere.
func (l Line) Redirected() bool { return l.joinsNot }

// Program tells whether the line has a program to run behind --.
func (l Line) Program() bool { return l.rest() && !l.c.Lines }

// rest tells whether there are words behind --.
func (l Line) rest() bool { return len(l.args) > l.own }

// Checked has read read the line behind -- once, if there is one: it may write if that
// does, and what is wrong with it is wrong before anything is done.
func (l Line) Checked(read func(words []Word) (Line, error)) (Line, error) {
	if !l.c.Lines || !l.rest() {
		return l, nil
	}
	var words []Word
	for _, text := range l.args[l.own:] {
		words = append(words, Word{Text: text})
	}
	inner, err := read(words)
	l.writes = l.writes || inner.writes
	return l, err
}

// Streams tells whether its answer is one that can be printed as it comes, and no other
// follows it.
func (l Line) Streams() bool { return l.c.Streams && !l.rest() }

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
	l = Line{c: c, fs: fs, writes: over.writes, asks: over.asks, run: func(ctx context.Context, env *Env, _ []string) error {
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

// Quote writes a word so that the shell reads it back as one word, the plainest
// way that works. A word that could be taken for a flag is quoted, and so is
// the empty one. Whatever does not print is escaped, so that the result is
// one line and harmless on a terminal.
func Quote(word string) string {
	switch {
	case !Printable(word):
		return Escape(word)
	case word == "|" || word == ">" || word == ">>": // they would part the line
		return `"` + word + `"`
	case word != "" && !strings.Contains("-\"'", word[:1]) && !strings.HasPrefix(word, "$'") && !strings.ContainsAny(word, Blanks):
		return word
	case !strings.Contains(word, `"`):
		return `"` + word + `"`
	case !strings.Contains(word, "'"):
		return "'" + word + "'"
	}
	return Escape(word)
}

// Printable tells whether a word can be shown as it is.
func Printable(word string) bool {
	return utf8.ValidString(word) && strings.IndexFunc(word, notPrinted) < 0
}

func notPrinted(r rune) bool { return !unicode.IsPrint(r) || render.Hidden(r) }

// Escape writes a word as $'…'.
func Escape(word string) string {
	b := []byte("$'")
	for word != "" {
		r, n := utf8.DecodeRuneInString(word)
		switch i := strings.IndexRune("\n\r\t\\'", r); {
		case i >= 0:
			b = append(b, '\\', `nrt\'`[i])
		case n == 1 && (r == utf8.RuneError || notPrinted(r)):
			b = fmt.Appendf(b, `\x%02x`, word[0])
		case !notPrinted(r):
			b = append(b, word[:n]...)
		case r <= 0xFFFF:
			b = fmt.Appendf(b, `\u%04x`, r)
		default:
			b = fmt.Appendf(b, `\U%08x`, r)
		}
		word = word[n:]
	}
	return string(append(b, '\''))
}
