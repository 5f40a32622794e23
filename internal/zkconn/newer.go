package zkconn

import (
	"strconv"
	"strings"

	"github.com/zksh/zksh/internal/jute"
)

// A newRequest describes a request that old servers do not know: the zksh command that sends it, and
// the first version of ZooKeeper that supports it.
type newRequest struct{ command, version string }

// minor returns the second number of the version, such as 5 for 3.5.3.
func (n newRequest) minor() int {
	minor, _ := strconv.Atoi(strings.Split(n.version, ".")[1]) // never fails, because all versions in the table are numbers
	return minor
}

// newer contains the requests that ZooKeeper 3.4 does not know, by their opcodes.
var newer = map[int32]newRequest{
	jute.OpRemoveWatches:        {"removewatches", "3.5"},
	jute.OpReconfig:             {"reconfig", "3.5"},
	jute.OpCreateContainer:      {"create -c", "3.5"},
	jute.OpCreateTTL:            {"create -t", "3.5.3"},
	jute.OpAddWatch:             {"addWatch", "3.6"},
	jute.OpGetEphemerals:        {"getEphemerals", "3.6"},
	jute.OpGetAllChildrenNumber: {"getAllChildrenNumber", "3.6"},
	jute.OpWhoAmI:               {"whoami", "3.7"},
	jute.OpMultiRead:            {"reading many znodes at once", "3.6"},
	jute.OpSetWatches2:          {"a persistent watch", "3.6"},
}

// hint returns the probable reason why a server rejected a request with the given code, as a
// message for the user. It returns an empty string if the reason is unknown. op is the opcode of
// the request.
func hint(code Code, op int32) string {
	need, known := newer[op]
	switch {
	case code == MarshallingError && op == jute.OpAddWatch:
		return "the server uses WatchManagerOptimized, which does not support persistent watches"
	// A create that the server does not know makes a multi fail with MarshallingError.
	case code == MarshallingError && (op == jute.OpCreateContainer || op == jute.OpCreateTTL):
	case code != Unimplemented || !known:
		return ""
	}
	if op == jute.OpCreateTTL {
		return need.command + " needs ZooKeeper " + need.version + " or later, with extendedTypesEnabled=true"
	}
	return need.command + " needs ZooKeeper " + need.version + " or later"
}
