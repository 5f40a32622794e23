package undo

import (
	"fmt"
	"strings"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/userfile"
	"github.com/zksh/zksh/internal/zktree"
)

// Summary returns a remark on what a single command, typed in a shell such as bash, has saved, and on
// how to undo it. It returns an empty string if the command has saved nothing.
func (r *Recorder) Summary(env *commands.Env) string {
	var saved []*operation
	total := 0
	for _, op := range r.all {
		if op.Znodes == 0 {
			continue
		}
		if total++; (&store{r.log.Dir}).dumpName(op.N) != "" { // otherwise, it has been removed from the log since
			saved = append(saved, op)
		}
	}
	if len(saved) == 0 {
		return ""
	}
	last := saved[len(saved)-1]
	words := r.log.Again
	if last.checkServers(env) != nil {
		words = []string{"zksh", "--server", last.location(), "undo"}
	}
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = userfile.ShellWord(w)
	}
	again := strings.Join(quoted, " ")
	list := again + " -l"
	if last.Undoes != 0 { // add the number, because undo without a number skips undos
		again += fmt.Sprintf(" %d", last.N)
	}
	if len(saved) > 1 {
		count := fmt.Sprintf("%d operations", len(saved))
		if len(saved) < total {
			count = fmt.Sprintf("the last %d of %d operations", len(saved), total)
		}
		return fmt.Sprintf("%s are saved; to list them, run %s; to undo the last one (%s), run %s", count, list, last.words(), again)
	}
	what, it := last.savedText()
	text := fmt.Sprintf("%s: %s saved; to restore %s, run %s", last.words(), what, it, again)
	if lost := last.notRestored(); lost != "" {
		text += "; this does not restore " + lost
	}
	return text
}

// savedText returns what was saved as a phrase with its verb, such as "3 znodes are", and the
// pronoun for that phrase: it or them.
func (op *operation) savedText() (what, it string) {
	switch {
	case op.edits == 1 && op.deed == sets:
		return "the old data is", "it"
	case op.Command == "setAcl -R":
		return fmt.Sprintf("the old ACLs of %s are", zktree.Znodes(op.Znodes)), "them"
	case op.edits == 1 && op.deed == setsACL:
		return "the old ACL is", "it"
	case op.Znodes == 1:
		return "1 znode is", "it"
	}
	return zktree.Znodes(op.Znodes) + " are", "them"
}
