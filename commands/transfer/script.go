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

// scriptLines writes edits as commands of this shell.
func scriptLines(all iter.Seq2[zktree.Edit, error]) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		var last []string // ACLs that would keep us from making what is below
		for e, err := range all {
			if err != nil {
				yield("", err)
				return
			}
			now, later := lines(e)
			if last = append(last, later...); e.Does == zktree.SetsACL { // the last ones, what is deeper first
				slices.Reverse(last)
				now, last = append(last, now...), nil
			}
			for _, line := range now {
				if !yield(line, nil) {
					return
				}
			}
		}
		for _, line := range slices.Backward(last) {
			if !yield(line, nil) {
				return
			}
		}
	}
}

// lines are those of an edit, and those that are to come last.
func lines(e zktree.Edit) (now, later []string) {
	path := commands.Quote(e.Path)
	version := ""
	if e.Version >= 0 {
		version = fmt.Sprintf(" -v %d", e.Version)
	}
	switch e.Does {
	case zktree.Deletes:
		return []string{"delete" + version + " " + path}, nil
	case zktree.Creates:
		return creation(e.Znode, path)
	case zktree.Sets:
		flags, data := word(e.Znode.Data)
		if e.Znode.Data == nil {
			flags = " --null"
		}
		return []string{"set" + version + flags + " " + path + data}, nil
	case zktree.Opens, zktree.SetsACL:
		return []string{aclLine(path, version, e.Znode.ACL)}, nil
	}
	return []string{remark(path, e.Why)}, nil
}

// creation makes a znode with its ACL, but where that may shut us out while there is
// something to be made below it.
func creation(z *dump.Znode, path string) (now, later []string) {
	line := "create"
	switch z.Kind {
	case dump.Container:
		line += " -c"
	case dump.TTL:
		line += fmt.Sprintf(" -t %d", z.TTL.Milliseconds())
	}
	flags, data := word(z.Data)
	line += flags + " " + path + data
	acl, ok := commands.FormatACL(z.ACL)
	setACL := aclLine(path, "", z.ACL)
	switch {
	case z.ACL == nil || slices.Equal(z.ACL, zkconn.OpenACL()):
		return []string{line}, nil
	case !ok:
		return []string{remark(path, "the ACL cannot be written as a command argument, so the znode is not created")}, nil
	case zktree.ShutsOut(z) && z.Data == nil:
		return []string{line}, []string{setACL}
	case zktree.ShutsOut(z):
		return []string{line + " " + commands.Quote(acl+",auth::ca")}, []string{setACL}
	case z.Data == nil: // without data there is no place for the ACL
		return []string{line, setACL}, nil
	}
	return []string{line + " " + commands.Quote(acl)}, nil
}

func aclLine(path, version string, acl []zk.ACL) string {
	text, ok := commands.FormatACL(acl)
	if !ok {
		return remark(path, "the ACL cannot be written as a command argument, so it is not changed")
	}
	return "setAcl" + version + " " + path + " " + commands.Quote(text)
}

// remark is a line that does nothing.
func remark(path, why string) string {
	return "# " + path + ": " + strings.ReplaceAll(why, "\n", " ")
}

// word writes data as a word, and the flag for that if it is no text. Null is none.
func word(data []byte) (flags, word string) {
	switch {
	case data == nil:
		return "", ""
	case commands.IsText(data):
		return "", " " + commands.Quote(string(data))
	}
	return " -b", " " + commands.Quote(base64.StdEncoding.EncodeToString(data))
}
