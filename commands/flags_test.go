package commands

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// words makes plain words of a line; one in quotes is quoted.
func words(line string) []Word {
	var out []Word
	for w := range strings.FieldsSeq(line) {
		text, quoted := strings.CutPrefix(w, `"`)
		out = append(out, Word{Text: strings.TrimSuffix(text, `"`), Quoted: quoted})
	}
	return out
}

// sample has a flag of each kind, and one that is a digit's neighbour.
func sample(fs *pflag.FlagSet) {
	fs.BoolP("stat", "s", false, "")
	fs.BoolP("ephemeral", "e", false, "")
	fs.StringP("ttl", "t", "", "")
	fs.StringP("file", "f", "", "")
	fs.Bool("force", false, "")
	fs.String("as", "", "")
}

func sampleSet() *pflag.FlagSet {
	fs := newFlagSet("sample")
	sample(fs)
	return fs
}

func TestReorder(t *testing.T) {
	for line, want := range map[string]string{
		"":                    "--",
		"/a":                  "-- /a",
		"/a -s":               "--stat -- /a",
		"-se /a x":            "--stat --ephemeral -- /a x",
		"-set 5 /a":           "--stat --ephemeral --ttl=5 -- /a",
		"-st5 /a":             "--stat --ttl=5 -- /a",
		"-t=5 /a":             "--ttl=5 -- /a",
		"-t= /a":              "--ttl= -- /a",
		"/a -t 5":             "--ttl=5 -- /a",
		"-t -s /a":            "--ttl=-s -- /a",
		"-t -- /a":            "--ttl=-- -- /a",
		"--ttl 5 -ttl 6":      "--ttl=5 --ttl=6 --",
		"--ttl=5=6":           "--ttl=5=6 --",
		"-as kazoo -force":    "--as=kazoo --force --",
		"-stat":               "--stat --",
		"-s -- -e /a --":      "--stat -- -e /a --",
		`-s "-e" "--" -e`:     "--stat --ephemeral -- -e --",
		"/a -1 -2.5 -":        "-- /a -1 -2.5 -",
		`/a ""`:               "-- /a ",
		"-f /tmp/x -s /a -e":  "--file=/tmp/x --stat --ephemeral -- /a",
		`-t "-s" -s`:          "--ttl=-s --stat --",
		"-ts /a":              "--ttl=s -- /a",
		"/a 世界 -s":            "--stat -- /a 世界",
		"--force --stat x -s": "--force --stat --stat -- x",
	} {
		got, err := Reorder(sampleSet(), words(line), false)
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %q, %v; want %q", line, got, err, want)
		}
	}
	got, err := Reorder(sampleSet(), words("-s -t 5 ls -e -- -x"), true)
	if want := []string{"--stat", "--ttl=5", "--", "ls", "-e", "--", "-x"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("up to the first plain word: %q, %v; want %q", got, err, want)
	}
}

func TestReorderErrors(t *testing.T) {
	for line, want := range map[string]string{
		"-x":         "unknown flag -x",
		"-S":         "unknown flag -S; did you mean -s?",
		"-sx":        "unknown flag -sx",
		"--statt":    "unknown flag --statt; did you mean --stat?",
		"--s":        "unknown flag --s; did you mean -s?",
		"--xyzzy=5":  "unknown flag --xyzzy=5",
		"-s=1":       "flag -s takes no value",
		"--stat=1":   "flag --stat takes no value",
		"--force=":   "flag --force takes no value",
		"-t":         "flag -t needs a value",
		"/a -se -t":  "flag -t needs a value",
		"--ttl":      "flag --ttl needs a value",
		"-s -set":    "flag -set needs a value",
		"--help":     pflag.ErrHelp.Error(),
		"/a -h":      pflag.ErrHelp.Error(),
		"-t 5 -s -h": pflag.ErrHelp.Error(),
		"-sh":        "unknown flag -sh",
		"--=x":       "unknown flag --=x",
	} {
		if got, err := Reorder(sampleSet(), words(line), false); err == nil || err.Error() != want {
			t.Errorf("%s: %q, %v; want %s", line, got, err, want)
		}
	}
	// A digit is a flag where the command has it, and -h where it has that.
	fs := sampleSet()
	fs.BoolP("one", "1", false, "")
	fs.BoolP("human", "h", false, "")
	if got, err := Reorder(fs, words("-1 -h -2"), false); err != nil || strings.Join(got, " ") != "--one --human -- -2" {
		t.Errorf("%q, %v", got, err)
	}
}

// Whatever the words, each is a flag, a value or data, once and in its order.
func FuzzReorder(f *testing.F) {
	for _, s := range []string{"", "-s /a -t 5", "-- -s", `"-s" -`, "-=", "--ttl=", "-tt", "- -- -"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		fs := sampleSet()
		got, err := Reorder(fs, words(line), false)
		if err != nil {
			return
		}
		if err := fs.Parse(got); err != nil {
			t.Fatalf("%q became %q: %v", line, got, err)
		}
		rest := fs.Args()
		for _, w := range words(line) {
			if len(rest) > 0 && rest[0] == w.Text {
				rest = rest[1:]
			}
		}
		if len(rest) > 0 {
			t.Fatalf("%q became %q: %q were made up", line, got, rest)
		}
	})
}

