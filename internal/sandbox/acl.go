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

// id is an identity: what a connection has proved, or whom an ACL entry names.
type id struct{ scheme, id string }

var world = id{"world", "anyone"}

// acl is one entry of an access control list. null marks an entry whose id came
// as a null string, which some checks of the real one stumble over.
type acl struct {
	perms int32
	id
	null bool
}

// aclList is a list shared by all nodes that have it.
type aclList struct {
	entries []acl
	key     string
	refs    int
}

// maxACL is how many entries a list may have. The real one sets no limit, but
// an auth entry can stand for many.
const maxACL = 4096

// aclCache shares equal lists: nearly all nodes of a tree have one of a few.
type aclCache struct {
	lists map[string]*aclList
	bytes int64 // about what they take
}

// aclCost is about what a list takes.
func aclCost(list []acl) int64 {
	cost := int64(0)
	for _, a := range list {
		cost += int64(100 + 2*len(a.scheme) + 2*len(a.id.id))
	}
	return cost
}

// retain returns the shared list equal to this one, with one use more.
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

// release gives up one use.
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

// fixACL turns the list of a request into the one to store: doubles dropped,
// auth expanded to the caller's identities, every entry checked.
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

// allowed says whether one of the identities has one of the permissions.
func allowed(list []acl, perm int32, caller []id) bool {
	if len(list) == 0 {
		return true
	}
	for _, who := range caller {
		if who.scheme == "super" {
			return true
		}
	}
	return slices.ContainsFunc(list, func(a acl) bool {
		return a.perms&perm != 0 && (a.id == world || slices.ContainsFunc(caller, a.names))
	})
}

// names reports whether an entry is about an identity.
func (a acl) names(who id) bool {
	return a.id == who || a.scheme == "ip" && who.scheme == "ip" && parseIP(a.id.id).Contains(parseIP(who.id).Addr())
}

// shown is the list without digests for a caller who may not administer it.
func (l *aclList) shown(caller []id) []acl {
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

// validDigest says whether an id has two parts, counting as Java's split does:
// empty parts at the end do not count.
func validDigest(s string) bool {
	return strings.Count(strings.TrimRight(s, ":"), ":") == 1
}

// parseIP reads an IPv4 address with an optional prefix length.
// Anything else is the zero Prefix, which is not valid and contains nothing.
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

// digestOf is the id that "user:password" proves.
func digestOf(userPassword string) string {
	user, _, _ := strings.Cut(userPassword, ":")
	sum := sha1.Sum([]byte(userPassword))
	return user + ":" + base64.StdEncoding.EncodeToString(sum[:])
}

// authenticate returns the identities a credential adds to a connection, or
// false if the scheme is not served or the credential is void.
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

// readACL takes a list off a request; a null list is empty.
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

// nullString takes a string and says whether it was null.
func nullString(d *jute.Decoder) (s string, null bool) {
	b := d.Buffer()
	return string(b), b == nil && d.Err() == nil
}
