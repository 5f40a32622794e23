package sandbox

import (
	"fmt"
	"strings"

	"github.com/zksh/zksh/internal/jute"
)

// A Version is a server that a sandbox can imitate: a line of ZooKeeper's releases, or one
// of Products.
type Version string

// DefaultVersion is the version that package difftest compares with a real server.
const DefaultVersion Version = "3.8"

// releaseLines lists the lines of releases, oldest first, and for each the release that is
// imitated. 3.8.0 is Debian's package, which has fixes of later releases: it withholds events
// from clients without permission to read the znode.
var releaseLines = []struct {
	line    Version
	release string
}{{"3.4", "3.4.14"}, {"3.5", "3.5.10"}, {"3.6", "3.6.4"}, {"3.8", "3.8.0"}, {"3.9", "3.9.5"}}

// ParseVersion returns the Version for a line of releases, such as "3.4", or for the name
// of a product.
func ParseVersion(s string) (Version, error) {
	if v := Version(s); v.index() >= 0 {
		return v, nil
	}
	return "", fmt.Errorf("the sandbox has no version or product %q to imitate: must be one of %s", s, VersionNames())
}

// VersionNames returns the names of all versions and products, separated by commas.
func VersionNames() string {
	var names []string
	for _, v := range append(Versions(), Products()...) {
		names = append(names, string(v))
	}
	return strings.Join(names, ", ")
}

// Versions returns the lines of ZooKeeper's releases that a sandbox can imitate, oldest first.
func Versions() []Version {
	list := make([]Version, len(releaseLines))
	for i, l := range releaseLines {
		list[i] = l.line
	}
	return list
}

// index returns the position in releaseLines, or -1. Products return 0, because they
// resemble the oldest line.
func (v Version) index() int {
	if _, ok := v.product(); ok {
		return 0
	}
	for i, l := range releaseLines {
		if l.line == v {
			return i
		}
	}
	return -1
}

// A trait is a difference between versions, besides the opcodes that they know.
type trait int

const (
	configNode      trait = iota // the znode /zookeeper/config exists
	filteredEvents               // clients without permission to read the znode get no event
	guardedExists                // exists needs permission READ if the znode exists
	modesTogether                // a connection may have watches of several modes on one path
	persistentTypes              // removeWatches knows types 4 and 5, for persistent watches
	eventZxids                   // an event carries the zxid of its transaction
	checkRefused                 // a check outside a multi is rejected as an unknown request
	newModes                     // a create's flags may be a container or TTL mode
)

// since maps each trait to the version that introduced it.
var since = map[trait]Version{
	configNode: "3.5", newModes: "3.5",
	filteredEvents: "3.8",
	guardedExists:  "3.9", modesTogether: "3.9", persistentTypes: "3.9", eventZxids: "3.9", checkRefused: "3.9",
}

// opSince maps each opcode that the oldest version does not know to the version that
// introduced it.
var opSince = map[int32]Version{
	jute.OpCreate2: "3.5", jute.OpReconfig: "3.5", jute.OpCheckWatches: "3.5", jute.OpRemoveWatches: "3.5",
	jute.OpCreateContainer: "3.5", jute.OpDeleteContainer: "3.5", jute.OpCreateTTL: "3.5",
	jute.OpMultiRead: "3.6", jute.OpGetEphemerals: "3.6", jute.OpGetAllChildrenNumber: "3.6", jute.OpSetWatches2: "3.6",
	jute.OpAddWatch: "3.6",
	jute.OpWhoAmI:   "3.8", // really 3.7, which the sandbox does not imitate
}

// has reports whether this version has a trait.
func (v Version) has(t trait) bool { return v.index() >= since[t].index() }

// knows reports whether this version knows an opcode, as a request or in a multi.
func (v Version) knows(op int32) bool {
	if p, ok := v.product(); ok {
		return p.knows(op)
	}
	first, ok := opSince[op]
	return !ok || v.index() >= first.index()
}

// versionText returns the version that srvr prints. It begins with the imitated release,
// because clients parse it.
func (v Version) versionText() string {
	if p, ok := v.product(); ok {
		return p.release
	}
	release := releaseLines[v.index()].release
	return release + "-zksh-sandbox, built on 2026-01-01 00:00 UTC"
}
