package sandbox

import (
	"fmt"
	"strings"

	"github.com/zksh/zksh/internal/jute"
)

// A Version is a release line of ZooKeeper that a sandbox can imitate, such as "3.8".
type Version string

// DefaultVersion is the version that a sandbox imitates by default. Tests in package difftest
// compare the sandbox with a real server of this version.
const DefaultVersion Version = "3.8"

// releaseLines lists ZooKeeper's release lines, oldest first, each with the release that a sandbox
// imitates. For 3.8, this is Debian's package of 3.8.0, which includes fixes of later releases.
// With one of these fixes, the server sends no event to a client without permission to read the
// znode.
var releaseLines = []struct {
	line    Version
	release string
}{{"3.4", "3.4.14"}, {"3.5", "3.5.10"}, {"3.6", "3.6.4"}, {"3.8", "3.8.0"}, {"3.9", "3.9.5"}}

// ParseVersion returns the Version with the name s, such as "3.4".
func ParseVersion(s string) (Version, error) {
	if v := Version(s); v.index() >= 0 {
		return v, nil
	}
	return "", fmt.Errorf("the sandbox has no version %q to imitate: must be one of %s", s, VersionNames())
}

// VersionNames returns the names of all versions that a sandbox can imitate, as a comma-separated
// list.
func VersionNames() string {
	var names []string
	for _, v := range Versions() {
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

// index returns the position of v in releaseLines, so that callers can compare two versions. It
// returns -1 for an unknown version.
func (v Version) index() int {
	for i, l := range releaseLines {
		if l.line == v {
			return i
		}
	}
	return -1
}

// A trait is a behavior that some versions of ZooKeeper have and others do not. Support for an
// opcode is not a trait; see opSince.
type trait int

const (
	configNode      trait = iota // the system node /zookeeper/config exists
	filteredEvents               // clients without permission to read a znode get no events about it
	guardedExists                // an exists request needs permission READ if the znode exists
	modesTogether                // a client can watch one path in several modes at the same time
	persistentTypes              // removeWatches supports the types 4 (persistent) and 5 (recursive)
	eventZxids                   // a watch event contains the zxid of its transaction
	checkRefused                 // a check request outside a multi is rejected as unknown
	newModes                     // a create request may have a mode for containers or TTL nodes
)

// since maps each trait to the first ZooKeeper version that has it.
var since = map[trait]Version{
	configNode: "3.5", newModes: "3.5",
	filteredEvents: "3.8",
	guardedExists:  "3.9", modesTogether: "3.9", persistentTypes: "3.9", eventZxids: "3.9", checkRefused: "3.9",
}

// opSince maps each opcode that the oldest version does not know to the first version that knows
// it.
var opSince = map[int32]Version{
	jute.OpCreate2: "3.5", jute.OpReconfig: "3.5", jute.OpCheckWatches: "3.5", jute.OpRemoveWatches: "3.5",
	jute.OpCreateContainer: "3.5", jute.OpDeleteContainer: "3.5", jute.OpCreateTTL: "3.5",
	jute.OpMultiRead: "3.6", jute.OpGetEphemerals: "3.6", jute.OpGetAllChildrenNumber: "3.6", jute.OpSetWatches2: "3.6",
	jute.OpAddWatch: "3.6",
	jute.OpWhoAmI:   "3.8", // 3.7 in reality, but the sandbox does not imitate 3.7
}

// has reports whether servers of version v have the trait t.
func (v Version) has(t trait) bool { return v.index() >= since[t].index() }

// knows reports whether servers of version v support requests, or operations in a multi, with the
// opcode op.
func (v Version) knows(op int32) bool {
	first, ok := opSince[op]
	return !ok || v.index() >= first.index()
}

// versionText returns the version in the first line of srvr's output. It begins with a release
// number, because clients parse it.
func (v Version) versionText() string {
	release := releaseLines[v.index()].release
	return release + "-zksh-sandbox, built on 2026-01-01 00:00 UTC"
}
