package sandbox

import (
	"fmt"
	"strings"

	"github.com/zksh/zksh/internal/jute"
)

// Version is what a sandbox can answer as: a line of ZooKeeper's releases, or one of Products.
type Version string

// DefaultVersion is the one that a real server can be compared with.
const DefaultVersion Version = "3.8"

// lines are the lines of releases, oldest first, with the release that is followed.
// That of 3.8 is Debian's, which has fixes of later ones: it filters events.
var lines = []struct {
	line    Version
	release string
}{{"3.4", "3.4.14"}, {"3.5", "3.5.10"}, {"3.6", "3.6.4"}, {"3.8", "3.8.0"}, {"3.9", "3.9.5"}}

// ParseVersion reads a line of releases, such as "3.4", or the name of a product.
func ParseVersion(s string) (Version, error) {
	if v := Version(s); v.index() >= 0 {
		return v, nil
	}
	return "", fmt.Errorf("the sandbox has no version or product %q to imitate: must be one of %s", s, VersionNames())
}

// VersionNames lists what a sandbox can answer as, for a person.
func VersionNames() string {
	var names []string
	for _, v := range append(Versions(), Products()...) {
		names = append(names, string(v))
	}
	return strings.Join(names, ", ")
}

// Versions lists the lines of ZooKeeper's releases that a sandbox can answer as, oldest first.
func Versions() []Version {
	list := make([]Version, len(lines))
	for i, l := range lines {
		list[i] = l.line
	}
	return list
}

// index is the place among lines. A product has that of the oldest, which it follows.
func (v Version) index() int {
	if _, ok := v.product(); ok {
		return 0
	}
	for i, l := range lines {
		if l.line == v {
			return i
		}
	}
	return -1
}

// trait is something in which servers of different versions differ, besides the
// opcodes that they know.
type trait int

const (
	configNode      trait = iota // there is /zookeeper/config
	filteredEvents               // an event is withheld from who may not read the znode
	guardedExists                // exists needs READ, if the znode is there
	modesTogether                // watches of different modes on one path live side by side
	persistentTypes              // persistent watches have removal types of their own, 4 and 5
	eventZxids                   // an event tells its transaction
	checkRefused                 // a check outside a multi is an unknown request
	newModes                     // a create's flags may mean a container or a time to live
)

// since is the version that each trait came with.
var since = map[trait]Version{
	configNode: "3.5", newModes: "3.5",
	filteredEvents: "3.8",
	guardedExists:  "3.9", modesTogether: "3.9", persistentTypes: "3.9", eventZxids: "3.9", checkRefused: "3.9",
}

// opSince is the version that each opcode came with which the oldest does not know.
var opSince = map[int32]Version{
	jute.OpCreate2: "3.5", jute.OpReconfig: "3.5", jute.OpCheckWatches: "3.5", jute.OpRemoveWatches: "3.5",
	jute.OpCreateContainer: "3.5", jute.OpDeleteContainer: "3.5", jute.OpCreateTTL: "3.5",
	jute.OpMultiRead: "3.6", jute.OpGetEphemerals: "3.6", jute.OpGetAllChildrenNumber: "3.6", jute.OpSetWatches2: "3.6",
	jute.OpAddWatch: "3.6",
	jute.OpWhoAmI:   "3.8", // 3.7, which is not among those here
}

// has reports whether this version has a trait.
func (v Version) has(t trait) bool { return v.index() >= since[t].index() }

// knows reports whether this version has an opcode, on its own or in a multi.
func (v Version) knows(op int32) bool {
	if p, ok := v.product(); ok {
		return p.knows(op)
	}
	first, ok := opSince[op]
	return !ok || v.index() >= first.index()
}

// words is what a server of this version says of itself. Clients parse it, so it
// begins with the release that it behaves like.
func (v Version) words() string {
	if p, ok := v.product(); ok {
		return p.release
	}
	release := lines[v.index()].release
	return release + "-zksh-sandbox, built on 2026-01-01 00:00 UTC"
}
