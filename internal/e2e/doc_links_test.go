//go:build unix

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"
)

// tablePages are the pages that consist of generated tables only.
var tablePages = []string{"commands", "options", "statuses"}

// markdown is a parsed document.
type markdown struct {
	source  []byte
	blocks  []ast.Node
	links   []string // destinations of links and images
	anchors []string
}

func parseMarkdown(t *testing.T, file string) (m markdown) {
	t.Helper()
	m.source = []byte(readFile(t, file))
	root := goldmark.New(goldmark.WithExtensions(extension.Table)).Parser().Parse(text.NewReader(m.source))
	for n := root.FirstChild(); n != nil; n = n.NextSibling() {
		m.blocks = append(m.blocks, n)
	}
	err := ast.Walk(root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch n := n.(type) {
		case *ast.Link:
			if entering {
				m.links = append(m.links, string(n.Destination))
			}
		case *ast.Image:
			if entering {
				m.links = append(m.links, string(n.Destination))
			}
		case *ast.Heading:
			if entering {
				slug := slug(m.heading(n))
				for i, first := 1, slug; slices.Contains(m.anchors, slug); i++ {
					slug = fmt.Sprintf("%s-%d", first, i)
				}
				m.anchors = append(m.anchors, slug)
			}
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// heading returns the text of a heading, or "" if n is not a heading.
func (m markdown) heading(n ast.Node) string {
	if n.Kind() != ast.KindHeading {
		return ""
	}
	return strings.NewReplacer("`", "", "*", "").Replace(string(n.Lines().Value(m.source)))
}

// slug returns the anchor that GitHub generates for a heading.
func slug(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-', r == '_', unicode.IsLetter(r), unicode.IsNumber(r):
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}

// Every link in a document leads to an existing file or heading.
func TestDocLinks(t *testing.T) {
	for _, file := range append(docs(t), "../../CONTRIBUTING.md", "../../CHANGELOG.md") {
		m := parseMarkdown(t, file)
		for _, link := range m.links {
			if regexp.MustCompile(`^(https?|mailto):`).MatchString(link) {
				continue
			}
			name, anchor, anchored := strings.Cut(link, "#")
			there := m
			if name != "" {
				name = filepath.Join(filepath.Dir(file), name)
				if _, err := os.Stat(name); err != nil {
					t.Errorf("%s: the link %s: %v", file, link, err)
					continue
				}
				if anchored {
					there = parseMarkdown(t, name)
				}
			}
			if anchored && !slices.Contains(there.anchors, anchor) {
				t.Errorf("%s: the link %s leads to no heading; there are %q", file, link, there.anchors)
			}
		}
	}
}

// A page begins with its purpose, shows common tasks, and ends with a list of limits.
func TestDocPages(t *testing.T) {
	for _, file := range docs(t)[1:] {
		m := parseMarkdown(t, file)
		title, ours := m.blocks[0].(*ast.Heading)
		if !ours || title.Level != 1 {
			t.Errorf("%s does not begin with its title", file)
		}
		if len(m.blocks) < 2 || m.blocks[1].Kind() != ast.KindParagraph {
			t.Errorf("%s does not say first what it is for", file)
		}
		if slices.Contains(tablePages, strings.TrimSuffix(filepath.Base(file), ".md")) {
			continue
		}
		if !slices.Contains(m.anchors, "common-tasks") {
			t.Errorf("%s has no section Common tasks", file)
		}
		last := slices.Clip(m.blocks[max(len(m.blocks)-2, 0):])
		if m.heading(last[0]) != "Limits" || last[1].Kind() != ast.KindList {
			t.Errorf("%s does not end with a section Limits, a list", file)
		}
	}
}
