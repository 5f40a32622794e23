package commands

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// words splits a line at spaces. A word that begins with a double quote counts as quoted.
func words(line string) []Word {
	var out []Word
	for w := range strings.FieldsSeq(line) {
		text, quoted := strings.CutPrefix(w, `"`)
		out = append(out, Word{Text: strings.TrimSuffix(text, `"`), Quoted: quoted})
	}
	return out
}

// sample declares flags of every kind.
func sample(fs *pflag.FlagSet) {
	fs.BoolP("stat", "s", false, "")
	fs.BoolP("ephemeral", "e", false, "")
	fs.StringP("ttl", "t", "", "")
	fs.StringP("file", "f", "", "")
	fs.Bool("force", false, "")
	fs.String("as", "", "")
	fs.String("note", "", "")
	FlagMayBeEmpty(fs, "note")
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
		"--note= /a":          "--note= -- /a",
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
		"--xyzzy=5":  "unknown flag --xyzzy",
		"-s=1":       "flag -s takes no value",
		"--stat=1":   "flag --stat takes no value",
		"--force=":   "flag --force takes no value",
		"-t":         "flag -t needs a value",
		"/a -se -t":  "flag -t needs a value",
		"--ttl":      "flag --ttl needs a value",
		"-s -set":    "flag -set needs a value",
		"-t= /a":     "the value of -t is empty; give it a value, or leave -t out",
		`-st "" /a`:  "the value of -t is empty; give it a value, or leave -t out",
		`-ttl ""`:    "the value of -ttl is empty; give it a value, or leave -ttl out",
		"--as= -s":   "the value of --as is empty; give it a value, or leave --as out",
		"--help":     pflag.ErrHelp.Error(),
		"/a -h":      pflag.ErrHelp.Error(),
		"-t 5 -s -h": pflag.ErrHelp.Error(),
		"-sh":        "unknown flag -sh",
		"--=x":       "unknown flag --",
	} {
		if got, err := Reorder(sampleSet(), words(line), false); err == nil || err.Error() != want {
			t.Errorf("%s: %q, %v; want %s", line, got, err, want)
		}
	}
	// -1 and -h are flags of a command that declares them.
	fs := sampleSet()
	fs.BoolP("one", "1", false, "")
	fs.BoolP("human", "h", false, "")
	if got, err := Reorder(fs, words("-1 -h -2"), false); err != nil || strings.Join(got, " ") != "--one --human -- -2" {
		t.Errorf("%q, %v", got, err)
	}
}

// Reorder keeps every word that is not a flag, in order, and invents none.
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
