package sandbox

import (
	"encoding/binary"

	"github.com/zksh/zksh/internal/jute"
)

// Marks and bounds of the client protocol; the opcodes are jute's.
const (
	opError   = -1 // the type of a failed result inside a multi
	xidEvent  = -1
	maxFrame  = 0xfffff // the real one's jute.maxbuffer, 1 MiB - 1
	maxTTL    = 1<<40 - 1
	headerLen = 4 + 4 + 8 + 4 // length, xid, zxid, error
	maxReply  = 16 << 20      // past this a multiRead ends
)

// code is an error code of the protocol.
type code int32

const (
	codeOK                   code = 0
	codeSystemError          code = -1
	codeRuntimeInconsistency code = -2
	codeMarshalling          code = -5
	codeUnimplemented        code = -6
	codeBadArguments         code = -8
	codeNoNode               code = -101
	codeNoAuth               code = -102
	codeBadVersion           code = -103
	codeNoChildrenForEphs    code = -108
	codeNodeExists           code = -110
	codeNotEmpty             code = -111
	codeSessionExpired       code = -112
	codeInvalidACL           code = -114
	codeAuthFailed           code = -115
	codeNoWatcher            code = -121
	codeReconfigDisabled     code = -123
	codeQuotaExceeded        code = -125
)

// Permissions in an ACL.
const (
	permRead   = 1
	permWrite  = 2
	permCreate = 4
	permDelete = 8
	permAdmin  = 16
	permAll    = 31
)

// Types of a watch event.
const (
	eventNodeCreated         = 1
	eventNodeDeleted         = 2
	eventNodeDataChanged     = 3
	eventNodeChildrenChanged = 4
	stateSyncConnected       = 3
)

// Create modes, as the flags of a create request say them.
const (
	modePersistent    = 0
	modeEphemeral     = 1
	modeSequential    = 2
	modeEphemeralSeq  = 3
	modeContainer     = 4
	modeTTL           = 5
	modeTTLSequential = 6
)

// frame starts a reply: room for the length, then the header.
func frame(xid int32, zxid int64, err code) *jute.Encoder {
	e := &jute.Encoder{B: make([]byte, 4, 128)}
	e.Int(xid)
	e.Long(zxid)
	e.Int(int32(err))
	return e
}

// finish writes the length in front of a frame and returns the frame.
func finish(e *jute.Encoder) []byte {
	binary.BigEndian.PutUint32(e.B, uint32(len(e.B)-4))
	return e.B
}

// eventFrame is a watch event; the real 3.8 stamps events with zxid -1.
func eventFrame(typ int32, path string) []byte {
	e := frame(xidEvent, -1, codeOK)
	e.Int(typ, stateSyncConnected)
	e.String(path)
	return finish(e)
}
