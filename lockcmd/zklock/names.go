package zklock

import (
	"crypto/rand"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Family is the set of names that a lock gives its znodes. It decides which other clients
// wait for the lock. The lock itself waits for every contender of a known kind,
// whatever its family.
type Family string

// The families of locks.
const (
	Mutex  Family = "mutex" // Curator's InterProcessMutex, go-zookeeper's Lock
	RW     Family = "rw"    // Curator's InterProcessReadWriteLock
	Kazoo  Family = "kazoo" // kazoo's Lock, WriteLock and ReadLock
	All    Family = "all"   // a znode of each of the above, created in one transaction
	absent Family = ""
)

// Families returns all families, the usual one first.
func Families() []Family { return []Family{Mutex, RW, Kazoo, All} }

// Mode decides who else can hold a lock at the same time.
type Mode string

// The modes of a contender. A lock is acquired Exclusive or Shared.
const (
	Exclusive Mode = "exclusive"
	Shared    Mode = "shared"
	Counted   Mode = "counted" // a semaphore's lease: some others may hold too
)

// Conflicts reports whether contenders of these modes exclude each other.
func Conflicts(a, b Mode) bool {
	return a != Counted && b != Counted && (a == Exclusive || b == Exclusive)
}

// Name is the parsed name of a lock's child.
type Name struct {
	Kind   string // the recipe that creates such names, as a text for people
	Mode   Mode
	GUID   string // what stands before the marker: the client's own mark, or empty
	Number int64  // the sequence number; may be negative after an overflow; -1<<63 for none
}

// NoNumber is the Number of a name that has none.
const NoNumber = -1 << 63

// marker is the text right before a sequence number in one kind of names.
type marker struct {
	text   string
	kind   string
	mode   Mode
	family Family // whose locks we make with it; absent: only read
}

// markers is searched in order: where one is the end of another, the longer one
// comes first. The names are those of Curator 5.4, kazoo 2.8, go-zookeeper 1.0,
// ZooKeeper's recipes, HBase 2 and Accumulo.
var markers = []marker{
	{"-read-lock-", "Curator mutex, shared", Shared, Mutex},
	{"__lock__", "kazoo lock", Exclusive, Kazoo},
	{"__rlock__", "kazoo read", Shared, Kazoo},
	{"__WRIT__", "Curator write", Exclusive, RW},
	{"__READ__", "Curator read", Shared, RW},
	{"-latch-", "Curator latch", Exclusive, absent},
	{"-lease-", "Curator semaphore", Counted, absent},
	{"zlock-", "Accumulo lock", Exclusive, absent},
	{"lock-", "Curator mutex", Exclusive, Mutex},
	{"write-", "HBase write", Exclusive, absent},
	{"read-", "HBase read", Shared, absent},
}

// ParseName parses the name of a lock's child. If no known recipe creates such a name, ok
// is false: the child takes no part in the lock.
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
			return m.name(guid, number), true
		}
	}
	return otherName(head, number)
}

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

// otherName knows the recipes that put something else before the number.
func otherName(head string, number int64) (Name, bool) {
	if sid, ok := cutBoth(head, "x-", "-"); ok && isSession(sid) {
		return Name{Kind: "ZooKeeper recipe", Mode: Exclusive, GUID: sid, Number: number}, true
	}
	if guid, ok := cutBoth(head, "zlock#", "#"); ok {
		return Name{Kind: "Accumulo lock", Mode: Exclusive, GUID: guid, Number: number}, true
	}
	return Name{}, false
}

// splitNumber takes a server's sequence number off the end of a name. The server
// writes it with %010d: ten digits, or a dash and nine or ten digits once the
// counter has overflowed. A dash belongs to the number only behind a marker.
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

// isSession tells a session id: decimal as the Java recipe writes it, or sixteen
// hexadecimal digits as the C one does.
func isSession(s string) bool {
	if isHex(s, 16) {
		return true
	}
	_, err := strconv.ParseInt(s, 10, 64)
	return err == nil
}

// prefixes are the names of a lock's own znodes without their numbers, one for
// each family it takes part in. guid is a UUID with its dashes.
func prefixes(f Family, m Mode, guid string) []string {
	var names []string
	for _, k := range markers {
		if k.family == absent || k.mode != m || f != All && f != k.family {
			continue
		}
		names = append(names, k.prefix(guid))
	}
	return names
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

// owner is the client's mark in a name, in one form for all families; empty for
// a name without one.
func owner(name string) string {
	n, _ := ParseName(name)
	return strings.ReplaceAll(strings.TrimPrefix(n.GUID, "_c_"), "-", "")
}

// SameOwner reports whether two children of a lock belong to the same attempt to acquire
// it: a lock of family All has several. Names and paths are accepted.
func SameOwner(a, b string) bool {
	a, b = path.Base(a), path.Base(b)
	return a == b || owner(a) != "" && owner(a) == owner(b)
}

// mine reports whether a child carries the mark of a lock's own znodes.
func mine(name, guid string) bool {
	return strings.HasPrefix(name, "_c_"+guid+"-") || strings.HasPrefix(name, strings.ReplaceAll(guid, "-", "")+"__")
}

// newGUID is a random UUID of version 4, by which the own znodes are known again.
func newGUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