func TestPosition(t *testing.T) {
	c := &Command{Name: "sample", Flags: func(fs *pflag.FlagSet) Run { sample(fs); return nil }}
	for _, c2 := range []struct {
		line  string
		index int
		flag  string
		ended bool
	}{
		{"", 0, "", false},
		{"/a", 1, "", false},
		{"-s /a -e", 1, "", false},
		{"/a -t", 1, "ttl", false},
		{"/a -st", 1, "ttl", false},
		{"/a --as", 1, "as", false},
		{"/a -t 5", 1, "", false},
		{"/a -t=5 x", 2, "", false},
		{"-x /a", 1, "", false},
		{`"-t" /a`, 2, "", false},
		{"-s --", 0, "", true},
		{"-s -- -t /a", 2, "", true},
		{"-t --", 0, "", false},
		{"-1 -", 2, "", false},
	} {
		index, flag, ended := c.Position(words(c2.line))
		name := ""
		if flag != nil {
			name = flag.Name
		}
		if index != c2.index || name != c2.flag || ended != c2.ended {
			t.Errorf("%s: word %d, flag %q, flags ended %v; want %d, %q, %v", c2.line, index, name, ended, c2.index, c2.flag, c2.ended)
		}
	}
}

func TestIntegerFlags(t *testing.T) {
	for line, want := range map[string]string{
		"":                       "-1 -1",
		"-v 7":                   "7 -1",
		"-v +7 -v 8":             "7 -1", // the first counts
		"-v -2147483648":         "-2147483648 -1",
		"-b 9223372036854775807": "-1 9223372036854775807",
		"-v 2147483648":          `invalid number "2147483648": must be a 32-bit integer`,
		"-b 9223372036854775808": `invalid number "9223372036854775808": must be a 64-bit integer`,
		"-v 1.5":                 `invalid number "1.5": must be a 32-bit integer`,
		"-v 0x10":                `invalid number "0x10": must be a 32-bit integer`,
		"-v 1_0":                 `invalid number "1_0": must be a 32-bit integer`,
		"-v=":                    `invalid number "": must be a 32-bit integer`,
		"-v 5 -v x":              `invalid number "x": must be a 32-bit integer`,
	} {
		fs := newFlagSet("sample")
		version, bytes := numberFlag(fs, 32, "version", "v", -1, ""), numberFlag(fs, 64, "bytes", "b", -1, "")
		line2, err := Reorder(fs, words(line), false)
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		got := ""
		var bad *pflag.InvalidValueError
		switch err := fs.Parse(line2); {
		case errors.As(err, &bad):
			got = bad.Unwrap().Error()
		case err != nil:
			t.Errorf("%s: %v", line, err)
		default:
			got = strings.Join([]string{fmt.Sprint(*version), fmt.Sprint(*bytes)}, " ")
		}
		if got != want {
			t.Errorf("%s: %s; want %s", line, got, want)
		}
	}
}

// execute reads a line and runs it.
func execute(c *Command, words []Word) error {
	l, err := c.Read(&Env{}, words)
	if err != nil {
		return err
	}
	return l.Run(context.Background(), &Env{})
}

// A line is counted and read before anything is done.
func TestRead(t *testing.T) {
	var got []string
	run := func(_ context.Context, _ *Env, args []string) error { got = args; return nil }
	flags := func(fs *pflag.FlagSet) Run { sample(fs); numberFlag(fs, 32, "version", "v", -1, ""); return run }
	sampled := &Command{Name: "sample", Args: "path [data]", Offline: true, Flags: flags,
		Params: []Param{{Name: "path"}, {Name: "data", Optional: true}}}
	secret := &Command{Name: "auth", Args: "scheme auth", Offline: true, Flags: flags,
		Params: []Param{{Name: "scheme"}, {Name: "auth", Kind: Secret}}}
	rest := &Command{Name: "lock", Args: "path [-- command]", Offline: true, Flags: flags,
		Params: []Param{{Name: "path"}, {Name: "command", Optional: true, Rest: true}}}
	for _, c := range []struct {
		c          *Command
		line, want string // the words it runs with, or the problem
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

func TestHint(t *testing.T) {
	r := NewRegistry(All())
	for name, want := range map[string]string{
		"gte": "get", "lss": "ls", "getACL": "getAcl", "setquote": "setquota",
		"rm": "delete", "RMDIR": "delete", "cat": "get", "touch": "create", "mkdir": "create", "lsr": "ls -R", "dump": "export -R", "rename": "mv",
		"delteall": "", "deletall": "", "rmrr": "", "x": "", "": "", "5": "", "/a": "", "世界": "",
	} {
		got := strings.TrimSuffix(strings.TrimPrefix(r.Hint(name), "did you mean "), "?")
		if got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
	for _, name := range []string{"grep", "less"} {
		if r.Hint(name) == "" {
			t.Errorf("%q: no hint", name)
		}
	}
	// Every other name with one letter too few finds its command, or at least no
	// command that removes whole trees.
	for _, c := range r.All() {
		for i := range c.Name {
			if got := r.Find(r.nearest(c.Name[:i] + c.Name[i+1:])); got != nil && got.Sweeps {
				t.Errorf("%s without its letter %d: %s", c.Name, i, got.Name)
			}
		}
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "ab", 2}, {"get", "get", 0}, {"gte", "get", 1}, {"gett", "get", 1}, {"et", "get", 1}, {"got", "get", 1}, {"teg", "get", 2}} {
		if got, back := distance(c.a, c.b), distance(c.b, c.a); got != c.want || back != c.want {
			t.Errorf("from %q to %q %d, back %d; want %d", c.a, c.b, got, back, c.want)
		}
	}
}

func TestAbout(t *testing.T) {
	r := NewRegistry(All())
	for word, want := range map[string]string{
		"quota": "setquota listquota delquota", "QUOTA": "setquota listquota delquota", "authent": "addauth whoami",
		"rm": "", "a": "", "": "", "znoise": "",
	} {
		var names []string
		for _, c := range r.About(word) {
			names = append(names, c.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%q is about %q, want %q", word, got, want)
		}
	}
}
