package transfer

import (
	"encoding/base64"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktree"
)

// scriptLines returns the lines of a zksh script that carries out the given edits.
func scriptLines(all iter.Seq2[zktree.Edit, error]) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		// delayed contains the commands that set the ACLs of new znodes. Such an ACL could prevent
		// the script from creating descendants, so the script creates all znodes first.
		var delayed []string
		for e, err := range all {
			if err != nil {
				yield("", err)
				return
			}
			now, later := editLines(e)
			delayed = append(delayed, later...)
			// Edits that only set ACLs come after all other edits. Before the first such edit,
			// print the delayed commands, with those for children before those for their parents.
			if e.Does == zktree.SetsACL {
				slices.Reverse(delayed)
				now, delayed = append(delayed, now...), nil
			}
			for _, line := range now {
				if !yield(line, nil) {
					return
				}
			}
		}
		for _, line := range slices.Backward(delayed) {
			if !yield(line, nil) {
				return
			}
		}
	}
}

// editLines returns the commands that carry out an edit. The script must run the commands in later
// after it has created all znodes.
func editLines(e zktree.Edit) (now, later []string) {
	path := commands.Quote(e.Path)
	version := ""
	if e.Version >= 0 {
		version = fmt.Sprintf(" -v %d", e.Version)
	}
	switch e.Does {
	case zktree.Deletes:
		return []string{"delete" + version + " " + path}, nil
	case zktree.Creates:
		return createLines(e.Znode, path)
	case zktree.Sets:
		flags, data := dataWord(e.Znode.Data)
		if e.Znode.Data == nil {
			flags = " --null"
		}
		return []string{"set" + version + flags + " " + path + data}, nil
	case zktree.Opens, zktree.SetsACL:
		return []string{aclLine(path, version, e.Znode.ACL)}, nil
	}
	return []string{commentLine(path, e.Why)}, nil
}

// createLines returns the commands that create a znode. If the znode's ACL might prevent the script
// from creating descendants, later contains the command that sets this ACL.
func createLines(z *dump.Znode, path string) (now, later []string) {
	line := "create"
	switch z.Kind {
	case dump.Container:
		line += " -c"
	case dump.TTL:
		line += fmt.Sprintf(" -t %d", z.TTL.Milliseconds())
	}
	flags, data := dataWord(z.Data)
	line += flags + " " + path + data
	acl, ok := commands.FormatACL(z.ACL)
	setACL := aclLine(path, "", z.ACL)
	switch {
	case z.ACL == nil || slices.Equal(z.ACL, zkconn.OpenACL()):
		return []string{line}, nil
	case !ok:
		return []string{commentLine(path, "the ACL cannot be written as a command argument, so the znode is not created")}, nil
	case zktree.ShutsOut(z) && z.Data == nil:
		return []string{line}, []string{setACL}
	case zktree.ShutsOut(z):
		return []string{line + " " + commands.Quote(acl+",auth::ca")}, []string{setACL}
	case z.Data == nil: // the command create accepts an ACL only after data
		return []string{line, setACL}, nil
	}
	return []string{line + " " + commands.Quote(acl)}, nil
}

func aclLine(path, version string, acl []zk.ACL) string {
	text, ok := commands.FormatACL(acl)
	if !ok {
		return commentLine(path, "the ACL cannot be written as a command argument, so it is not changed")
	}
	return "setAcl" + version + " " + path + " " + commands.Quote(text)
}

// commentLine returns a comment line for a script. It consists of a path and a reason.
func commentLine(path, why string) string {
	return "# " + path + ": " + strings.ReplaceAll(why, "\n", " ")
}

// dataWord returns data in the form of a command's argument. If the argument is base64, flags
// contains the flag that declares this. If data is nil, both results are empty.
func dataWord(data []byte) (flags, word string) {
	switch {
	case data == nil:
		return "", ""
	case commands.IsText(data):
		return "", " " + commands.Quote(string(data))
	}
	return " -b", " " + commands.Quote(base64.StdEncoding.EncodeToString(data))
}
