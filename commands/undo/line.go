package undo

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zktree"
)

// lineOperations contains the operations of one line typed at the prompt, latest first. A line can
// have many operations, for example if find runs a command for each znode.
type lineOperations struct {
	operations []*entry
	missing    int // number of earlier operations of the line that are no longer in the log
}

// lineOf returns the operations that undo without a number undoes together with e. These are the
// operations of the same line that can still be undone in this session. all lists the operations in
// the log, latest first.
func (s *store) lineOf(env *commands.Env, e *entry, all []*entry) lineOperations {
	if e.Line == "" {
		return lineOperations{operations: []*entry{e}}
	}
	l := lineOperations{missing: e.Part - 1}
	for _, other := range all {
		if other.Line != e.Line {
			continue
		}
		l.missing = min(l.missing, other.Part-1)
		if s.isOpen(other) && other.checkServers(env) == nil {
			l.operations = append(l.operations, other)
		}
	}
	return l
}

// describe returns a description of the operations for use in messages.
func (l lineOperations) describe() string {
	last, first := l.operations[0], l.operations[len(l.operations)-1]
	text := fmt.Sprintf("operation %d (%s %s)", last.N, last.Command, last.Path)
	if first != last {
		text = fmt.Sprintf("operations %d-%d, all %d from one line (%s %s to %s %s)", first.N, last.N, len(l.operations), first.Command, first.Path, last.Command, last.Path)
	}
	return text
}

// confirm asks the user before an undo, if writes to the cluster require confirmation. It asks
// nothing if the undo would fail anyway.
func (l lineOperations) confirm(ctx context.Context, env *commands.Env) error {
	if e := l.operations[0]; env.Confirm == "" || e.State == undone || e.checkServers(env) != nil {
		return nil
	}
	return env.AskToContinue(ctx, fmt.Sprintf("about to undo %s on %s", l.describe(), env.Confirm))
}

// trimEvery is how many small operations of one line are saved between two trims of the undo log.
const trimEvery = 64

// trimAfter trims the undo log after the operation saved has been added to it. To save time,
// trimAfter does nothing after most of the small operations of a line.
func (s *store) trimAfter(saved *entry) error {
	if saved.Part > 1 && saved.Part%trimEvery != 0 && saved.Bytes < 1<<20 {
		return nil
	}
	return s.trim(saved.N)
}

// partCounter counts the operations of the line that was typed last.
type partCounter struct {
	mu   sync.Mutex
	line string
	n    int
}

// count adds delta to the number of operations of a line, and returns the new number.
func (p *partCounter) count(line string, delta int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if line != p.line {
		p.line, p.n = line, 0
	}
	p.n += delta
	return p.n
}

// undo undoes all operations of the line. how contains the settings of the command undo. If undo
// finds a conflict before it has changed anything, it changes nothing.
func (l lineOperations) undo(ctx context.Context, how undoing) error {
	each := make([]*undoing, len(l.operations))
	for i, e := range l.operations {
		u := how
		u.entry = e
		each[i] = &u
	}
	if len(each) == 1 {
		if err := each[0].undo(ctx); err != nil {
			return err
		}
		return how.env.Screen.Print(each[0].answer())
	}
	if !how.dry {
		if err := l.dryRun(ctx, how); err != nil {
			return err
		}
	}
	for i, u := range each {
		if err := u.undo(ctx); err != nil {
			if i > 0 {
				err = fmt.Errorf("%w (undid %d of the line's %d operations; to undo the rest, run undo again)", err, i, len(each))
			}
			return err
		}
	}
	if l.missing > 0 {
		what := "1 earlier operation"
		if l.missing > 1 {
			what = fmt.Sprintf("%d earlier operations", l.missing)
		}
		how.env.Screen.Note("not restored: " + what + " of this line, which the log no longer contains")
	}
	return how.env.Screen.Print(l.answer(each))
}

// dryRun checks whether the operations can be undone, without undoing any. It returns the error of
// the first operation that cannot be undone. It skips an operation if a later one affects the same
// znodes, because these znodes may then differ from the result of the earlier operation.
func (l lineOperations) dryRun(ctx context.Context, how undoing) error {
	var later []string
	for _, e := range l.operations {
		related := slices.ContainsFunc(later, func(path string) bool { return dump.Within(path, e.Path) || dump.Within(e.Path, path) })
		if later = append(later, e.Path); related {
			continue
		}
		u := how
		u.entry, u.dry = e, true
		if err := u.run(ctx); err != nil {
			return err
		}
	}
	return nil
}

// answer returns the result of undoing all operations of a line.
func (l lineOperations) answer(each []*undoing) render.Answer {
	var counts zktree.Counts
	var plans []string
	all := make([]any, len(each))
	for i, u := range each {
		counts.Created, counts.Changed = counts.Created+u.counts.Created, counts.Changed+u.counts.Changed
		plans = append(plans, u.plan...)
		all[i] = u.answer().JSON
	}
	if each[0].dry {
		return render.Answer{Words: "would undo " + l.describe() + ":\n" + strings.Join(append(plans, ""), "\n"), Wrap: true, JSON: render.Facts{"operations", all}}
	}
	did := countsText(counts)
	if did == "" {
		did = "already in the saved state"
	}
	return render.Answer{Words: "undid " + l.describe() + ": " + did + "\n", Wrap: true, JSON: render.Facts{"done", undoName, "operations", all}}
}
