package commands

import (
	"context"
	"errors"
	"testing"
)

// A word of which there is a choice is checked before the command runs, in any case.
func TestChoice(t *testing.T) {
	ran := ""
	c := &Command{Name: "traffic", Offline: true, Params: []Param{
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
}
