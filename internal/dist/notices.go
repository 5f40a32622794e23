package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// notices returns the licence texts of Go and of all modules in the program p, except zksh
// itself. Most of these licences require that every copy of the program includes them. notices
// returns an error if it finds no licence of a module.
func (w builder) notices(p program) ([]byte, error) {
	goroot, err := run(w.root, p.settings(), "go", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	args := []string{"list", "-m", "-f", "{{.Path}} {{.Version}}\t{{.Dir}}"}
	for _, m := range p.info.Deps {
		args = append(args, m.Path)
	}
	modules, err := run(w.root, p.settings(), "go", args...)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	for line := range strings.Lines("Go " + p.info.GoVersion + "\t" + string(goroot) + string(modules)) {
		name, dir, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if err := licencesIn(dir, name, &b); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}

// licencesIn appends all licence files in the module's directory dir to b, each after a heading
// with the name of the module.
func licencesIn(dir, name string, b *bytes.Buffer) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	before := b.Len()
	for _, e := range entries {
		if e.IsDir() || !isLicence(e.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(b, "==== %s: %s\n\n%s\n\n", name, e.Name(), bytes.TrimSpace(text))
	}
	if b.Len() == before {
		return fmt.Errorf("no licence file for %s found in %s", name, dir)
	}
	return nil
}

func isLicence(name string) bool {
	begins := func(word string) bool { return strings.HasPrefix(strings.ToUpper(name), word) }
	return slices.ContainsFunc([]string{"LICENSE", "LICENCE", "COPYING", "NOTICE"}, begins)
}
