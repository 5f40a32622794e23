package zkconn

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/zkconn/wire"
)

// An Error reports that a server rejected a request with an error code. Most codes mean that the
// request had no effect. To find out whether it did, use the Outcome of the request, not the
// error. errors.Is(err, NoNode) reports whether the code is NoNode.
type Error struct {
	Code   Code
	Path   string // path as the user wrote it, without the chroot; may be empty
	Chroot string // path of the chroot if the chroot itself does not exist; otherwise empty
	// Versions are the versions that did not match if Code is BadVersion; nil if they are unknown.
	Versions *Versions
	hint     string // reason or remedy, for the user; may be empty
}

func (e *Error) Error() string {
	if why := e.why(); why != "" {
		return e.text() + " (" + why + ")"
	}
	return e.text()
}

// why returns the reason for the error, or a remedy. It is empty if both are unknown.
func (e *Error) why() string {
	if e.Versions != nil {
		return e.Versions.String()
	}
	return e.hint
}

// WithHint returns a copy of the error with an additional remedy for the user.
func (e *Error) WithHint(remedy string) *Error {
	own := *e
	if own.hint != "" {
		remedy = own.hint + "; " + remedy
	}
	own.hint = remedy
	return &own
}

// WithActual returns a copy of the error, which must contain Versions, with the version that the
// znode has.
func (e *Error) WithActual(version int64) *Error {
	own, versions := *e, *e.Versions
	versions.Actual, versions.Known = version, true
	own.Versions = &versions
	return &own
}

// Versions are the versions because of which a write was rejected.
type Versions struct {
	Of       VersionKind
	Expected int64 // version that the write required
	Actual   int64 // version that was found instead
	Known    bool  // whether Actual is known
}

func (v Versions) String() string {
	verb := "%d"
	if v.Of == ConfigVersion { // the command config prints it in this form
		verb = "%x"
	}
	text := fmt.Sprintf("expected %s "+verb, v.Of, v.Expected)
	if v.Known {
		text += fmt.Sprintf(", is "+verb, v.Actual)
	}
	return text
}

// A VersionKind is a version that a write can require.
type VersionKind string

// The versions that a write can require, named as in a znode's stat and in the configuration.
const (
	DataVersion   VersionKind = "dataVersion"
	ACLVersion    VersionKind = "aclVersion"
	ConfigVersion VersionKind = "version"
)

// versionKinds maps the opcodes of writes that can require a version to the kind of that version.
var versionKinds = map[int32]VersionKind{
	jute.OpDelete: DataVersion, jute.OpSetData: DataVersion, jute.OpCheck: DataVersion,
	jute.OpSetACL: ACLVersion, jute.OpReconfig: ConfigVersion,
}

// text returns zkCli's message for the code, or the Java client's message if zkCli has none.
func (e *Error) text() string {
	text := refusals[e.Code].zkCli
	switch {
	case text == "" && e.Path == "":
		return e.Code.Error()
	case text == "":
		return e.Code.Error() + " for " + e.Path
	case strings.HasSuffix(text, ": "):
		text += e.Path
	}
	if e.Chroot != "" {
		text += " (the chroot " + e.Chroot + " does not exist)"
	}
	return text
}

// Unwrap returns the Code, which is an error, too.
func (e *Error) Unwrap() error { return e.Code }

// An UnsentError reports that a request was not sent, and so had no effect.
type UnsentError struct {
	Path  string
	Write bool
	Cause error // cause of the context, ConnectionLoss, or the refusal of the previous request
}

func (e *UnsentError) Error() string {
	if errors.Is(e.Cause, ConnectionLoss) {
		return (&Error{Code: ConnectionLoss, Path: e.Path}).Error() + " (the request was not sent)"
	}
	if errors.As(e.Cause, new(*Error)) || errors.As(e.Cause, new(*FencedError)) || errors.Is(e.Cause, ErrNoWrites) {
		return "the request for " + e.Path + " was not sent, because the previous request was rejected: " + e.Cause.Error()
	}
	if !e.Write { // a read has no effect, so it does not matter whether it was sent
		return e.Cause.Error()
	}
	return "interrupted before the request for " + e.Path + " was sent, so it had no effect"
}

// Unwrap returns the cause, so that errors.Is and errors.As also examine it.
func (e *UnsentError) Unwrap() error { return e.Cause }

// An AbandonedError reports that the wait for the answer to a write was interrupted. The write
// had been sent, and may still take effect.
type AbandonedError struct {
	Path  string
	Cause error
}

func (e *AbandonedError) Error() string {
	return "interrupted while waiting for the server to confirm the change of " + e.Path + "; it is unknown whether the change took effect"
}

// Unwrap returns the cause of the context that ended.
func (e *AbandonedError) Unwrap() error { return e.Cause }

