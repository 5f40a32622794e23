package sandbox

import (
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/zksh/zksh/internal/jute"
)

// An id is an identity: either one that a client has authenticated, or one in an ACL entry.
type id struct{ scheme, id string }

var world = id{"world", "anyone"}

// An acl is one entry of an access control list.
type acl struct {
	perms int32
	id
	null bool // whether the id was a null string, which some of ZooKeeper's checks reject
}

// An aclList is an access control list that all nodes with the same ACL share.
type aclList struct {
	entries []acl
	key     string // key of this list in aclCache.lists
	refs    int    // number of nodes that use this list
}

// maxACL is the maximum number of entries in an ACL. ZooKeeper has no such limit. The sandbox
// needs one, because an entry with the scheme auth can expand to many entries.
const maxACL = 4096

// An aclCache stores each distinct ACL once. This saves memory, because most of the nodes in a
// large tree have the same few ACLs.
type aclCache struct {
	lists map[string]*aclList
	bytes int64 // estimated memory of all lists, in bytes
}

// aclCost returns the estimated memory of an ACL, in bytes.
func aclCost(list []acl) int64 {
	cost := int64(0)
	for _, a := range list {
		cost += int64(100 + 2*len(a.scheme) + 2*len(a.id.id))
	}
	return cost
}

// retain returns the shared copy of an ACL and increments its reference count. The caller must
// call release when it no longer uses the copy.
func (c *aclCache) retain(list []acl) *aclList {
	if c.lists == nil {
		c.lists = make(map[string]*aclList)
	}
	var b strings.Builder
	for _, a := range list {
		fmt.Fprintf(&b, "%d %q %q ", a.perms, a.scheme, a.id.id)
	}
	key := b.String()
	l := c.lists[key]
	if l == nil {
		l = &aclList{entries: slices.Clone(list), key: key}
		c.lists[key] = l
		c.bytes += aclCost(list)
	}
	l.refs++
	return l
}

// release decrements the reference count of a shared ACL, and removes the ACL from the cache when
// the count reaches 0.
func (c *aclCache) release(l *aclList) {
	if l.refs--; l.refs == 0 {
		delete(c.lists, l.key)
		c.bytes -= aclCost(l.entries)
	}
}

func writeACL(e *jute.Encoder, list []acl) {
	e.Int(int32(len(list)))
	for _, a := range list {
		e.Int(a.perms)
		e.String(a.scheme)
		e.String(a.id.id)
	}
}

// fixACL converts the ACL of a request to the form that ZooKeeper stores. It checks every entry and
// removes duplicates. caller contains the identities of the client. An entry with the scheme auth
// is replaced by an entry for each digest identity in caller.
func fixACL(list []acl, caller []id) ([]acl, code) {
	var fixed []acl
	seen := make(map[acl]bool, len(list))
	for _, a := range list {
		if seen[a] {
			continue
		}
		seen[a] = true
		switch {
		case a.scheme == "auth":
			before := len(fixed)
			for _, who := range caller {
				if who.scheme == "digest" {
					fixed = append(fixed, acl{perms: a.perms, id: who})
				}
			}
			if len(fixed) == before {
				return nil, codeInvalidACL
			}
			continue
		case a.null && slices.Contains([]string{"world", "digest", "ip"}, a.scheme):
			return nil, codeMarshalling
		case a.id == world:
		case a.scheme == "digest" && validDigest(a.id.id):
		case a.scheme == "ip" && parseIP(a.id.id).IsValid():
		default:
			return nil, codeInvalidACL
		}
		fixed = append(fixed, a)
	}
	if len(fixed) == 0 || len(fixed) > maxACL {
		return nil, codeInvalidACL
	}
	return fixed, codeOK
}

// allowed reports whether an ACL grants at least one of the permissions in perm. caller contains
// the identities of the client.
func allowed(list []acl, perm int32, caller []id) bool {
	if len(list) == 0 {
		return true
	}
	return isSuperuser(caller) || slices.ContainsFunc(list, func(a acl) bool {
		return a.perms&perm != 0 && (a.id == world || slices.ContainsFunc(caller, a.matches))
	})
}

