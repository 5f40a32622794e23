package undo

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/zktree"
)

// Summary is the Keeper of a single command, typed in another shell. Nobody is asked there, so
// the command says at its end how to undo it.
type Summary struct {
	*Keeper
	log   Log
	shelf *counted
}

// Summary returns the Keeper of a single command.
func (l Log) Summary() *Summary {
	k := l.Keeper()
	shelf := &counted{shelf: k.shelf}
	k.shelf = shelf
	return &Summary{k, l, shelf}
}

// Text is a remark on what was saved, or empty.
func (s *Summary) Text(env *commands.Env) string {
	all := s.shelf.list()
	saved := slices.DeleteFunc(slices.Clone(all), func(e *entry) bool { return (&store{s.log.Dir}).dumpOf(e.N) == "" }) // trimmed
	if len(saved) == 0 {
		return ""
	}
	last := saved[len(saved)-1]
	words := s.log.Again
	if last.elsewhere(env) != nil {
		words = []string{"zksh", "--server", last.place(), "undo"}
	}
	again := quotedForShell(words)
	list := again + " -l"
	if last.ofUndo() { // which undo without a number passes over
		again += fmt.Sprintf(" %d", last.N)
	}
	if len(saved) > 1 {
		count := fmt.Sprintf("%d operations", len(saved))
		if len(saved) < len(all) {
			count = fmt.Sprintf("the last %d of %d operations", len(saved), len(all))
		}
		if last.Line != "" && !last.ofUndo() {
			return fmt.Sprintf("%s are saved; to undo them, run %s; to list them, run %s", count, again, list)
		}
		return fmt.Sprintf("%s are saved; to list them, run %s; to undo the last one (%s %s), run %s", count, list, last.Command, last.Path, again)
	}
	what, it := last.what()
	text := fmt.Sprintf("%s %s: %s saved; to restore %s, run %s", last.Command, last.Path, what, it, again)
	if lost := last.lost(); lost != "" {
		text += "; this does not restore " + lost
	}
	return text
}

// quotedForShell is a command line as it is typed in a Unix shell.
func quotedForShell(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = w
		if w == "" || strings.ContainsFunc(w, needsQuotes) {
			quoted[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}

// needsQuotes reports whether a Unix shell may give r a meaning of its own.
func needsQuotes(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsNumber(r) && !strings.ContainsRune("_@%+=:,./-", r)
}

// what words what was saved of an operation, and its pronoun.
func (e *entry) what() (what, it string) {
	switch {
	case e.Of == commands.LostData:
		return "the old data is", "it"
	case e.Of == commands.LostACL:
		return "the old ACL is", "it"
	case e.Of == commands.LostACLs:
		return fmt.Sprintf("the old ACLs of %s are", zktree.Znodes(e.Znodes)), "them"
	case e.Znodes == 1:
		return "1 znode is", "it"
	}
	return zktree.Znodes(e.Znodes) + " are", "them"
}

// counted is a shelf that knows what was put there.
type counted struct {
	shelf
	mu    sync.Mutex
	saved []*entry
}

func (c *counted) list() []*entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.saved)
}

func (c *counted) begin() (draft, error) {
	d, err := c.shelf.begin()
	return &countedDraft{d, c}, err
}

func (c *counted) remove(n int) error {
	c.mu.Lock()
	c.saved = slices.DeleteFunc(c.saved, func(e *entry) bool { return e.N == n })
	c.mu.Unlock()
	return c.shelf.remove(n)
}

// countedDraft is an operation that is being saved there.
type countedDraft struct {
	draft
	c *counted
}

func (d *countedDraft) keep(e *entry) error {
	if err := d.draft.keep(e); err != nil {
		return err
	}
	d.c.mu.Lock()
	defer d.c.mu.Unlock()
	d.c.saved = append(d.c.saved, e)
	return nil
}
