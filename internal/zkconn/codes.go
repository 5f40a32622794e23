package zkconn

import (
	"cmp"
	"strconv"

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
	Throttled               Code = -127
)

// refusals say what is known of a code: the text of KeeperException.getCodeMessage,
// zkCli's words where it has its own (CliWrapperException), before the path, and
// go-zookeeper's error, for callers that know only that.
var refusals = map[Code]struct {
	name    string
	zkCli   string
	library error
}{
	codeOK:                  {name: "ok"},
	-1:                      {name: "SystemError"},
	runtimeInconsistency:    {name: "RuntimeInconsistency"},
	-3:                      {name: "DataInconsistency"},
	ConnectionLoss:          {"ConnectionLoss", "", zk.ErrConnectionClosed},
	-5:                      {name: "MarshallingError"},
	-6:                      {name: "Unimplemented"},
	operationTimeout:        {"OperationTimeout", "", zk.ErrConnectionClosed}, // it too leaves open whether the request took effect
	badArguments:            {"BadArguments", "Arguments are not valid : ", nil},
	newConfigNoQuorum:       {name: "NewConfigNoQuorum"},
	reconfigInProgress:      {name: "ReconfigInProgress"},
	-100:                    {name: "APIError"},
	NoNode:                  {"NoNode", "Node does not exist: ", zk.ErrNoNode},
	NoAuth:                  {"NoAuth", "Insufficient permission : ", zk.ErrNoAuth},
	BadVersion:              {"BadVersion", "version No is not valid : ", zk.ErrBadVersion},
	noChildrenForEphemerals: {"NoChildrenForEphemerals", "Ephemerals cannot have children: ", zk.ErrNoChildrenForEphemerals},
	NodeExists:              {"NodeExists", "Node already exists: ", zk.ErrNodeExists},
	NotEmpty:                {"Directory not empty", "Node not empty: ", zk.ErrNotEmpty},
	SessionExpired:          {"Session expired", "", zk.ErrSessionExpired},
	invalidACL:              {"InvalidACL", "Acl is not valid : ", nil},
	AuthFailed:              {name: "AuthFailed"},
	sessionMoved:            {"Session moved", "", zk.ErrSessionMoved},
	NotReadOnly:             {"Not a read-only call", "Not a read-only call: ", nil},
	-120:                    {name: "Ephemeral node on local session"},
	noWatcher:               {name: "No such watcher"},
	-123:                    {name: "Reconfig is disabled"},
	-124:                    {name: "Session closed because client failed to authenticate"},
	quotaExceeded:           {"Quota has exceeded", "Quota has exceeded : ", nil},
	Throttled:               {name: "Op throttled due to high load"},
}

// Error is the code as KeeperException words it, without a path.
func (c Code) Error() string {
	return "KeeperErrorCode = " + cmp.Or(refusals[c].name, strconv.Itoa(int(c)))
}

// Is tells whether target is go-zookeeper's error for the same code.
func (c Code) Is(target error) bool { return refusals[c].library == target && target != nil }
