package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Goals of export -R and import -R.
const (
	exportGoal = 2.0    // times the time of ls -R
	importGoal = 20_000 // znodes a second
)

// measureDumps measures how a tree is kept in a file, and brought back from it.
func (b *bench) measureDumps(quick bool) (text string, err error) {
	dir, err := os.MkdirTemp("", "zksh-bench-")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	t, runs := tree{"/kept", 100_000, 1000}, 9
	if quick {
		t.nodes, runs = 10_000, 1
	}
	if err := b.helper("make", t); err != nil {
		return "", err
	}
	file := filepath.Join(dir, "dump")
	var listed, exported, imported []sample
	for range runs {
		for _, w := range []struct {
			task
			to *[]sample
		}{
			{task{command: []string{"ls", "-R", t.root}, expect: "\n" + t.root, times: t.nodes}, &listed},
			{task{command: []string{"export", "-R", t.root, file}, expect: "wrote ", times: 1}, &exported},
			{task{command: []string{"deleteall", t.root}}, nil},
			{task{command: []string{"import", "-R", file}, expect: "made ", times: 1}, &imported},
		} {
			s, err := b.run(b.shell(b.zksh, w.task), w.task)
			if err != nil {
				return "", err
			}
			if w.to != nil {
				*w.to = append(*w.to, s)
			}
		}
	}
	if _, err := b.run(b.shell(b.zksh, task{command: []string{"deleteall", t.root}}), task{}); err != nil {
		return "", err
	}
	times := medianTime(exported).Seconds() / medianTime(listed).Seconds()
	rate := int(float64(t.nodes) / medianTime(imported).Seconds())
	met := func(is bool) string {
		if is {
			return "yes"
		}
		return "**no**"
	}
	return fmt.Sprintf("\n| what | measured | goal | memory | met |\n| --- | --: | --: | --: | --- |\n"+
		"| `export -R`, %s znodes | %.1f × `ls -R` | ≤ %.0f × | %s | %s |\n| `import -R`, %s znodes | %s/s | ≥ %s/s | %s | %s |\n",
		thousands(t.nodes), times, exportGoal, mebibytes(peak(exported)), met(times <= exportGoal),
		thousands(t.nodes), thousands(rate), thousands(importGoal), mebibytes(peak(imported)), met(rate >= importGoal)), b.helper("gone", t)
}
