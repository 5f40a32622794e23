package commands

import (
	"context"
	"errors"
	"strings"
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
	c.Params[0].Name = "scheme"
	if err := execute(c, []Word{{Text: "on"}, {Text: "/any"}}); err == nil || !strings.HasPrefix(err.Error(), `there is no scheme "on"; the schemes are stop, go (`) {
		t.Error(err)
	}
}

func TestDeleteQuestion(t *testing.T) {
	for want, got := range map[string]string{
		"delete /a, which has no children (not ephemeral)? [y/N] ":        deleteQuestion("/a", 0, "not ephemeral", ""),
		"delete /a and the znode below it (1 ephemeral) on @prod? [y/N] ": deleteQuestion("/a", 1, "1 ephemeral", "@prod"),
		"delete /a and the 3 znodes below it (none ephemeral)? [y/N] ":    deleteQuestion("/a", 3, "none ephemeral", ""),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
