//go:build unix

package e2e

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/app"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/shell/manual"
)

// The manual page has all there is, and groff nothing to say of it.
func TestManualPage(t *testing.T) {
	t.Parallel()
	_, err := exec.LookPath("groff")
	zktest.Need(t, err == nil, "groff-base")
	page := zksh(t, "man")
	shown := map[string]string{}
	for _, device := range []string{"utf8", "ascii"} {
		cmd := exec.Command("groff", "-man", "-ww", "-T"+device, "-P-cbou", "-rLL=200n", "-rHY=0")
		cmd.Stdin = strings.NewReader(page)
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		if err := cmd.Run(); err != nil || errs.Len() > 0 {
			t.Fatalf("groff: %v: %s", err, errs.String())
		}
		shown[device] = regexp.MustCompile(`\s+`).ReplaceAllString(out.String(), " ")
	}
	for _, columns := range []string{"60", "80"} {
		for _, device := range []string{"utf8", "ascii"} {
			cmd := exec.Command("groff", "-man", "-ww", "-T"+device, "-rLL="+columns+"n")
			cmd.Stdin = strings.NewReader(page)
			var errs bytes.Buffer
			cmd.Stderr = &errs
			if err := cmd.Run(); err != nil || errs.Len() > 0 {
				t.Errorf("in %s columns, %s: %v: %s", columns, device, err, errs.String())
			}
		}
	}
	has := func(text string) {
		t.Helper()
		if want := strings.Join(strings.Fields(strings.ReplaceAll(text, "…", "...")), " "); !strings.Contains(shown["utf8"], want) {
			t.Errorf("the manual lacks %q", want)
		}
	}
	for _, c := range registry().All() {
		has(c.Usage())
		has(c.Summary)
		has(c.Help)
		has(strings.Join(c.Examples, " "))
		c.FlagSet().VisitAll(func(f *pflag.Flag) {
			_, about := pflag.UnquoteUsage(f)
			has("--" + f.Name)
			has(about)
		})
	}
	for _, s := range commands.Statuses {
		has(s.Meaning)
	}
	for option := range strings.Lines(app.Help(0)) {
		if name := regexp.MustCompile(`--[a-z-]+`).FindString(option); strings.HasPrefix(strings.TrimSpace(option), "-") {
			has(name)
		}
	}
	for _, p := range manual.Pages() {
		text := readFile(t, filepath.Join("../../shell/manual", p.Topic+".md"))
		for _, heading := range regexp.MustCompile("(?m)^##+ (.*)").FindAllStringSubmatch(text, -1) {
			has(strings.ReplaceAll(heading[1], "`", ""))
		}
		for _, block := range fences(t, filepath.Join("../../shell/manual", p.Topic+".md"), ".*") {
			for line := range strings.Lines(block.text) {
				has(line)
			}
		}
		has(p.Summary)
	}
	has("ZKSH_SERVER")
	has("/.local/state/zksh/history")
	has("whether commands may write")
	if !strings.Contains(shown["utf8"], "--server host[:port][,...][/chroot]") {
		t.Error("a dash is none that can be typed")
	}
}
