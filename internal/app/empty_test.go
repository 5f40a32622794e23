package app

import (
	"errors"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/zksh/zksh/commands"
)

// Every option that takes a value rejects an empty one, except --proxy, where it means no proxy. The
// reason is that an empty value can turn off TLS, the certificate or the identity.
func TestEmptyOptions(t *testing.T) {
	o := defaults()
	set, _ := declare(&o)
	checked := 0
	set.VisitAll(func(f *pflag.Flag) {
		if f.NoOptDefVal != "" { // takes no value
			return
		}
		checked++
		spellings := [][]string{{"--" + f.Name, ""}, {"--" + f.Name + "="}, {"-" + f.Name, ""}}
		if f.Shorthand != "" {
			spellings = append(spellings, []string{"-" + f.Shorthand, ""}, []string{"-" + f.Shorthand + "="})
		}
		for _, args := range spellings {
			want := "the value of " + strings.TrimSuffix(args[0], "=") + " is empty; "
			_, err := parse(t, "", "", append(args, "ls", "/")...)
			switch {
			case f.Name == "proxy":
				if err != nil {
					t.Errorf("%q: %v", args, err)
				}
			case !errors.As(err, new(*commands.UsageError)) || !strings.HasPrefix(err.Error(), want):
				t.Errorf("%q: %v", args, err)
			}
		}
	})
	if checked < 15 {
		t.Errorf("only %d options were checked", checked)
	}
}

// A dash stands for a standard stream only with -f. Other options would take it for the name of a
// file, and --trace would create that file.
func TestDashIsNoFile(t *testing.T) {
	o := defaults()
	set, _ := declare(&o)
	set.VisitAll(func(f *pflag.Flag) {
		if commands.FlagParam(f).Kind != commands.File || f.Name == "file" {
			return
		}
		want := "--" + f.Name + " -: only -f accepts - for a standard stream; for a file with this name, write ./-"
		if _, err := parse(t, "", "", "--"+f.Name, "-", "ls", "/"); err == nil || err.Error() != want {
			t.Errorf("--%s: %v", f.Name, err)
		}
	})
}

// No key of the configuration file can have an empty value, neither above the sections nor in one.
func TestEmptySettings(t *testing.T) {
	for _, s := range settings {
		for _, line := range []string{s.key + " =", s.key + "=   "} {
			configs := map[string]string{line + "\n": ":1: "}
			if s.cluster {
				configs["[a]\nserver = h\n"+line+"\n"] = ":3: "
			}
			for config, at := range configs {
				_, err := parse(t, config, "")
				if !errors.As(err, new(*commands.UsageError)) ||
					!strings.Contains(err.Error(), at+"the value of "+s.key+" is empty; give it a value, or remove the line") {
					t.Errorf("%q: %v", config, err)
				}
			}
		}
	}
}