// isSuperuser reports whether the identities of a client include that of the superuser.
func isSuperuser(ids []id) bool {
	return slices.ContainsFunc(ids, func(who id) bool { return who.scheme == "super" })
}

// matches reports whether the ACL entry applies to the identity who.
func (a acl) matches(who id) bool {
	return a.id == who || a.scheme == "ip" && who.scheme == "ip" && parseIP(a.id.id).Contains(parseIP(who.id).Addr())
}

// visibleTo returns the ACL entries that a client with the identities in caller may see. Password
// hashes are hidden unless the client has the permission ADMIN.
func (l *aclList) visibleTo(caller []id) []acl {
	if allowed(l.entries, permAdmin, caller) {
		return l.entries
	}
	list := slices.Clone(l.entries)
	for i, a := range list {
		if user, _, ok := strings.Cut(a.id.id, ":"); ok && a.scheme == "digest" {
			list[i].id.id = user + ":x"
		}
	}
	return list
}

// validDigest reports whether s, an id of the scheme digest, has exactly two parts, separated by a
// colon. Like String.split in Java, it ignores empty parts at the end.
func validDigest(s string) bool {
	return strings.Count(strings.TrimRight(s, ":"), ":") == 1
}

// parseIP parses an IPv4 address with an optional prefix length, such as "10.0.0.0/8". If s is
// anything else, it returns the zero Prefix, which matches no address.
func parseIP(s string) netip.Prefix {
	ip, length, cut := strings.Cut(s, "/")
	bits := 32
	if cut {
		n, err := strconv.Atoi(length)
		if err != nil || n < 0 || n > 32 {
			return netip.Prefix{}
		}
		bits = n
	}
	parts := strings.Split(ip, ".")
	if len(parts) != 4 {
		return netip.Prefix{}
	}
	var addr [4]byte
	for i, p := range parts {
		n, err := strconv.Atoi(p)
		if err != nil || n < 0 || n > 255 {
			return netip.Prefix{}
		}
		addr[i] = byte(n)
	}
	return netip.PrefixFrom(netip.AddrFrom4(addr), bits)
}

// digestOf returns the identity of a user in the ACL scheme digest: the user name, a colon, and
// the SHA-1 hash of "user:password" in Base64.
func digestOf(userPassword string) string {
	user, _, _ := strings.Cut(userPassword, ":")
	sum := sha1.Sum([]byte(userPassword))
	return user + ":" + base64.StdEncoding.EncodeToString(sum[:])
}

// authenticate checks the credential cred and returns the identities that it proves. It returns
// false if the scheme is unknown or the credential is invalid. null is true if the request
// contained a null string as the credential.
func (s *Server) authenticate(c *conn, scheme string, cred []byte, null bool) ([]id, bool) {
	switch scheme {
	case "ip":
		return []id{c.ip}, true
	case "digest":
		if null || len(cred) > maxCredential {
			return nil, false
		}
		ids := []id{{"digest", digestOf(string(cred))}}
		if s.opt.SuperDigest != "" && ids[0].id == s.opt.SuperDigest {
			ids = append(ids, id{"super", ""})
		}
		return ids, true
	}
	return nil, false
}

// readACL decodes an access control list from a request. A null list becomes an empty list.
func readACL(d *jute.Decoder) []acl {
	list := make([]acl, 0, d.Count(12, 40))
	for range cap(list) {
		a := acl{perms: d.Int()}
		a.scheme = d.String()
		a.id.id, a.null = nullString(d)
		list = append(list, a)
	}
	return list
}

// nullString decodes a string from a request and reports whether it was null rather than empty.
func nullString(d *jute.Decoder) (s string, null bool) {
	b := d.Buffer()
	return string(b), b == nil && d.Err() == nil
}
