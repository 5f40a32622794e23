package zkconn

import (
	"fmt"

	"github.com/go-zookeeper/zk"
)

// Code is an error code of ZooKeeper's protocol (KeeperException.Code).
type Code int32

// The codes a server sends, by the names zkCli prints.
const (
	OK                       Code = 0
	SystemError              Code = -1
	RuntimeInconsistency     Code = -2
	DataInconsistency        Code = -3
	ConnectionLoss           Code = -4
	MarshallingError         Code = -5
	Unimplemented            Code = -6
	OperationTimeout         Code = -7
	BadArguments             Code = -8
	NewConfigNoQuorum        Code = -13
	ReconfigInProgress       Code = -14
	APIError                 Code = -100
	NoNode                   Code = -101
	NoAuth                   Code = -102
	BadVersion               Code = -103
	NoChildrenForEphemerals  Code = -108
	NodeExists               Code = -110
	NotEmpty                 Code = -111
	SessionExpired           Code = -112
	InvalidACL               Code = -114
	AuthFailed               Code = -115
	SessionMoved             Code = -118
	NotReadOnly              Code = -119
	EphemeralOnLocalSession  Code = -120
	NoWatcher                Code = -121
	ReconfigDisabled         Code = -123
	SessionClosedRequireAuth Code = -124
	QuotaExceeded            Code = -125
	ThrottledOp              Code = -127
)

// codeNames are the texts of KeeperException.getCodeMessage.
var codeNames = map[Code]string{
	OK:                       "ok",
	SystemError:              "SystemError",
	RuntimeInconsistency:     "RuntimeInconsistency",
	DataInconsistency:        "DataInconsistency",
	ConnectionLoss:           "ConnectionLoss",
	MarshallingError:         "MarshallingError",
	Unimplemented:            "Unimplemented",
	OperationTimeout:         "OperationTimeout",
	BadArguments:             "BadArguments",
	NewConfigNoQuorum:        "NewConfigNoQuorum",
	ReconfigInProgress:       "ReconfigInProgress",
	APIError:                 "APIError",
	NoNode:                   "NoNode",
	NoAuth:                   "NoAuth",
	BadVersion:               "BadVersion",
	NoChildrenForEphemerals:  "NoChildrenForEphemerals",
	NodeExists:               "NodeExists",
	NotEmpty:                 "Directory not empty",
	SessionExpired:           "Session expired",
	InvalidACL:               "InvalidACL",
	AuthFailed:               "AuthFailed",
	SessionMoved:             "Session moved",
	NotReadOnly:              "Not a read-only call",
	EphemeralOnLocalSession:  "Ephemeral node on local session",
	NoWatcher:                "No such watcher",
	ReconfigDisabled:         "Reconfig is disabled",
	SessionClosedRequireAuth: "Session closed because client failed to authenticate",
	QuotaExceeded:            "Quota has exceeded",
	ThrottledOp:              "Op throttled due to high load",
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
	OperationTimeout:        zk.ErrConnectionClosed, // it too leaves open whether the request took effect
	NoNode:                  zk.ErrNoNode,
	NoAuth:                  zk.ErrNoAuth,
	BadVersion:              zk.ErrBadVersion,
	NoChildrenForEphemerals: zk.ErrNoChildrenForEphemerals,
	NodeExists:              zk.ErrNodeExists,
	NotEmpty:                zk.ErrNotEmpty,
	SessionExpired:          zk.ErrSessionExpired,
	SessionMoved:            zk.ErrSessionMoved,
}

// Is tells whether target is go-zookeeper's error for the same code.
func (c Code) Is(target error) bool { return libraryErrors[c] == target && target != nil }
