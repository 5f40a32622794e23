package zkconn

import (
	"errors"
	"fmt"
	"strings"

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

// Error is a server's refusal. But for OperationTimeout and SystemError, the
// request surely had no effect.
// errors.Is(err, NoNode) tells which refusal it was.
type Error struct {
	Code Code
	Path string // as the user wrote it, without the chroot; may be empty
}

// zkCliTexts are the refusals zkCli words itself (CliWrapperException).
var zkCliTexts = map[Code]string{
	NoNode:                  "Node does not exist: ",
	NodeExists:              "Node already exists: ",
	NotEmpty:                "Node not empty: ",
	NoChildrenForEphemerals: "Ephemerals cannot have children: ",
	NoAuth:                  "Insufficient permission : ",
	InvalidACL:              "Acl is not valid : ",
	BadVersion:              "version No is not valid : ",
	BadArguments:            "Arguments are not valid : ",
	NotReadOnly:             "Not a read-only call: ",
	QuotaExceeded:           "Quota has exceeded : ",
}

// fixedTexts are zkCli's refusals that name no path.
var fixedTexts = map[Code]string{
	ReconfigInProgress: "Another reconfiguration is in progress -- concurrent reconfigs not supported (yet)",
	NewConfigNoQuorum: "No quorum of new config is connected and up-to-date with the leader of last committed config" +
		" - try invoking reconfiguration after new servers are connected and synced",
}

func (e *Error) Error() string {
	if t, ok := zkCliTexts[e.Code]; ok {
		return t + e.Path
	}
	if t, ok := fixedTexts[e.Code]; ok {
		return t
	}
	if e.Path == "" {
		return e.Code.Error()
	}
	return e.Code.Error() + " for " + e.Path
}

// Unwrap gives the Code.
func (e *Error) Unwrap() error { return e.Code }

// LostError says that the connection broke. Whether a write that had been sent
// took effect is then unknown.
type LostError struct {
	Path   string
	Write  bool
	Unsent bool // it broke before the request was sent, which surely had no effect
	Size   int  // of the request in bytes
	Cause  error
}

// usualMaxRequest is the frame limit of a server with default settings
// (jute.maxbuffer). A larger request makes it drop the connection, every time.
const usualMaxRequest = 1<<20 - 1

func (e *LostError) Error() string {
	s := (&Error{ConnectionLoss, e.Path}).Error()
	if e.Unsent {
		return s + " (the connection broke before the request was sent)"
	}
	if e.Size > usualMaxRequest {
		s += fmt.Sprintf(" (the request has %d bytes; a server drops the connection above %d unless its jute.maxbuffer is raised)",
			e.Size, usualMaxRequest)
	}
	if e.Write {
		s += " (the connection broke after the request was sent: it is unknown whether it took effect)"
	}
	return s
}

// Unwrap gives ConnectionLoss and the cause.
func (e *LostError) Unwrap() []error { return []error{ConnectionLoss, e.Cause} }

// NoServerError says that no server of the list could be reached: the request
// was surely not sent.
type NoServerError struct {
	Attempts []AttemptError // one for each address tried, in order
}

// AttemptError is one failed attempt to connect.
type AttemptError struct {
	Addr  string
	Cause error
}

func (e *NoServerError) Error() string {
	parts := make([]string, len(e.Attempts))
	for i, a := range e.Attempts {
		parts[i] = a.Addr + ": " + a.Cause.Error()
	}
	if len(parts) == 0 {
		parts = []string{"no connection within the timeout"}
	}
	return "no server: " + strings.Join(parts, "; ")
}

// Unwrap gives ConnectionLoss.
func (e *NoServerError) Unwrap() error { return ConnectionLoss }

// ErrNotConnected is the answer of a session that was closed, or that lost its
// server because its credentials were refused.
var ErrNotConnected = errors.New("Not connected")
