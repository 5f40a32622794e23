package undo

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/userfile"
	"github.com/zksh/zksh/internal/zktree"
)

// Summary is the Saver of a single command typed in a shell such as bash. It never asks the user.
// Instead, when the command ends, zksh prints how to undo it.
type Summary struct {
	*Saver
	log       Log
	recording *recordingBackend
}

// Summary returns a Saver for a single command typed in a shell such as bash. It saves data in the
// log.
func (l Log) Summary() *Summary {
	k := l.Saver()
	recording := &recordingBackend{backend: k.backend}
	k.backend = recording
	return &Summary{k, l, recording}
}

// SaveAndRun implements commands.Saver.
func (s *Summary) SaveAndRun(ctx context.Context, env *commands.Env, l commands.Loss, destroy commands.Destroy) error {
	if s.log.Ending != "" && slices.Equal(env.Session.Servers().Hosts, []string{s.log.Ending}) {
		return destroy(ctx, l.Version)
	}
	return s.Saver.SaveAndRun(ctx, env, l, destroy)
}

// Text returns a remark on what was saved and how to undo it, or an empty string if nothing was
// saved.
func (s *Summary) Text(env *commands.Env) string {
	all := s.recording.list()
	saved := slices.DeleteFunc(slices.Clone(all), func(e *entry) bool { return (&store{s.log.Dir}).dumpName(e.N) == "" }) // skip those removed from the log since
	if len(saved) == 0 {
		return ""
	}
	last := saved[len(saved)-1]
	words := s.log.Again
	if last.checkServers(env) != nil {
		words = []string{"zksh", "--server", last.location(), "undo"}
	}
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = userfile.ShellWord(w)
	}
	again := strings.Join(quoted, " ")
	list := again + " -l"
	if last.isUndo() { // add the number, because undo without a number skips undos
		again += fmt.Sprintf(" %d", last.N)
	}
	if len(saved) > 1 {
		count := fmt.Sprintf("%d operations", len(saved))
		if len(saved) < len(all) {
			count = fmt.Sprintf("the last %d of %d operations", len(saved), len(all))
		}
		if last.Line != "" && !last.isUndo() {
			return fmt.Sprintf("%s are saved; to undo them, run %s; to list them, run %s", count, again, list)
		}
		return fmt.Sprintf("%s are saved; to list them, run %s; to undo the last one (%s %s), run %s", count, list, last.Command, last.Path, again)
	}
	what, it := last.savedText()
	text := fmt.Sprintf("%s %s: %s saved; to restore %s, run %s", last.Command, last.Path, what, it, again)
	if lost := last.notRestored(); lost != "" {
		text += "; this does not restore " + lost
	}
	return text
}

// savedText returns what was saved as a phrase with its verb, such as "3 znodes are", and the
// pronoun for that phrase: it or them.
func (e *entry) savedText() (what, it string) {
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

// recordingBackend is a backend that also remembers which operations were saved.
type recordingBackend struct {
	backend
	mu    sync.Mutex
	saved []*entry // operations that were saved; guarded by mu
}

func (c *recordingBackend) list() []*entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.saved)
}

func (c *recordingBackend) begin() (draft, error) {
	d, err := c.backend.begin()
	return &recordingDraft{d, c}, err
}

func (c *recordingBackend) remove(n int) error {
	c.mu.Lock()
	c.saved = slices.DeleteFunc(c.saved, func(e *entry) bool { return e.N == n })
	c.mu.Unlock()
	return c.backend.remove(n)
}

// recordingDraft is a draft that adds its operation to a recordingBackend when it is committed.
type recordingDraft struct {
	draft
	c *recordingBackend
}

func (d *recordingDraft) commit(e *entry) error {
	if err := d.draft.commit(e); err != nil {
		return err
	}
	d.c.mu.Lock()
	defer d.c.mu.Unlock()
	d.c.saved = append(d.c.saved, e)
	return nil
}
