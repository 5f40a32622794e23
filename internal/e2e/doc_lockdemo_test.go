//go:build unix

package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zktest"
)

const lockdemoPicture = "../../testdata/lockdemo.svg"

// figures match the parts of lockdemo's output that differ from run to run or on a slow machine.
var figures = []struct {
	pattern *regexp.Regexp
	to      string
}{
	{regexp.MustCompile(`disturbed by \d+`), "= server"},
	{regexp.MustCompile(`[▏▎▍▌▋▊▉█]+`), "▏"},
	{regexp.MustCompile(`(?s)\nThe wire.*`), ""},
	{regexp.MustCompile(`[0-9]+(\.[0-9]+)?`), "9"},
	{regexp.MustCompile(` +`), " "},
}

// shape returns the lines of a summary, or of a picture's titles, without their figures. The
// lines are sorted, because lockdemo orders them by cost and some costs are close together.
func shape(text string) []string {
	for _, f := range figures {
		text = f.pattern.ReplaceAllString(text, f.to)
	}
	return slices.Sorted(strings.Lines(text))
}

var svgTitle = regexp.MustCompile(`<text [^>]*font-weight="bold">([^<]*)</text>`)

func titles(svg string) string {
	var b strings.Builder
	for _, title := range svgTitle.FindAllStringSubmatch(svg, -1) {
		b.WriteString(title[1] + "\n")
	}
	return b.String()
}

// The manual shows lockdemo's current output.
func TestDocLockdemo(t *testing.T) {
	t.Parallel()
	server := zktest.Sandbox(t, sandbox.Options{}).Addr()
	out := zksh(t, "-server", server, "lockdemo")
	_, summary, _ := strings.Cut(out, "\nThe lock passes")
	summary = "The lock passes" + summary
	picture := filepath.Join(t.TempDir(), "lanes.svg")
	zksh(t, "-server", server, "lockdemo", "naive", "poll", "parent", "predecessor", "-n", "20", "--svg", picture)

	b := findBlock(t, "lockdemo")
	if *update {
		b.write(t, "```\n"+summary+"```\n")
		zktest.Must(t, os.WriteFile(lockdemoPicture, []byte(readFile(t, picture)), 0o644))
		return
	}
	if diff := cmp.Diff(shape("```\n"+summary+"```\n"), shape(b.text)); diff != "" {
		t.Errorf("run make docs; %s differs (-want +have):\n%s", b.file, diff)
	}
	if diff := cmp.Diff(shape(titles(readFile(t, picture))), shape(titles(readFile(t, lockdemoPicture)))); diff != "" {
		t.Errorf("run make docs; %s differs (-want +have):\n%s", lockdemoPicture, diff)
	}
}
