package sandbox

import (
	"fmt"
	"strings"

	"github.com/zksh/zksh/internal/jute"
)

// A Version names a server that a sandbox can imitate: a release line of ZooKeeper, such as
// "3.8", or one of Products.
type Version string

// DefaultVersion is the version that a sandbox imitates by default. Package difftest compares it
// with a real server.
const DefaultVersion Version = "3.8"

// releaseLines lists ZooKeeper's release lines, oldest first, each with the release that a
// sandbox imitates. 3.8.0 stands for Debian's package, which includes fixes of later releases:
// it sends no event to a client without permission to read the znode.
var releaseLines = []struct {
	line    Version
	release string
}{{"3.4", "3.4.14"}, {"3.5", "3.5.10"}, {"3.6", "3.6.4"}, {"3.8", "3.8.0"}, {"3.9", "3.9.5"}}

// ParseVersion returns the Version with the given name: a release line of ZooKeeper, such as
// "3.4", or the name of a product.
func ParseVersion(s string) (Version, error) {
	if v := Version(s); v.index() >= 0 {
		return v, nil
	}
	return "", fmt.Errorf("the sandbox has no version or product %q to imitate: must be one of %s", s, VersionNames())
}

// VersionNames returns the names of all versions and products, separated by a comma and a space.
func VersionNames() string {
	var names []string
	for _, v := range append(Versions(), Products()...) {
		names = append(names, string(v))
	}
	return strings.Join(names, ", ")
}

// Versions returns the release lines of ZooKeeper that a sandbox can imitate, oldest first.
func Versions() []Version {
	list := make([]Version, len(releaseLines))
	for i, l := range releaseLines {
		list[i] = l.line
	}
	return list
}

// index returns the position of v in releaseLines, or -1 if v is unknown. It returns 0 for a
// product, because products resemble the oldest release line.
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

// A trait is a difference between ZooKeeper versions other than the set of known opcodes.
type trait int

const (
	configNode      trait = iota // the znode /zookeeper/config exists
	filteredEvents               // a client without permission to read the znode gets no event
	guardedExists                // the request exists needs permission READ if the znode exists
	modesTogether                // a connection may have watches of several modes on one path
	persistentTypes              // removeWatches supports the types 4 and 5, for persistent and recursive watches
	eventZxids                   // an event carries the zxid of its transaction
	checkRefused                 // a check outside a multi is rejected as an unknown request
	newModes                     // a create request may have a mode for containers or TTL nodes
)

// since maps each trait to the version that introduced it.
var since = map[trait]Version{
	configNode: "3.5", newModes: "3.5",
	filteredEvents: "3.8",
	guardedExists:  "3.9", modesTogether: "3.9", persistentTypes: "3.9", eventZxids: "3.9", checkRefused: "3.9",
}

// opSince maps each opcode that is newer than the oldest version to the version that introduced
// it.
var opSince = map[int32]Version{
	jute.OpCreate2: "3.5", jute.OpReconfig: "3.5", jute.OpCheckWatches: "3.5", jute.OpRemoveWatches: "3.5",
	jute.OpCreateContainer: "3.5", jute.OpDeleteContainer: "3.5", jute.OpCreateTTL: "3.5",
	jute.OpMultiRead: "3.6", jute.OpGetEphemerals: "3.6", jute.OpGetAllChildrenNumber: "3.6", jute.OpSetWatches2: "3.6",
	jute.OpAddWatch: "3.6",
	jute.OpWhoAmI:   "3.8", // really 3.7, which the sandbox does not imitate
}

// has reports whether servers of this version have the trait t.
func (v Version) has(t trait) bool { return v.index() >= since[t].index() }

// knows reports whether servers of this version know an opcode, as a request or as an operation
// of a multi.
func (v Version) knows(op int32) bool {
	if p, ok := v.product(); ok {
		return p.knows(op)
	}
	first, ok := opSince[op]
	return !ok || v.index() >= first.index()
}

// versionText returns the version that the four-letter command srvr prints. For ZooKeeper, it
// begins with the number of the imitated release, because clients parse it.
func (v Version) versionText() string {
	if p, ok := v.product(); ok {
		return p.release
	}
	release := releaseLines[v.index()].release
	return release + "-zksh-sandbox, built on 2026-01-01 00:00 UTC"
}
