package commands

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// A word with a fixed set of choices is checked before the command runs, regardless of case.
func TestChoice(t *testing.T) {
	ran := ""
	c := &Command{Name: "traffic", Effect: Offline, Params: []Param{
		{Name: "stop|go", Kind: Choice, Words: []string{"stop", "go"}}, {Name: "path", Optional: true},
	}}
	c.Flags = NoFlags(func(_ context.Context, _ *Env, args []string) error {
		ran = args[0]
		return nil
	})
	for word, want := range map[string]string{
		"stop": "", "GO": "", "on": `invalid argument "on": must be one of stop, go`, "sto": `invalid argument "sto": must be one of stop, go`, "": `invalid argument "": must be one of stop, go`,
	} {
		ran = "not run"
		err := execute(c, []Word{{Text: word}, {Text: "/any"}})
		var usage *UsageError
		switch {
		case want == "":
			if err != nil || ran != word {
				t.Errorf("%q: %v, %s", word, err, ran)
			}
		case !errors.As(err, &usage) || usage.Problem != want || ran != "not run":
			t.Errorf("%q: %v, %s; want %s", word, err, ran, want)
		}
	}
	c.Params[0].Name = "scheme"
	if err := execute(c, []Word{{Text: "on"}, {Text: "/any"}}); err == nil || !strings.HasPrefix(err.Error(), `there is no scheme "on"; the schemes are stop, go (`) {
		t.Error(err)
	}
}

// execute parses a line and runs it.
func execute(c *Command, words []Word) error {
	l, err := c.Read(&Env{}, words)
	if err != nil {
		return err
	}
	return l.Run(context.Background(), &Env{})
}

// The number of words and the flags are checked before the command runs.
func TestRead(t *testing.T) {
	var got []string
	run := func(_ context.Context, _ *Env, args []string) error { got = args; return nil }
	flags := func(fs *pflag.FlagSet) Run { sample(fs); numberFlag(fs, 32, "version", "v", -1, ""); return run }
	sampled := &Command{Name: "sample", Args: "path [data]", Effect: Offline, Flags: flags,
		Params: []Param{{Name: "path"}, {Name: "data", Optional: true}}}
	secret := &Command{Name: "auth", Args: "scheme auth", Effect: Offline, Flags: flags,
		Params: []Param{{Name: "scheme"}, {Name: "auth", Kind: Secret}}}
	rest := &Command{Name: "lock", Args: "path [-- command]", Effect: Offline, Flags: flags,
		Params: []Param{{Name: "path"}, {Name: "command", Optional: true, Rest: true}}}
	source := &Command{Name: "source", Args: "file [servers]", Effect: Offline, Flags: flags,
		Params: []Param{{Name: "file", Kind: File}, {Name: "servers", Kind: Server, Optional: true}}}
	for _, c := range []struct {
		c          *Command
		line, want string // want: the words that the command gets, or the text of the error
		flag       string
	}{
		{sampled, "/a -s x", "/a x", ""},
		{sampled, "-- -s", "-s", ""},
		{sampled, "", "missing path", ""},
		{sampled, "/a b c", `unexpected word "c"; quote a value that contains spaces`, ""},
		{sampled, "/a -x", "unknown flag -x; quote an argument that begins with a dash, or put -- before it", "-x"},
		{sampled, "/a -S", "unknown flag -S; did you mean -s?", ""},
		{sampled, "/a -v abc", `-v: invalid number "abc": must be a 32-bit integer`, ""},
		{sampled, "/a -v", "flag -v needs a value", ""},
		{sampled, `"" ""`, " ", ""},
		{source, "a b", "a b", ""},
		{source, `""`, "the value of file is empty", ""},
		{source, `a ""`, "the value of servers is empty", ""},
		{secret, "digest ann:secret", "digest ann:secret", ""},
		{secret, "digest", "missing auth", ""},
		{secret, "digest -ann:secret", "unknown flag (not shown because it may be a credential); put -- before an argument that begins with a dash", ""},
		{secret, "digest ann secret", "too many arguments", ""},
		{rest, "/a -- sh -c -s --", "/a sh -c -s --", ""},
		{rest, "/a", "/a", ""},
		{rest, "/a --", "missing command after --", ""},
		{rest, "-- sh", "missing path", ""},
		{rest, "/a sh", `unexpected word "sh"; put -- before the command to run`, ""},
	} {
		got = nil
		err := execute(c.c, words(c.line))
		var usage *UsageError
		switch {
		case err == nil && strings.Join(got, " ") == c.want:
		case errors.As(err, &usage) && usage.Problem == c.want && usage.Flag == c.flag && usage.Command == c.c && got == nil:
		default:
			t.Errorf("%s %s: ran with %q, %v; want %s", c.c.Name, c.line, got, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s %s: the credential is shown: %v", c.c.Name, c.line, err)
		}
	}
	for _, c := range []*Command{sampled, secret, rest} {
		for _, line := range []string{"--help", "-h", "/a --help", "/a b c -h"} {
			if err := execute(c, words(line)); !errors.Is(err, pflag.ErrHelp) {
				t.Errorf("%s %s: %v", c.Name, line, err)
			}
		}
	}
}

// Lines without flags share the result of Command.Flags if the command has the effect OneRequest.
func TestLinesWithoutFlags(t *testing.T) {
	for _, effect := range []Effect{Offline, Offline | OneRequest} {
		declared := 0
		c := &Command{Name: "sample", Args: "[-a] path", Effect: effect, Params: []Param{{Name: "path", Optional: true}},
			Flags: func(fs *pflag.FlagSet) Run {
				declared++
				all := fs.BoolP("all", "a", false, "")
				return func(_ context.Context, _ *Env, args []string) error { return fmt.Errorf("%v %q", *all, args) }
			}}
		for _, line := range []struct {
			words []Word
			want  string
		}{
			{[]Word{{Text: "/x"}}, `false ["/x"]`},
			{[]Word{{Text: "/x"}, {Text: "-a"}}, `true ["/x"]`},
			{[]Word{{Text: "-a", Quoted: true}}, `false ["-a"]`},
			{[]Word{{Text: "--"}, {Text: "-a"}}, `false ["-a"]`},
			{nil, `false []`},
		} {
			l, err := c.Read(&Env{}, line.words)
			if err == nil {
				err = l.Run(t.Context(), &Env{})
			}
			if err.Error() != line.want {
				t.Errorf("%v: %v, want %s", line.words, err, line.want)
			}
		}
		if _, err := c.Read(&Env{}, []Word{{Text: "/x"}, {Text: "/y"}}); err == nil || !strings.Contains(err.Error(), `unexpected word "/y"`) {
			t.Errorf("two paths: %v", err)
		}
		if want := map[bool]int{false: 6, true: 3}[effect.Has(OneRequest)]; declared != want {
			t.Errorf("effect %d: the flags were declared %d times, not %d", effect, declared, want)
		}
	}
}
