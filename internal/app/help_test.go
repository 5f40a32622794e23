package app

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/render"
)

// --help fits on two screens of 24 lines by 80 columns and lists every option once.
func TestHelpFitsOnTwoScreens(t *testing.T) {
	text := strings.TrimSuffix(Help(80), "\n")
	if n := strings.Count(text, "\n") + 1; n > 48 {
		t.Errorf("--help has %d lines", n)
	}
	for line := range strings.SplitSeq(text, "\n") {
		if render.Width(line) > 80 {
			t.Errorf("%d columns: %s", render.Width(line), line)
		}
	}
	var grouped []string
	for _, g := range optionGroups {
		grouped = append(grouped, strings.Fields(g.options)...)
	}
	o := defaults()
	set, _ := declare(&o)
	set.VisitAll(func(f *pflag.Flag) {
		if f.Usage == "" {
			t.Errorf("--%s has no usage", f.Name)
		}
		if n := strings.Count(text+"\n", "  "+strings.TrimSpace(firstOf(brief(f)))); n < 1 {
			t.Errorf("--help lacks --%s", f.Name)
		}
		at := slices.Index(grouped, f.Name)
		if at < 0 {
			t.Errorf("--%s is in no group", f.Name)
			return
		}
		grouped = slices.Delete(grouped, at, at+1)
	})
	if len(grouped) > 0 {
		t.Errorf("in a second group, or not an option: %v", grouped)
	}
	for _, s := range commands.Statuses {
		if s.Brief == "" || s.Meaning == "" {
			t.Errorf("the exit status %d has no meaning", s.Status)
		}
	}
}

func firstOf(name, _ string) string { return name }

func TestNarrowHelp(t *testing.T) {
	for line := range strings.Lines(Help(60)) {
		if render.Width(strings.TrimSuffix(line, "\n")) > 60 {
			t.Errorf("wider than 60 columns: %q", line)
		}
	}
}
