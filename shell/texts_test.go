package shell_test

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/commands/transfer"
	"github.com/zksh/zksh/commands/undo"
	"github.com/zksh/zksh/internal/app"
	"github.com/zksh/zksh/internal/app/tutorial"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/lockcmd"
	"github.com/zksh/zksh/shell"
)

// every returns a shell with all commands of the program. It has no connection.
func every(t *testing.T) *shell.Shell {
	t.Helper()
	session, err := zkconn.Open(zkconn.Config{Servers: "127.0.0.1:1", Timeout: time.Second})
	zktest.Must(t, err)
	t.Cleanup(func() {
		zktest.Check(t, session.Close(context.Background()))
	})
	return shell.New(shell.Config{Session: session, Commands: commandTable()})
}

// commandTable returns the commands of the program, without those that package shell defines.
func commandTable() [][]*commands.Command {
	return [][]*commands.Command{
		commands.All(), {undo.Command(undo.Log{})}, transfer.Commands(), lockcmd.New().Commands(), app.SandboxCommand(nil), tutorial.New("").Commands(),
	}
}

// A file name may begin with ~/ wherever a command takes one: as the value of each flag whose value is
// described as a file, and as each argument that is a file or can be one.
func TestFileNamesBeginWithHome(t *testing.T) {
	t.Setenv("HOME", "/home/ann")
	const typed, want = "~/x", "/home/ann/x"
	checked := 0
	for _, c := range every(t).Registry().All() {
		fs := c.FlagSet()
		fs.VisitAll(func(f *pflag.Flag) {
			described, _ := pflag.UnquoteUsage(f)
			isFile := commands.FlagParam(f).Kind == commands.File
			if isFile != (described == "file") {
				t.Errorf("%s --%s: the help calls the value %q, declared as a file: %t", c.Name, f.Name, described, isFile)
			}
			if !isFile {
				return
			}
			checked++
			zktest.Must(t, fs.Set(f.Name, typed))
			if got := f.Value.String(); got != want {
				t.Errorf("%s --%s %s: %s, want %s", c.Name, f.Name, typed, got, want)
			}
		})
		words := make([]commands.Word, len(c.Params))
		for i, p := range c.Params {
			if words[i].Text = typed; p.Kind == commands.Choice {
				words[i].Text = p.Words[0]
			}
			if isFile := p.Kind == commands.File; p.Name == "file" && !isFile {
				t.Errorf("%s: the argument %s is not declared as a file", c.Name, p.Name)
			}
			if p.Rest {
				words = words[:i]
			}
		}
		stub := &commands.Command{Name: c.Name, Effect: commands.Offline, Params: c.Params}
		stub.Flags = commands.NoFlags(func(_ context.Context, _ *commands.Env, args []string) error {
			for i, got := range args {
				switch c.Params[i].Kind {
				case commands.PlaceWord:
					got = commands.ParsePlace(got).File
				case commands.File:
				default:
					continue
				}
				checked++
				if got != want {
					t.Errorf("%s %s: %s, want %s", c.Name, typed, got, want)
				}
			}
			return nil
		})
		line, err := stub.Read(nil, words)
		zktest.Must(t, err)
		zktest.Must(t, line.Run(t.Context(), nil))
	}
	if checked < 12 {
		t.Errorf("only %d places were checked", checked)
	}
}

// maxSummary is the maximum length of a summary in characters: it must fit on one line after the
// longest name of a command.
const maxSummary = 60

func TestSummariesAreImperative(t *testing.T) {
	notVerb := regexp.MustCompile(`^(a|an|the|what|tell|how|whether|[a-z]*(s|ing|ed)|[^a-z].*)$`)
	for _, c := range every(t).Registry().All() {
		if n := utf8.RuneCountInString(c.Summary); n > maxSummary {
			t.Errorf("%s: the summary has %d characters: %s", c.Name, n, c.Summary)
		}
		if first, _, _ := strings.Cut(c.Summary, " "); notVerb.MatchString(first) || strings.HasSuffix(c.Summary, ".") {
			t.Errorf("%s: the summary is not an imperative phrase: %s", c.Name, c.Summary)
		}
	}
}

