package zklock

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Family is the naming scheme of a lock's znodes. It decides which other clients wait for
// the lock. The lock itself waits for every contender of a known kind, whatever its family.
type Family string

// Families of znode names, and the client libraries that use them.
const (
	Mutex    Family = "mutex" // Curator's InterProcessMutex, go-zookeeper's Lock
	RW       Family = "rw"    // Curator's InterProcessReadWriteLock
	Kazoo    Family = "kazoo" // kazoo's Lock, WriteLock and ReadLock
	noFamily Family = ""

	leaseFamily Family = "lease" // leases of a Semaphore
)

// Families returns all families, the default first.
func Families() []Family { return []Family{Mutex, RW, Kazoo} }

// Mode decides which other clients can hold a lock at the same time.
type Mode string

// The modes of a contender. A Lock is Exclusive or Shared, and a Semaphore is Counted.
const (
	Exclusive Mode = "exclusive"
	Shared    Mode = "shared"
	Counted   Mode = "counted" // a lease of a semaphore: a limited number of others can hold it, too
)

// Conflicts reports whether two contenders with the modes a and b exclude each other.
func Conflicts(a, b Mode) bool {
	return a != Counted && b != Counted && (a == Exclusive || b == Exclusive)
}

// Name is the parsed name of a lock's child.
type Name struct {
	Kind   string // readable name of the recipe that creates such names
	Mode   Mode
	GUID   string // text before the marker, which identifies the client; may be empty
	Number int64  // sequence number; negative after an overflow; NoNumber if there is none

	// The fields below are set only for znodes of an owned lock; see [Owned].
	Owner     string // hash of the owner's name; see [OwnedBy]
	Permanent bool   // the owner holds the lock; the znode of a waiting owner is ephemeral
	token     int64  // fencing token of a permanent znode
	family    Family
}

// NoNumber is the value of Name.Number for a name without a sequence number.
const NoNumber = -1 << 63

// A marker describes the text right before the sequence number, which identifies one kind of
// names.
type marker struct {
	text   string
	kind   string
	mode   Mode
	family Family // family that creates such names; noFamily if this package only recognizes them
}

// markers contains the markers of all known names, in the order in which ParseName searches for
// them. If one marker is a suffix of another, the longer one comes first. The names are those
// of Curator 5.4, kazoo 2.8, go-zookeeper 1.0, ZooKeeper's recipes, HBase 2 and Accumulo.
var markers = []marker{
	{"-read-lock-", "Curator mutex, shared", Shared, Mutex},
	{"__lock__", "kazoo lock", Exclusive, Kazoo},
	{"__rlock__", "kazoo read", Shared, Kazoo},
	{"__WRIT__", "Curator write", Exclusive, RW},
	{"__READ__", "Curator read", Shared, RW},
	{"-latch-", "Curator latch", Exclusive, noFamily},
	{"-lease-", "Curator semaphore", Counted, leaseFamily},
	{"zlock-", "Accumulo lock", Exclusive, noFamily},
	{"lock-", "Curator mutex", Exclusive, Mutex},
	{"write-", "HBase write", Exclusive, noFamily},
	{"read-", "HBase read", Shared, noFamily},
}

// ParseName parses the name of a lock's child. If no known recipe creates such a name, ok is
// false: the child is not a contender for the lock.
func ParseName(name string) (n Name, ok bool) {
	if isHex(name, 32) {
		return Name{Kind: "kazoo semaphore", Mode: Counted, GUID: name, Number: NoNumber}, true
	}
	head, number := splitNumber(name)
	if number == NoNumber {
		return Name{}, false
	}
	for _, m := range markers {
		if guid, found := strings.CutSuffix(head, m.text); found {
			n := m.name(guid, number)
			n.parseOwner(m.family)
			return n, true
		}
	}
	return parseOther(head, number)
}

// name returns the Name of a child with marker m. The marker "lock-" is shared by several
// recipes; the text before it tells them apart.
func (m marker) name(guid string, number int64) Name {
	n := Name{Kind: m.kind, Mode: m.mode, GUID: strings.TrimSuffix(guid, "-"), Number: number}
	switch {
	case m.text != "lock-":
	case strings.HasPrefix(guid, "read-"): // the shared lock of ZooKeeper's old tutorials
		n.Kind, n.Mode = "read lock", Shared
	case strings.HasPrefix(guid, "write-"):
		n.Kind = "write lock"
	case strings.HasPrefix(guid, "_c_") && isHex(strings.TrimSuffix(guid[3:], "-"), 32):
		n.Kind = "go-zookeeper lock"
	case !strings.HasPrefix(guid, "_c_"):
		n.Kind = "lock"
	}
	return n
}

// parseOther parses the names of recipes that put no fixed marker before the number. head is
// the part of the name before the number.
func parseOther(head string, number int64) (Name, bool) {
	if sid, ok := cutBoth(head, "x-", "-"); ok && isSession(sid) {
		return Name{Kind: "ZooKeeper recipe", Mode: Exclusive, GUID: sid, Number: number}, true
	}
	if guid, ok := cutBoth(head, "zlock#", "#"); ok {
		return Name{Kind: "Accumulo lock", Mode: Exclusive, GUID: guid, Number: number}, true
	}
	return Name{}, false
}

