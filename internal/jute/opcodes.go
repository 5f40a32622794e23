package jute

import "strconv"

// Opcodes of requests (ZooDefs.OpCode).
const (
	OpCreate               = 1
	OpDelete               = 2
	OpExists               = 3
	OpGetData              = 4
	OpSetData              = 5
	OpGetACL               = 6
	OpSetACL               = 7
	OpGetChildren          = 8
	OpSync                 = 9
	OpPing                 = 11
	OpGetChildren2         = 12
	OpCheck                = 13
	OpMulti                = 14
	OpCreate2              = 15
	OpReconfig             = 16
	OpCheckWatches         = 17
	OpRemoveWatches        = 18
	OpCreateContainer      = 19
	OpDeleteContainer      = 20
	OpCreateTTL            = 21
	OpMultiRead            = 22
	OpAuth                 = 100
	OpSetWatches           = 101
	OpSASL                 = 102
	OpGetEphemerals        = 103
	OpGetAllChildrenNumber = 104
	OpSetWatches2          = 105
	OpAddWatch             = 106
	OpWhoAmI               = 107
	OpCloseSession         = -11
)

// Creates reports whether the opcode op belongs to an operation that creates a znode.
func Creates(op int32) bool {
	return op == OpCreate || op == OpCreate2 || op == OpCreateContainer || op == OpCreateTTL
}

// Writes reports whether the opcode op belongs to an operation that may change a znode or the
// ensemble.
func Writes(op int32) bool {
	return Creates(op) || op == OpDelete || op == OpSetData || op == OpSetACL || op == OpMulti || op == OpReconfig
}

// opNames contains ZooKeeper's names of the operations (ZooDefs.OpCode).
var opNames = map[int32]string{
	OpCloseSession: "closeSession", OpPing: "ping", OpAuth: "auth", OpSASL: "sasl",
	OpCreate: "create", OpCreate2: "create2", OpCreateContainer: "createContainer", OpCreateTTL: "createTTL",
	OpDelete: "delete", OpDeleteContainer: "deleteContainer", OpExists: "exists",
	OpGetData: "getData", OpSetData: "setData", OpGetACL: "getACL", OpSetACL: "setACL",
	OpGetChildren: "getChildren", OpGetChildren2: "getChildren2", OpGetAllChildrenNumber: "getAllChildrenNumber",
	OpGetEphemerals: "getEphemerals", OpSync: "sync", OpCheck: "check", OpMulti: "multi", OpMultiRead: "multiRead",
	OpReconfig: "reconfig", OpWhoAmI: "whoAmI", OpAddWatch: "addWatch", OpCheckWatches: "checkWatches",
	OpRemoveWatches: "removeWatches", OpSetWatches: "setWatches", OpSetWatches2: "setWatches2",
}

// OpName returns ZooKeeper's name of the operation with the opcode op.
func OpName(op int32) string {
	if name := opNames[op]; name != "" {
		return name
	}
	return "operation " + strconv.Itoa(int(op))
}