// Each example of a command is a valid line. A command has at least two examples, unless it takes
// no arguments and no flags.
func TestExamplesCanBeTyped(t *testing.T) {
	s := every(t)
	for _, c := range s.Registry().All() {
		if (len(c.Params) > 0 || c.FlagSet().HasFlags()) && len(c.Examples) < 2 {
			t.Errorf("%s has fewer than two examples", c.Name)
		}
		for i, example := range c.Examples {
			if example != c.Name && !strings.HasPrefix(example, c.Name+" ") || slices.Contains(c.Examples[:i], example) {
				t.Errorf("%s: the example %q is of another command, or stands there twice", c.Name, example)
			}
			if err := s.Parse(example); err != nil {
				t.Errorf("%s: %v", example, err)
			}
		}
	}
	for _, bad := range []string{"ls --nonsense", "get", `set /a "b`, "nonsense", "find / -- nonsense"} {
		if s.Parse(bad) == nil {
			t.Errorf("%s passes for an example", bad)
		}
	}
}

// Help texts contain no retired words, and their sentences end with a full stop.
func TestHelpIsPlain(t *testing.T) {
	retired := regexp.MustCompile(`(?i)\b(by hand|refused?|is told|tells|blanks?|so many|kept|behind|gives?|but for|meanwhile is|what is)\b`)
	plain := func(name, text string) {
		if word := retired.FindString(text); word != "" {
			t.Errorf("%s has %q: %s", name, word, text)
		}
	}
	for _, c := range every(t).Registry().All() {
		plain(c.Name, c.Summary)
		for _, text := range slices.Concat(c.Paragraphs(), c.Limits) {
			plain(c.Name, text)
			if !strings.HasSuffix(text, ".") {
				t.Errorf("%s: not a sentence: %s", c.Name, text)
			}
		}
		c.FlagSet().VisitAll(func(f *pflag.Flag) {
			plain(c.Name+" --"+f.Name, f.Usage)
			if f.Usage == "" || strings.HasSuffix(f.Usage, ".") {
				t.Errorf("%s: --%s has no usage, or one that is a sentence: %q", c.Name, f.Name, f.Usage)
			}
		})
	}
}

// Every flag that takes a value rejects an empty one, unless an empty value has a meaning. Errors
// about a value name the flag as the usage line does.
func TestErrorsAboutFlagValues(t *testing.T) {
	meant := []string{"wait --value"}
	s := every(t)
	for _, c := range s.Registry().All() {
		c.FlagSet().VisitAll(func(f *pflag.Flag) {
			if f.NoOptDefVal != "" {
				return
			}
			name := "-" + f.Shorthand
			if f.Shorthand == "" {
				name = regexp.MustCompile(`--?` + f.Name + `\b`).FindString(c.Args)
			}
			problem := func(line string) string {
				t.Helper()
				err := s.Parse(line)
				if bad, is := errors.AsType[*commands.UsageError](err); is {
					return bad.Problem
				}
				return ""
			}
			for _, line := range []string{c.Name + " " + name + "=", c.Name + " " + name + " ''"} {
				want := "the value of " + name + " is empty; give it a value, or leave " + name + " out"
				if slices.Contains(meant, c.Name+" "+name) {
					want = "missing path" // no error about the flag
				}
				if got := problem(line); got != want {
					t.Errorf("%s: %q, want %q", line, got, want)
				}
			}
			got := problem(c.Name + " --" + f.Name + "=[(")
			if !slices.Contains([]string{"string", "stringArray"}, f.Value.Type()) && !strings.HasPrefix(got, name) {
				t.Errorf("%s %s: the error is %q", c.Name, name, got)
			}
		})
	}
}
