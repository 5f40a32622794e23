package zkconn

import (
	"fmt"

	"github.com/go-zookeeper/zk"
)

// Code is an error code of ZooKeeper's protocol (KeeperException.Code).
type Code int32

// The codes that are told apart, by the names zkCli prints.
const (
	codeOK                  Code = 0
	runtimeInconsistency    Code = -2
	ConnectionLoss          Code = -4
	operationTimeout        Code = -7
	badArguments            Code = -8
	newConfigNoQuorum       Code = -13
	reconfigInProgress      Code = -14
	NoNode                  Code = -101
	NoAuth                  Code = -102
	BadVersion              Code = -103
	noChildrenForEphemerals Code = -108
	NodeExists              Code = -110
	NotEmpty                Code = -111
	SessionExpired          Code = -112
	invalidACL              Code = -114
	AuthFailed              Code = -115
	sessionMoved            Code = -118
	NotReadOnly             Code = -119
	noWatcher               Code = -121
	quotaExceeded           Code = -125
)

// codeNames are the texts of KeeperException.getCodeMessage, for all codes.
var codeNames = map[Code]string{
	codeOK:                  "ok",
	-1:                      "SystemError",
	runtimeInconsistency:    "RuntimeInconsistency",
	-3:                      "DataInconsistency",
	ConnectionLoss:          "ConnectionLoss",
	-5:                      "MarshallingError",
	-6:                      "Unimplemented",
	operationTimeout:        "OperationTimeout",
	badArguments:            "BadArguments",
	newConfigNoQuorum:       "NewConfigNoQuorum",
	reconfigInProgress:      "ReconfigInProgress",
	-100:                    "APIError",
	NoNode:                  "NoNode",
	NoAuth:                  "NoAuth",
	BadVersion:              "BadVersion",
	noChildrenForEphemerals: "NoChildrenForEphemerals",
	NodeExists:              "NodeExists",
	NotEmpty:                "Directory not empty",
	SessionExpired:          "Session expired",
	invalidACL:              "InvalidACL",
	AuthFailed:              "AuthFailed",
	sessionMoved:            "Session moved",
	NotReadOnly:             "Not a read-only call",
	-120:                    "Ephemeral node on local session",
	noWatcher:               "No such watcher",
	-123:                    "Reconfig is disabled",
	-124:                    "Session closed because client failed to authenticate",
	quotaExceeded:           "Quota has exceeded",
	-127:                    "Op throttled due to high load",
}

// Error is the code as KeeperException words it, without a path.
func (c Code) Error() string {
	if n, ok := codeNames[c]; ok {
		return "KeeperErrorCode = " + n
	}
	return fmt.Sprintf("KeeperErrorCode = %d", int32(c))
}

// libraryErrors are the same refusals in go-zookeeper's words, for callers that
// know only those.
var libraryErrors = map[Code]error{
	ConnectionLoss:          zk.ErrConnectionClosed,
	operationTimeout:        zk.ErrConnectionClosed, // it too leaves open whether the request took effect
	NoNode:                  zk.ErrNoNode,
	NoAuth:                  zk.ErrNoAuth,
	BadVersion:              zk.ErrBadVersion,
	noChildrenForEphemerals: zk.ErrNoChildrenForEphemerals,
	NodeExists:              zk.ErrNodeExists,
	NotEmpty:                zk.ErrNotEmpty,
	SessionExpired:          zk.ErrSessionExpired,
	sessionMoved:            zk.ErrSessionMoved,
}

// Is tells whether target is go-zookeeper's error for the same code.
func (c Code) Is(target error) bool { return libraryErrors[c] == target && target != nil }
