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

// lineOperations are those of one typed line, the latest first. A line such as find with a
// command has many of them.
type lineOperations struct {
	operations []*entry
	gone       int // how many earlier ones are not in the log any more
}

// lineOf returns the operations of the line that e is of, as far as undo without a number
// would undo them here.
func (s *store) lineOf(env *commands.Env, e *entry, all []*entry) lineOperations {
	if e.Line == "" {
		return lineOperations{operations: []*entry{e}}
	}
	l := lineOperations{gone: e.Part - 1}
	for _, other := range all {
		if other.Line != e.Line {
			continue
		}
		l.gone = min(l.gone, other.Part-1)
		if s.open(other) && other.elsewhere(env) == nil {
			l.operations = append(l.operations, other)
		}
	}
	return l
}

// words names the operations.
func (l lineOperations) words() string {
	last, first := l.operations[0], l.operations[len(l.operations)-1]
	text := fmt.Sprintf("operation %d (%s %s)", last.N, last.Command, last.Path)
	if first != last {
		text = fmt.Sprintf("operations %d-%d, all %d from one line (%s %s to %s %s)", first.N, last.N, len(l.operations), first.Command, first.Path, last.Command, last.Path)
	}
	return text
}

// confirm asks before the operations are undone on a cluster where that is to be confirmed.
// It does not ask where the undo fails anyway.
func (l lineOperations) confirm(ctx context.Context, env *commands.Env) error {
	if e := l.operations[0]; env.Confirm == "" || e.State == undone || e.elsewhere(env) != nil {
		return nil
	}
	return env.Leave(ctx, fmt.Sprintf("about to undo %s on %s", l.words(), env.Confirm))
}

// trimEvery is how many small operations of one line are kept before old ones are looked for.
const trimEvery = 64

func (s *store) trimAfter(newest *entry) error {
	if newest.Part > 1 && newest.Part%trimEvery != 0 && newest.Bytes < 1<<20 {
		return nil
	}
	return s.trim(newest.N)
}

// parts counts the operations of the latest line.
type parts struct {
	mu   sync.Mutex
	line string
	n    int
}

// count adds to the number of a line's operations, and returns it.
func (p *parts) count(line string, add int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if line != p.line {
		p.line, p.n = line, 0
	}
	p.n += add
	return p.n
}

// undo undoes all of them, or, where one has changed since, none.
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
		if err := l.try(ctx, how); err != nil {
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
	if l.gone > 0 {
		what := "1 earlier operation"
		if l.gone > 1 {
			what = fmt.Sprintf("%d earlier operations", l.gone)
		}
		how.env.Screen.Note("not restored: " + what + " of this line, which the log no longer contains")
	}
	return how.env.Screen.Print(l.answer(each))
}

// try returns the error of the first operation that could not be undone. What an operation
// has left, a later one of the same line may have changed: such an operation is not tried.
func (l lineOperations) try(ctx context.Context, how undoing) error {
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

// answer is that of the whole line.
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
		return render.Answer{Words: "would undo " + l.words() + ":\n" + strings.Join(append(plans, ""), "\n"), Wrap: true, JSON: render.Facts{"operations", all}}
	}
	did := restored(counts)
	if did == "" {
		did = "already in the saved state"
	}
	return render.Answer{Words: "undid " + l.words() + ": " + did + "\n", Wrap: true, JSON: render.Facts{"done", undoName, "operations", all}}
}
