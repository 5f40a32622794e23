package commands

import (
	"context"
	"fmt"
	"strings"

	"github.com/go-zookeeper/zk"
	"github.com/spf13/pflag"

	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktree"
)

// permLetters lists the letters of the permissions in zkCli's order: create, delete, read, write,
// admin.
const permLetters = "cdrwa"

// aclHelp is the part of help texts that explains how to write an ACL.
const aclHelp = "The ACL is a comma-separated list of scheme:id:perms, where perms is any combination of the letters c, d, r, w and a."

var permBits = map[rune]int32{'c': zk.PermCreate, 'd': zk.PermDelete, 'r': zk.PermRead, 'w': zk.PermWrite, 'a': zk.PermAdmin}

// ParseACL parses an ACL in zkCli's notation: a comma-separated list of scheme:id:perms. The scheme
// ends at the first colon, and perms begin after the last one. Unlike zkCli, which skips invalid
// entries, ParseACL rejects them: a mistyped ACL could lock everyone out of a znode for ever.
func ParseACL(s string) ([]zk.ACL, error) {
	var acl []zk.ACL
	for entry := range strings.SplitSeq(strings.TrimRight(s, ","), ",") {
		first, last := strings.IndexByte(entry, ':'), strings.LastIndexByte(entry, ':')
		if first < 0 || first == last {
			return nil, fmt.Errorf("%q does not have the form scheme:id:perm", maskEntry(entry))
		}
		var perms int32
		for _, letter := range entry[last+1:] {
			bit, ok := permBits[letter]
			if !ok {
				return nil, fmt.Errorf("Unknown perm type: %c in %q; valid letters are %s", letter, maskEntry(entry), permLetters)
			}
			perms |= bit
		}
		if perms == 0 {
			return nil, fmt.Errorf("%q grants no permissions; after the last colon, add any of the letters %s", maskEntry(entry), permLetters)
		}
		acl = append(acl, zk.ACL{Perms: perms, Scheme: entry[:first], ID: entry[first+1 : last]})
	}
	return acl, nil
}

// FormatACL formats an ACL in the notation that ParseACL parses.
func FormatACL(acl []zk.ACL) string {
	parts := make([]string, len(acl))
	for i, a := range acl {
		parts[i] = formatEntry(a)
	}
	return strings.Join(parts, ",")
}

// formatEntry formats an ACL entry as scheme:id:perms.
func formatEntry(a zk.ACL) string { return a.Scheme + ":" + a.ID + ":" + permString(a.Perms) }

// maskEntry returns an ACL entry with everything after the scheme hidden. Error messages use it,
// because the id of an entry may contain a password.
func maskEntry(entry string) string {
	if scheme, _, ok := strings.Cut(entry, ":"); ok {
		return scheme + ":…"
	}
	return entry
}

func permString(p int32) string {
	var b strings.Builder
	for _, letter := range permLetters {
		if p&permBits[letter] != 0 {
			b.WriteRune(letter)
		}
	}
	return b.String()
}

// juteEscape escapes special characters as ZooKeeper's Java code does in the text form of a record.
// zkCli prints ACL entries in this form.
var juteEscape = strings.NewReplacer("%", "%25", ",", "%2C", "}", "%7D", "\n", "%0A", "\r", "%0D", "\x00", "%00")

// aclAnswer returns the result of the command getAcl. Like zkCli, it prints two lines per ACL
// entry, because the toString method of the Java class Id ends its result with a line break.
func aclAnswer(path string, acl []zk.ACL, stat *render.Stat) render.Answer {
	var words strings.Builder
	g := render.Grid{Header: []string{"scheme", "id", "perms"}, Stat: stat}
	entries := []render.Facts{}
	for _, e := range acl {
		perms := permString(e.Perms)
		fmt.Fprintf(&words, "'%s,'%s\n: %s\n", juteEscape.Replace(e.Scheme), juteEscape.Replace(e.ID), perms)
		g.Rows = append(g.Rows, []string{e.Scheme, e.ID, perms})
		entries = append(entries, render.Facts{"scheme", e.Scheme, "id", e.ID, "perms", perms})
	}
	return render.Answer{Words: words.String(), Stat: stat, Grid: g, JSON: render.Facts{"path", path, "acl", entries, "stat", stat}}
}

var getACLCommand = &Command{
	Name: "getAcl", Group: "Access", Effect: OneRequest, Args: "[-s] path",
	Summary:  "print a znode's access control list",
	Examples: []string{"getAcl /app", "getAcl -s /app"},
	Params:   []Param{pathParam},
	Flags: func(fs *pflag.FlagSet) Run {
		stat := fs.BoolP("stat", "s", false, "also print the znode's stat")
		return func(ctx context.Context, env *Env, args []string) error {
			access, err := zkconn.Do(ctx, env.Session, zkconn.GetACL(args[0]))
			return env.answer(err, aclAnswer(args[0], access.ACL, statIfWanted(*stat, access.Stat)))
		}
	},
}

