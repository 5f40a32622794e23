package queue

import (
	"fmt"
	"slices"
	"strings"

	"github.com/zksh/zksh/lockcmd/zklock"
)

// lockGroup is a set of recipes whose locks on one path exclude each other.
type lockGroup struct {
	name  string   // for a person, in the plural
	shape string   // of their nodes' names
	kinds []string // as zklock.ParseName calls them
	waits []string // the other groups whose nodes they wait for
}

// lockGroups says who waits for whom. It was found by having each client of Curator
// 5.4, kazoo 2.8, go-zookeeper 1.0 and ZooKeeper's recipes hold a lock while each
// other one tried to get it on the same path; the last two rows are by reading.
//
// kazoo's Lock takes no notice of its ReadLock, but its name is also that of
// WriteLock, which does: the pair is not warned of.
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

// Two kinds as zklock.ParseName calls them.
const (
	curatorSemaphore = "Curator semaphore"
	kazooSemaphore   = "kazoo semaphore"
)

// kazooGuard is the end of the folder where kazoo's clients wait for a lease; the
// path before it has the leases.
const kazooGuard = "-__lock__"

// groupOf is the group of a kind; nil for one that has none.
func groupOf(kind string) *lockGroup {
	for _, g := range lockGroups {
		if slices.Contains(g.kinds, kind) {
			return g
		}
	}
	return nil
}

func (g *lockGroup) waitsFor(other *lockGroup) bool {
	return g == other || g == nil || other == nil || slices.Contains(g.waits, other.name)
}

// waitsFor reports whether a contender waits for another that came first.
func (c *Contender) waitsFor(other *Contender) bool {
	return c.liberal || slices.ContainsFunc(c.groups, func(mine *lockGroup) bool {
		return slices.ContainsFunc(other.groups, mine.waitsFor)
	})
}

// warnings says which contenders do not exclude each other although they should.
func warnings(list []*Contender) []string {
	var told []string
	different := slices.CompactFunc(slices.SortedStableFunc(slices.Values(list), compareKinds),
		func(a, b *Contender) bool { return compareKinds(a, b) == 0 })
	for i, a := range different {
		for _, b := range different[:i] {
			if text := warning(b, a); text != "" && !slices.Contains(told, text) {
				told = append(told, text)
			}
		}
	}
	return told
}

// compareKinds is 0 for two that wait for the same ones.
func compareKinds(a, b *Contender) int {
	key := func(c *Contender) string { return fmt.Sprint(groupIndex(c), c.Mode, c.liberal, len(c.groups)) }
	return strings.Compare(key(a), key(b))
}

func groupIndex(c *Contender) int { return slices.Index(lockGroups, c.groups[0]) }

func warning(a, b *Contender) string {
	ga, gb := a.groups[0], b.groups[0]
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
	return fmt.Sprintf(text+": both %s and %s can hold the lock at the same time", ga.name, gb.name, ga.shape, gb.shape)
}
