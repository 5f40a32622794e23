package commands

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"
	"github.com/spf13/pflag"

	"github.com/zksh/zksh/internal/zkconn"
)

// An aclEdit is a change of single entries of an ACL: the values of setAcl's flags -a and -x.
type aclEdit struct{ add, remove *[]string }

// aclEditFlags declares the flags -a and -x.
func aclEditFlags(fs *pflag.FlagSet) aclEdit {
	e := aclEdit{
		add:    fs.StringArrayP("add", "a", nil, "add this `entry` to the ACL, or replace the permissions of its id"),
		remove: fs.StringArrayP("remove", "x", nil, "remove this `entry` from the ACL"),
	}
	annotate(fs, "add", aclFlag)
	annotate(fs, "remove", aclFlag)
	return e
}

// given reports whether the line has one of the flags.
func (e aclEdit) given() bool { return len(*e.add)+len(*e.remove) > 0 }

// read reads the ACL of a znode and returns the entries to add, the ACL after the change, and the
// version that the znode's ACL must still have. If required is not -1, the ACL must have this
// version already.
func (e aclEdit) read(ctx context.Context, env *Env, path string, required int32) (added, acl []zk.ACL, version int32, err error) {
	for _, word := range *e.add {
		entries, err := ParseACL(word)
		if err != nil {
			return nil, nil, 0, Misuse("-a: %s", err)
		}
		added = append(added, entries...)
	}
	access, err := zkconn.Do(ctx, env.Session, zkconn.GetACL(path))
	switch {
	case err != nil:
		return nil, nil, 0, err
	case required != -1 && access.Stat.Aversion != required:
		return nil, nil, 0, &zkconn.Error{Code: zkconn.BadVersion, Path: path, Versions: &zkconn.Versions{
			Of: zkconn.ACLVersion, Expected: int64(required), Actual: int64(access.Stat.Aversion), Known: true,
		}}
	case slices.ContainsFunc(access.ACL, zkconn.Masked):
		return nil, nil, 0, fmt.Errorf("the server hides the password hashes in the ACL of %s; run addauth as a user with admin permission on the znode", path)
	}
	acl, err = e.apply(path, access.ACL, added, env.Session.Digests())
	return added, acl, access.Stat.Aversion, err
}

// apply returns the ACL after the change. digests are the session's digest identities, for which
// the scheme auth stands.
func (e aclEdit) apply(path string, present, added []zk.ACL, digests []string) ([]zk.ACL, error) {
	acl := slices.Clone(present)
	for _, list := range *e.remove {
		words := []string{list} // an id may contain commas
		if !slices.ContainsFunc(acl, func(a zk.ACL) bool { return namesEntry(list, a) }) {
			words = strings.Split(list, ",")
		}
		for _, word := range words {
			before := len(acl)
			acl = slices.DeleteFunc(acl, func(a zk.ACL) bool { return namesEntry(word, a) })
			if len(acl) == before {
				return nil, fmt.Errorf("the ACL of %s has no entry %q; its entries are %s", path, maskEntry(word), describeACL(present))
			}
		}
	}
	for _, entry := range added {
		acl = slices.DeleteFunc(acl, func(a zk.ACL) bool {
			return a.Scheme == entry.Scheme && a.ID == entry.ID ||
				entry.Scheme == "auth" && a.Scheme == "digest" && slices.Contains(digests, a.ID)
		})
		acl = append(acl, entry)
	}
	if len(acl) == 0 {
		return nil, errors.New("-x would remove the last entry of the ACL of " + path + ", but an ACL cannot be empty; use -a to add another entry in the same line")
	}
	return acl, nil
}

// namesEntry reports whether word names an ACL entry: with or without its permissions, and for the
// scheme digest with or without the password hash.
func namesEntry(word string, a zk.ACL) bool {
	ids := []string{a.ID}
	if user, _, ok := strings.Cut(a.ID, ":"); ok && a.Scheme == "digest" {
		ids = append(ids, user)
	}
	withPerms, err := ParseACL(word)
	return slices.ContainsFunc(ids, func(id string) bool {
		return word == a.Scheme+":"+id || err == nil && len(withPerms) == 1 && withPerms[0] == zk.ACL{Perms: a.Perms, Scheme: a.Scheme, ID: id}
	})
}

// describeACL lists the entries of an ACL for an error message, without password hashes.
func describeACL(acl []zk.ACL) string {
	list := make([]string, len(acl))
	for i, a := range acl {
		if user, _, ok := strings.Cut(a.ID, ":"); ok && a.Scheme == "digest" {
			a.ID = user + ":…"
		}
		list[i] = formatEntry(a)
	}
	return strings.Join(list, ", ")
}