// setACLCommand is the command setAcl. It does not have the effect OneRequest, so the next line is
// sent only after the reply to setAcl. Otherwise a server could check the next write against the
// old ACL (PrepRequestProcessor, 3.8).
var setACLCommand = &Command{
	Name: "setAcl", Group: "Access", Effect: Writes | Destroys,
	Args:    "[-s] [-v version] [-R] [-y] [-a entry] [-x entry] path [acl] [version]",
	Summary: "write a znode's access control list",
	Help: aclHelp +
		" With a version, setAcl writes the ACL only if the version matches the znode's current aclVersion.\n\n" +
		"With -a, setAcl adds an entry to the present ACL. If the ACL already has an entry with this scheme and id, the " +
		"new permissions replace the old ones, as with setfacl -m. An entry auth::PERMS replaces the entries of all users " +
		"that this session added with addauth digest. With -x, setAcl removes an entry: scheme:id removes it whatever its " +
		"permissions are, scheme:id:perms only if it has exactly these, and digest:USER needs no hash. Both flags accept " +
		"several entries, separated by commas. Together, they make one change: setAcl first removes, then adds. If the ACL " +
		"has changed since setAcl read it, setAcl fails and writes nothing.\n\n" +
		"With -R, setAcl changes the entire subtree, and changes each znode after its children.\n\n" +
		"At the prompt, setAcl asks before it takes the permission to change the ACL away from your own session. With -y, " +
		"it does not ask.",
	Limits: []string{
		"An ACL cannot be empty, so -x does not remove the last entry.",
		"-R cannot be combined with -a or -x. To change a subtree, run: find PATH -- setAcl -a ENTRY {}.",
		"If the new ACL has an entry of a scheme other than world, digest, ip, sasl and x509 with admin permission, setAcl does not ask. " +
			"Before ZooKeeper 3.7, the same is true for ip, sasl and x509, and for a session with a digest user named super.",
	},
	Examples: []string{"setAcl /app auth::cdrwa,world:anyone:r", "setAcl -a ip:10.0.0.0/8:r /app", "setAcl -x world:anyone -a auth::cdrwa /app", "setAcl -R /app world:anyone:cdrwa"},
	Params:   []Param{pathParam, {Name: "acl", Kind: ACL, Optional: true}, {Name: "version", Kind: Data, Optional: true}},
	Look:     lookWith("getAcl -s"),
	Flags: func(fs *pflag.FlagSet) Run {
		stat := fs.BoolP("stat", "s", false, "print the znode's new stat")
		version := numberFlag(fs, 32, "version", "v", -1, "write only if the aclVersion equals this `version`")
		recurse := fs.BoolP("recursive", "R", false, "change the entire subtree")
		sure := fs.BoolP("yes", "y", false, "do not ask for confirmation")
		edit := aclEditFlags(fs)
		return func(ctx context.Context, env *Env, args []string) error {
			v, err := versionArg(fs, args, 2, version)
			if err != nil {
				return err
			}
			var acl, added []zk.ACL // added contains the entries that the line spells out
			switch {
			case edit.given() && *recurse:
				return Misuse("-R cannot be combined with -a or -x; for a subtree, run: find PATH -- setAcl -a ENTRY {}")
			case edit.given() && len(args) > 1:
				return Misuse("unexpected word %q: with -a and -x, setAcl changes the ACL that the znode has", maskEntry(args[1]))
			case edit.given():
				added, acl, v, err = edit.read(ctx, env, args[0], v)
			case len(args) < 2:
				return Misuse("missing acl")
			default:
				if acl, err = ParseACL(args[1]); err != nil {
					return Misuse("%s", err)
				}
				added = acl
			}
			if err != nil {
				return err
			}
			noteNoHash(env, added)
			if !*sure {
				if err := askLockOut(ctx, env, args[0], acl, v); err != nil {
					return err
				}
			}
			if *recurse {
				n := 0
				err := env.Record(ctx, "setAcl -R", args[0], func(ctx context.Context, rec zktree.Recorder) (err error) {
					update, end := env.Screen.Progress("changed")
					defer end()
					n, err = zktree.SetACL(ctx, env.Session.Client, args[0], acl, v, rec, update)
					return err
				})
				return env.answer(err, done("setAcl", args[0], "changed", n))
			}
			var st *zk.Stat
			e := &zktree.Edit{
				Does: zktree.SetsACL, Path: args[0], Old: anyOr(v, zk.Stat{Aversion: v}), New: &dump.Znode{ACL: acl},
			}
			err = env.changeOne(ctx, "setAcl", e, func(ctx context.Context, version int32) (err error) {
				st, err = zkconn.Do(ctx, env.Session, zkconn.SetACL(args[0], acl, version))
				return err
			})
			return env.answer(err, writeAnswer("setAcl", args[0], st, *stat))
		}
	},
}
