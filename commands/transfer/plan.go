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

// step is one of those that make a tree like its model.
type step struct {
	does    deed
	path    string
	z       *dump.Znode // as it is to be; with deletes as it is
	version int32       // that it has now; -1: unknown
	why     string      // of what cannot be done, or is not
	missing bool        // it is not there, and cannot be made
}

// deed is what a step does.
type deed int

const (
	leaves  deed = iota // the znode as it is, though it differs
	creates             // it
	sets                // its data
	opens               // it by its ACL, for what is to be made below
	setsACL             // in the end
	deletes             // it
)

// steps make a tree like its model, as far as both can be seen: parents are made first,
// children go first, and ACLs, which may shut us out, are last. Ephemeral znodes are left
// alone. Where an ACL has kept others from making something the new one comes first.
// Versions keep from being lost what changes meanwhile.
func steps(differences iter.Seq2[zktree.Difference, error], tree zktree.Tree) iter.Seq2[step, error] {
	return func(yield func(step, error) bool) {
		p := &planner{tree: tree}
		for d, err := range differences {
			if err != nil {
				yield(step{}, err)
				return
			}
			for _, s := range p.next(d) {
				if !yield(s, nil) {
					return
				}
			}
		}
		for _, s := range append(p.gone(), reversed(p.acls)...) {
			if !yield(s, nil) {
				return
			}
		}
	}
}

// missingError is that of a step whose znode cannot be made.
func (s step) missingError() error { return fmt.Errorf("%s: %s", s.path, s.why) }

// planner keeps what comes later.
type planner struct {
	tree    zktree.Tree
	deleted []step // parents first
	acls    []step
	masked  string // what is below it cannot be made; may be empty
}

func (p *planner) next(d zktree.Difference) (all []step) {
	at := step{path: p.tree.At(d.Below), version: -1}
	if d.A != nil && d.A.Stat != nil {
		at.version = d.A.Stat.Version
	}
	leave := func(why string) []step {
		at.why = why
		return append(p.gone(), at)
	}
	switch {
	case d.Err != nil:
		return leave(d.Err.Error())
	case d.B == nil && d.A.Kind != dump.Ephemeral:
		at.does, at.z = deletes, d.A
		p.deleted = append(p.deleted, at)
		return nil
	case d.B == nil || d.B.Kind == dump.Ephemeral || d.Aspect&zktree.KindDiffers != 0:
		return leave("ephemeral znodes are left as they are")
	case p.masked != "" && dump.Within(d.Below, p.masked):
		at.missing = d.A == nil
		return leave("one of its parents cannot be created")
	}
	at.z = d.B
	masked := slices.ContainsFunc(d.B.ACL, zkconn.Masked)
	switch {
	case d.A == nil && masked:
		p.masked, at.missing = d.Below, true
		return leave("the ACL contains no password hash (export or copy the znode as a user with admin permission on it)")
	case d.A == nil:
		at.does = creates
		return append(p.gone(), at)
	}
	if d.Aspect&zktree.DataDiffers != 0 {
		set := at
		set.does = sets
		all = append(p.gone(), set)
	}
	switch acl := at; {
	case d.Aspect&zktree.ACLDiffers == 0:
	case masked:
		all = append(all, leave("the ACL contains no password hash (export or copy the znode as a user with admin permission on it)")...)
	default:
		acl.does, acl.version = setsACL, -1
		if d.A.Stat != nil {
			acl.version = d.A.Stat.Aversion
		}
		if zktree.ShutsOut(d.A) && !zktree.ShutsOut(d.B) {
			acl.does = opens
			if zktree.WorldMay(d.B, zk.PermWrite) {
				return append(append(p.gone(), acl), all...)
			}
			return append(append(p.gone(), all...), acl)
		}
		p.acls = append(p.acls, acl)
	}
	return all
}

// gone are the znodes to be deleted, leaves first.
func (p *planner) gone() []step {
	all := reversed(p.deleted)
	p.deleted = nil
	return all
}

func reversed(all []step) []step {
	slices.Reverse(all)
	return all
}

// scriptLines writes the steps as commands of this shell.
func scriptLines(all iter.Seq2[step, error]) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		var last []string // ACLs that would keep us from making what is below
		for s, err := range all {
			if err != nil {
				yield("", err)
				return
			}
			now, later := s.commands()
			if last = append(last, later...); s.does == setsACL { // the last ones, what is deeper first
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

// commands are the lines of a step, and those that are to come last.
func (s step) commands() (now, later []string) {
	path := commands.Quote(s.path)
	version := ""
	if s.version >= 0 {
		version = fmt.Sprintf(" -v %d", s.version)
	}
	switch s.does {
	case deletes:
		return []string{"delete" + version + " " + path}, nil
	case creates:
		return s.creation(path)
	case sets:
		flags, data := word(s.z.Data)
		if s.z.Data == nil {
			flags = " --null"
		}
		return []string{"set" + version + flags + " " + path + data}, nil
	case opens, setsACL:
		return []string{aclLine(path, version, s.z.ACL)}, nil
	}
	return []string{remark(s.path, s.why)}, nil
}

// creation makes a znode with its ACL, but where that may shut us out while there is
// something to be made below it.
func (s step) creation(path string) (now, later []string) {
	line := "create"
	switch s.z.Kind {
	case dump.Container:
		line += " -c"
	case dump.TTL:
		line += fmt.Sprintf(" -t %d", s.z.TTL.Milliseconds())
	}
	flags, data := word(s.z.Data)
	line += flags + " " + path + data
	acl, ok := commands.FormatACL(s.z.ACL)
	setACL := aclLine(path, "", s.z.ACL)
	switch {
	case s.z.ACL == nil || slices.Equal(s.z.ACL, zkconn.OpenACL()):
		return []string{line}, nil
	case !ok:
		return []string{remark(s.path, "the ACL cannot be written as a command argument, so the znode is not created")}, nil
	case zktree.ShutsOut(s.z) && s.z.Data == nil:
		return []string{line}, []string{setACL}
	case zktree.ShutsOut(s.z):
		return []string{line + " " + commands.Quote(acl+",auth::ca")}, []string{setACL}
	case s.z.Data == nil: // without data there is no place for the ACL
		return []string{line, setACL}, nil
	}
	return []string{line + " " + commands.Quote(acl)}, nil
}

func aclLine(path, version string, acl []zk.ACL) string {
	text, ok := commands.FormatACL(acl)
	if !ok {
		return "# " + path + ": the ACL cannot be written as a command argument, so it is not changed"
	}
	return "setAcl" + version + " " + path + " " + commands.Quote(text)
}

// remark is a line that does nothing.
func remark(path, why string) string {
	return "# " + commands.Quote(path) + ": " + strings.ReplaceAll(why, "\n", " ")
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
