//go:build unix

package e2e

import (
	"path/filepath"
	"strings"
	"testing"
)

// readmeLimit is the maximum size of the README, in bytes. Details belong in the manual.
const readmeLimit = 12 * 1024

// The README is short and links to every page of the manual and to the other documents.
func TestReadme(t *testing.T) {
	text := readFile(t, readme)
	if len(text) > readmeLimit {
		t.Errorf("%s has %d bytes, at most %d are allowed", readme, len(text), readmeLimit)
	}
	targets := []string{"CONTRIBUTING.md", "CHANGELOG.md", "LICENSE"}
	for _, page := range docs(t)[1:] {
		targets = append(targets, "shell/manual/"+filepath.Base(page))
	}
	for _, target := range targets {
		if !strings.Contains(text, "]("+target+")") {
			t.Errorf("%s has no link to %s", readme, target)
		}
	}
	for _, command := range []string{"\nmake run ", "\nmake test "} {
		if !strings.Contains(text, command) {
			t.Errorf("%s does not show%s", readme, command)
		}
	}
}