// splitNumber splits a name into the head and the server's sequence number. The server
// formats the number with %010d: ten digits, or a dash and nine or ten digits once the
// counter has overflowed. A dash belongs to the number only if a marker precedes it.
func splitNumber(name string) (head string, number int64) {
	i := len(name)
	for i > 0 && name[i-1] >= '0' && name[i-1] <= '9' {
		i--
	}
	digits := len(name) - i
	number, err := strconv.ParseInt(name[i:], 10, 64)
	switch {
	case err != nil || number > 1<<31:
		return name, NoNumber
	case i > 0 && name[i-1] == '-' && endsWithMarker(name[:i-1]) && (digits == 9 || digits == 10 && name[i] != '0'):
		return name[:i-1], -number
	case digits == 10 && number < 1<<31:
		return name[:i], number
	}
	return name, NoNumber
}

func endsWithMarker(head string) bool {
	return slices.ContainsFunc(markers, func(m marker) bool { return strings.HasSuffix(head, m.text) })
}

func cutBoth(s, prefix, suffix string) (string, bool) {
	s, ok := strings.CutPrefix(s, prefix)
	if !ok {
		return "", false
	}
	return strings.CutSuffix(s, suffix)
}

func isHex(s string, n int) bool {
	return len(s) == n && strings.Trim(s, "0123456789abcdef") == ""
}

// isSession reports whether s has the form of a session id: a decimal number as in
// ZooKeeper's Java recipe, or sixteen hexadecimal digits as in its C recipe.
func isSession(s string) bool {
	if isHex(s, 16) {
		return true
	}
	_, err := strconv.ParseInt(s, 10, 64)
	return err == nil
}

// prefix returns the name of a znode of the given family without its sequence number. guid is a UUID
// with its dashes.
func prefix(f Family, m Mode, guid string) string {
	i := slices.IndexFunc(markers, func(k marker) bool { return k.family == f && k.mode == m })
	return markers[i].prefix(guid)
}

func (m marker) prefix(guid string) string {
	switch {
	case m.family == Kazoo:
		return strings.ReplaceAll(guid, "-", "") + m.text
	case strings.HasPrefix(m.text, "-"):
		return "_c_" + guid + m.text
	}
	return "_c_" + guid + "-" + m.text
}

// isOwn reports whether a child was created by the attempt to acquire the lock that has this
// guid.
func isOwn(name, guid string) bool {
	return strings.HasPrefix(name, "_c_"+guid+"-") || strings.HasPrefix(name, strings.ReplaceAll(guid, "-", "")+"__")
}

// ownerHash returns the hash of an owner's name that the names of its znodes contain: 14
// hexadecimal digits.
func ownerHash(owner string) string {
	sum := sha256.Sum256([]byte(owner))
	return hex.EncodeToString(sum[:7])
}

// OwnedBy reports whether a child of a lock is a znode of this owner's lock; see [Owned]. The
// name of the znode contains only a hash of the owner. Two owners with the same hash are
// possible, but practically never occur by chance.
func OwnedBy(name, owner string) bool {
	n, ok := ParseName(path.Base(name))
	return ok && n.Owner == ownerHash(owner)
}

// The znode names of an owned lock contain UUIDs of version 8. The first 12 digits, and the two
// after the version, are the hash of the owner. The first digit of the fourth group is one of
// the digits below. The other 16 digits are random while the owner waits. Once the owner holds
// the lock, they are the fencing token, which differs from the czxid of the persistent znode.
const (
	digitWaiting = '8' // the znode is ephemeral
	digitHolding = '9' // the znode is persistent
)

// waitingGUID returns the GUID for an owner's attempt to acquire a lock. random is a random
// UUID.
func waitingGUID(owner, random string) string {
	digits := strings.ReplaceAll(random, "-", "")
	return ownedGUID(owner, digitWaiting, digits[15:16]+digits[17:])
}

// permanentGUID returns the GUID for the persistent znode of an owner.
func permanentGUID(owner string, token int64) string {
	return ownedGUID(owner, digitHolding, fmt.Sprintf("%016x", token))
}

// ownedGUID returns a UUID that contains the hash of the owner, a state (digitWaiting or
// digitHolding), and the 16 digits of rest.
func ownedGUID(owner string, state rune, rest string) string {
	return fmt.Sprintf("%s-%s-8%s%s-%c%s-%s", owner[:8], owner[8:12], owner[12:], rest[:1], state, rest[1:4], rest[4:])
}

// parseOwner sets the fields of n about the owner, if the name belongs to a znode of an owned
// lock.
func (n *Name) parseOwner(f Family) {
	digits := strings.TrimPrefix(n.GUID, "_c_")
	if f != Kazoo { // go-zookeeper's GUIDs are random digits without dashes
		if len(digits) != 36 {
			return
		}
		digits = strings.ReplaceAll(digits, "-", "")
	}
	if !isHex(digits, 32) || digits[12] != '8' || digits[16] != digitWaiting && digits[16] != digitHolding {
		return
	}
	n.family = f
	n.Owner, n.Permanent = digits[:12]+digits[13:15], digits[16] == digitHolding
	if n.Permanent {
		n.token, _ = strconv.ParseInt(digits[15:16]+digits[17:], 16, 64) // a token is never negative
	}
}

// newGUID returns a random UUID of version 4. It becomes part of the names of the lock's own
// znodes.
func newGUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
