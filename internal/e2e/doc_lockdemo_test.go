//go:build unix

package e2e

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zktest"
)

// figures match the parts of lockdemo's output that differ from run to run or on a slow machine.
var figures = []struct {
	pattern *regexp.Regexp
	to      string
}{
	{regexp.MustCompile(`[0-9]+(\.[0-9]+)?`), "9"},
	{regexp.MustCompile(` +`), " "},
}

// shape returns the lines of a summary without their figures. The lines are sorted, because lockdemo
// orders them by cost and some costs are close together.
func shape(text string) []string {
	for _, f := range figures {
		text = f.pattern.ReplaceAllString(text, f.to)
	}
	return slices.Sorted(strings.Lines(text))
}

// The manual shows lockdemo's current output.
func TestDocLockdemo(t *testing.T) {
	t.Parallel()
	server := zktest.Sandbox(t, sandbox.Options{}).Addr()
	out := zksh(t, "-server", server, "lockdemo")
	_, summary, _ := strings.Cut(out, "\nThe lock passes")
	summary = "The lock passes" + summary
	b := findBlock(t, "lockdemo")
	if *update {
		b.write(t, "```\n"+summary+"```\n")
		return
	}
	if diff := cmp.Diff(shape("```\n"+summary+"```\n"), shape(b.text)); diff != "" {
		t.Errorf("run make docs; %s differs (-want +have):\n%s", b.file, diff)
	}
}
