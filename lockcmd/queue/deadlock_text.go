package queue

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/zksh/zksh/internal/render"
)

// Text implements render.Value. It writes the sessions of each deadlock one below the other, like
// the threads in a Java thread dump.
func (d *Deadlocks) Text(w io.Writer) error {
	if len(d.Findings) == 0 {
		_, err := fmt.Fprintf(w, "no deadlock in %d queues below %s\n", d.Queues, render.Safe(d.Path))
		return err
	}
	var b strings.Builder
	for i, f := range d.Findings {
		if i > 0 {
			b.WriteByte('\n')
		}
		f.write(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// isDeadlock reports whether the finding may be a deadlock. Other findings, such as a holder
// without a connection, are different problems.
func (f *Finding) isDeadlock() bool {
	return f.Kind == cycleFound || f.Kind == twiceFound || f.Kind == upgradeFound
}

func (f *Finding) write(b *strings.Builder) {
	head := "problem: "
	if f.isDeadlock() {
		head = "possible deadlock: "
	}
	b.WriteString(head + render.Safe(f.Problem) + "\n")
	for _, s := range f.Chain {
		b.WriteString("  " + s.Contender.label() + "\n")
		for _, line := range s.lines() {
			b.WriteString("    " + render.Safe(line) + "\n")
		}
	}
	if f.Command != "" {
		b.WriteString("  to resolve it: " + render.Safe(f.Command) + "\n")
	}
}

// lines describes in words which lock the contender holds or waits for, and which client blocks
// it.
func (s Step) lines() []string {
	c := s.Contender
	did := fmt.Sprintf("%s %s as %s, at place %d for %s (%s)", c.State, s.Path, c.modeName(), c.Place, cmp.Or(c.Age, "an unknown time"), strings.Join(c.Nodes, ","))
	if c.State == waits {
		did = strings.Replace(did, waits, "waits for", 1)
	}
	lines := []string{did}
	if a := s.Behind; a != nil {
		lines = append(lines, fmt.Sprintf("behind %s, which %s there for %s (%s)", a.Session, a.State, cmp.Or(a.Age, "an unknown time"), strings.Join(a.Nodes, ",")))
	}
	if r := s.Runs; r != nil {
		lines = append(lines, fmt.Sprintf("and runs %s, which waits for %s (%s)", r.Session, s.RunsPath, strings.Join(r.Nodes, ",")))
	}
	return lines
}

// Table returns one row for each contender that is involved in a finding.
func (d *Deadlocks) Table() render.Grid {
	g := render.Grid{Header: []string{"FINDING", "KIND", "PATH", "PLACE", "MODE", "STATE", "SESSION", "CLIENT", "AGE", "BEHIND", "WHO", "NODE"}}
	for i, f := range d.Findings {
		for _, s := range f.Chain {
			c, behind := s.Contender, "-"
			if s.Behind != nil {
				behind = s.Behind.Session
			}
			g.Rows = append(g.Rows, c.cells(strconv.Itoa(i+1), f.Kind, s.Path, strconv.Itoa(c.Place), c.modeName(), c.State, c.Session, c.Client, c.Age, behind))
		}
	}
	return g
}
