package queue

import (
	"fmt"
	"slices"
	"strings"

	"github.com/zksh/zksh/lockcmd/zklock"
)

// A lockGroup is a set of lock recipes that exclude each other when clients use them on the same
// path.
type lockGroup struct {
	name           string   // name of the group in messages to users, in the plural
	pattern        string   // pattern of the znode names that clients of these recipes create
	kinds          []string // names of the recipes, as returned by zklock.ParseName
	waitsForGroups []string // names of the other groups whose locks these recipes also respect
}

// lockGroups records which recipes respect each other's locks. We tested each pair of clients:
// while a client of Curator 5.4, kazoo 2.8, go-zookeeper 1.0 or ZooKeeper's recipes held a lock,
// another one tried to acquire it on the same path. The rows for HBase and Accumulo are based on
// the source code of these clients.
//
// kazoo's Lock ignores locks of its ReadLock, but its WriteLock respects them. zksh does not warn
// about this case, because the znodes of Lock and WriteLock have the same names.
var lockGroups = []*lockGroup{
	{"Curator mutexes", "_c_…-lock-…", []string{"Curator mutex", "Curator mutex, shared", "lock", "read lock", "write lock"},
		[]string{"go-zookeeper locks"}},
	{"go-zookeeper locks", "_c_…-lock-…", []string{"go-zookeeper lock"},
		[]string{"Curator mutexes", "Curator read/write locks", "kazoo locks"}},
	{"Curator read/write locks", "_c_…__WRIT__…", []string{"Curator write", "Curator read"}, nil},
	{"kazoo locks", "…__lock__…", []string{"kazoo lock", "kazoo read"}, nil},
	{"locks of ZooKeeper's recipe", "x-…", []string{"ZooKeeper recipe"},
		[]string{"Curator mutexes", "go-zookeeper locks"}},
	{"Curator latches", "_c_…-latch-…", []string{"Curator latch"}, nil},
	{"Curator semaphores", "leases/_c_…-lease-…", []string{curatorSemaphore}, nil},
	{"kazoo semaphores", "32 hexadecimal digits", []string{kazooSemaphore}, nil},
	{"HBase locks", "write-…", []string{"HBase write", "HBase read"}, nil},
	{"Accumulo locks", "zlock…", []string{"Accumulo lock"}, nil},
}

// Names of the semaphore recipes, as returned by zklock.ParseName.
const (
	curatorSemaphore = "Curator semaphore"
	kazooSemaphore   = "kazoo semaphore"
)

// kazooGuard is the suffix of the znode below which kazoo's clients wait for a lease of a
// semaphore. The leases themselves are children of the znode with the same name without the suffix.
const kazooGuard = "-__lock__"

// groupOf returns the group that contains the recipe with the name kind, or nil if there is none.
func groupOf(kind string) *lockGroup {
	for _, g := range lockGroups {
		if slices.Contains(g.kinds, kind) {
			return g
		}
	}
	return nil
}

func (g *lockGroup) waitsFor(other *lockGroup) bool {
	return g == other || g == nil || other == nil || slices.Contains(g.waitsForGroups, other.name)
}

// waitsFor reports whether the recipe of c waits for other, a contender that arrived earlier.
// zksh's locks wait for the locks of all families, but not for semaphores.
func (c *Contender) waitsFor(other *Contender) bool {
	isLock := c.Mode != zklock.Counted && other.Mode != zklock.Counted
	return c.waitsForAll && isLock || c.group.waitsFor(other.group)
}

// warnings returns a warning for each pair of recipe groups in the queue that do not exclude each
// other. list contains the contenders in the queue.
func warnings(list []*Contender) []string {
	var texts []string
	different := slices.CompactFunc(slices.SortedStableFunc(slices.Values(list), compareKinds),
		func(a, b *Contender) bool { return compareKinds(a, b) == 0 })
	for i, a := range different {
		for _, b := range different[:i] {
			if text := warning(b, a); text != "" && !slices.Contains(texts, text) {
				texts = append(texts, text)
			}
		}
	}
	return texts
}

// compareKinds orders contenders by recipe group and mode. It returns 0 if both contenders would
// wait for the same other contenders.
func compareKinds(a, b *Contender) int {
	key := func(c *Contender) string { return fmt.Sprint(groupIndex(c), c.Mode, c.waitsForAll) }
	return strings.Compare(key(a), key(b))
}

func groupIndex(c *Contender) int { return slices.Index(lockGroups, c.group) }

func warning(a, b *Contender) string {
	ga, gb := a.group, b.group
	if ga == gb || ga == nil || gb == nil || a.Mode == zklock.Shared && b.Mode == zklock.Shared {
		return ""
	}
	text := "%s and %s do not exclude each other"
	switch ab, ba := a.waitsFor(b), b.waitsFor(a); {
	case ab && ba:
		return ""
	case ba:
		text = "%s do not wait for %s"
	case ab:
		ga, gb = gb, ga
		text = "%s do not wait for %s"
	}
	return fmt.Sprintf(text+": both %s and %s can hold the lock at the same time", ga.name, gb.name, ga.pattern, gb.pattern)
}