// A LostError reports that the connection was lost after the request had been sent, and before
// the answer arrived. If the request was a write, its outcome is unknown.
type LostError struct {
	Path  string
	Write bool
	Size  int // size of the request in bytes
	Cause error
}

// Faulty reports whether zksh itself closed the connection, because the server violated the protocol or
// did not answer requests, although it answered pings. Such a server will probably do so again.
func (e *LostError) Faulty() bool {
	_, is := errors.AsType[wire.Fault](e.Cause)
	return is
}

// broken returns the Cause of an UnsentError for a request that was not sent because of a lost
// connection. cause is the reason for the loss.
func broken(cause error) error { return fmt.Errorf("%w: %w", ConnectionLoss, cause) }

func (e *LostError) Error() string {
	s := (&Error{Code: ConnectionLoss, Path: e.Path}).Error()
	if h, ok := errors.AsType[*hangUp](e.Cause); ok {
		s += " (" + h.Error() + ")"
	}
	if f, ok := errors.AsType[wire.Fault](e.Cause); ok {
		s += " (" + f.Text + ")"
	}
	var after string
	if e.Size > UsualMaxRequest {
		after = fmt.Sprintf("; its size, %d bytes, may exceed the server's jute.maxbuffer", e.Size)
	}
	switch {
	case e.Write:
		s += " (the request was sent, and it is unknown whether it took effect" + after + ")"
	case after != "":
		s += " (the request was sent" + after + ")"
	}
	return s
}

// Unwrap returns ConnectionLoss and the cause of the loss.
func (e *LostError) Unwrap() []error { return []error{ConnectionLoss, e.Cause} }

// A NoServerError reports that no server of the list could be reached. The request was not sent.
type NoServerError struct {
	Attempts []wire.Attempt // failed attempts to connect, in order, one for each address

	// Final means that all later requests fail with the same error, even if a server comes back.
	// Otherwise, zksh could send a request after it has skipped earlier ones. Final is set only
	// with Config.WaitOnce: if no server was ever reached, or if a request has waited in vain for
	// the session timeout.
	Final  bool
	Waited time.Duration // time spent waiting for a server to come back; 0 if none was ever reached
}

func (e *NoServerError) Error() string {
	parts := make([]string, len(e.Attempts))
	for i, a := range e.Attempts {
		parts[i] = a.Addr + ": " + a.Cause.Error()
	}
	if len(parts) == 0 {
		parts = []string{"no connection was established within the timeout"}
	}
	if e.Waited > 0 {
		parts = append(parts, "waited "+e.Waited.String()+" for a server to come back")
	}
	return "cannot connect: " + strings.Join(parts, "; ")
}

// Unwrap returns ConnectionLoss, so that callers can treat a NoServerError like a lost
// connection.
func (e *NoServerError) Unwrap() error { return ConnectionLoss }

// ErrNotConnected is the error of requests in a session that was closed, or that ended because
// the server rejected its credentials.
var ErrNotConnected = errors.New("Not connected")

// A Code is an error code of ZooKeeper's protocol (KeeperException.Code).
type Code int32

// Error codes that zksh handles, named as zkCli prints them.
const (
	codeOK                  Code = wire.OK
	systemError             Code = -1
	runtimeInconsistency    Code = -2
	dataInconsistency       Code = -3
	ConnectionLoss          Code = -4
	MarshallingError        Code = wire.MarshallingError
	Unimplemented           Code = wire.Unimplemented
	operationTimeout        Code = -7
	badArguments            Code = -8
	newConfigNoQuorum       Code = -13
	reconfigInProgress      Code = -14
	apiError                Code = -100
	NoNode                  Code = -101
	NoAuth                  Code = -102
	BadVersion              Code = -103
	noChildrenForEphemerals Code = -108
	NodeExists              Code = -110
	NotEmpty                Code = -111
	SessionExpired          Code = wire.SessionExpired
	InvalidACL              Code = -114
	AuthFailed              Code = wire.AuthFailed
	SessionMoved            Code = wire.SessionMoved
	NotReadOnly             Code = wire.NotReadOnly
	LocalSession            Code = -120
	noWatcher               Code = -121
	requestTimeout          Code = -122
	sessionNoAuth           Code = wire.SessionNoAuth
	QuotaExceeded           Code = -125
	Throttled               Code = wire.Throttled

	requestTooLarge Code = 1 // code of a TooLargeError; servers send no positive codes
)

// refusals maps each code to its texts. name is the text of KeeperException.getCodeMessage. zkCli
// is the message of zkCli (CliWrapperException), or empty if there is none; if it ends in a colon,
// the path follows. library is the error that go-zookeeper returns for the code, for callers that
// compare errors with it.
var refusals = map[Code]struct {
	name    string
	zkCli   string
	library error
}{
	codeOK:               {name: "ok"},
	systemError:          {name: "SystemError"},
	runtimeInconsistency: {name: "RuntimeInconsistency"},
	dataInconsistency:    {name: "DataInconsistency"},
	ConnectionLoss:       {"ConnectionLoss", "", zk.ErrConnectionClosed},
	MarshallingError:     {name: "MarshallingError"},
	Unimplemented:        {name: "Unimplemented"},
	operationTimeout:     {"OperationTimeout", "", zk.ErrConnectionClosed}, // as after a connection loss, the outcome is unknown
	badArguments:         {"BadArguments", "Arguments are not valid : ", nil},
	-12:                  {name: "UnknownSession"},
	newConfigNoQuorum: {"NewConfigNoQuorum", "No quorum of new config is connected and up-to-date with the leader of" +
		" last committed config - try invoking reconfiguration after new servers are connected and synced", nil},
	reconfigInProgress: {"ReconfigInProgress",
		"Another reconfiguration is in progress -- concurrent reconfigs not supported (yet)", nil},
	apiError:                {name: "APIError"},
	NoNode:                  {"NoNode", "Node does not exist: ", zk.ErrNoNode},
	NoAuth:                  {"NoAuth", "Insufficient permission : ", zk.ErrNoAuth},
	BadVersion:              {"BadVersion", "version No is not valid : ", zk.ErrBadVersion},
	noChildrenForEphemerals: {"NoChildrenForEphemerals", "Ephemerals cannot have children: ", zk.ErrNoChildrenForEphemerals},
	NodeExists:              {"NodeExists", "Node already exists: ", zk.ErrNodeExists},
	NotEmpty:                {"Directory not empty", "Node not empty: ", zk.ErrNotEmpty},
	SessionExpired:          {"Session expired", "", zk.ErrSessionExpired},
	-113:                    {name: "InvalidCallback"},
	InvalidACL:              {"InvalidACL", "Acl is not valid : ", nil},
	AuthFailed:              {name: "AuthFailed"},
	SessionMoved:            {"Session moved", "", zk.ErrSessionMoved},
	NotReadOnly:             {"Not a read-only call", "Not a read-only call: ", nil},
	LocalSession:            {name: "Ephemeral node on local session"},
	noWatcher:               {name: "No such watcher"},
	requestTimeout:          {name: "RequestTimeout"},
	-123:                    {name: "Reconfig is disabled"},
	sessionNoAuth:           {name: "Session closed because client failed to authenticate"},
	QuotaExceeded:           {"Quota has exceeded", "Quota has exceeded : ", nil},
	Throttled:               {name: "Op throttled due to high load"},
	requestTooLarge:         {"TooLarge", "The request is too large: ", nil},
}

// inconclusive is the set of codes after which it is unknown whether a request took effect. The set
// does not apply to the codes of single operations in the answer to a multi. There, any error means
// that ZooKeeper has rolled back the whole multi.
var inconclusive = map[Code]bool{
	systemError: true, runtimeInconsistency: true, dataInconsistency: true, ConnectionLoss: true,
	operationTimeout: true, apiError: true, requestTimeout: true,
}

// names contains one-word names for the codes whose name in refusals is a sentence.
var names = map[Code]string{
	NotEmpty: "NotEmpty", SessionExpired: "SessionExpired", SessionMoved: "SessionMoved", NotReadOnly: "NotReadOnly",
	LocalSession: "EphemeralOnLocalSession", noWatcher: "NoWatcher", -123: "ReconfigDisabled", sessionNoAuth: "SessionClosedRequireSaslAuth",
	QuotaExceeded: "QuotaExceeded", Throttled: "Throttled",
}

// Name returns the name of the code, as used in the name of the corresponding KeeperException
// class, or its number if it has no name.
func (c Code) Name() string { return cmp.Or(names[c], refusals[c].name, strconv.Itoa(int(c))) }

// PathOf returns the path that an error is about, as the user wrote it, or an empty string if the
// error contains no path.
func PathOf(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Path
	}
	if e, ok := errors.AsType[*UnsentError](err); ok {
		return e.Path
	}
	if e, ok := errors.AsType[*AbandonedError](err); ok {
		return e.Path
	}
	if e, ok := errors.AsType[*LostError](err); ok {
		return e.Path
	}
	return ""
}

// Error returns KeeperException's message for the code, without a path.
func (c Code) Error() string {
	return "KeeperErrorCode = " + cmp.Or(refusals[c].name, strconv.Itoa(int(c)))
}

// Is reports whether target is the error that go-zookeeper returns for the same code.
func (c Code) Is(target error) bool { return refusals[c].library == target && target != nil }
