package wire

// The error codes of the protocol (KeeperException.Code) that this package handles.
const (
	OK               = 0
	MarshallingError = -5
	Unimplemented    = -6
	SessionExpired   = -112
	AuthFailed       = -115
	SessionMoved     = -118
	NotReadOnly      = -119
	SessionNoAuth    = -124
	Throttled        = -127
)

// A Fault is the reason why zksh closed a connection: the server violated the protocol, or did
// not answer in time.
type Fault struct {
	Text   string
	Silent bool // whether the server answered pings, but no requests
}

func (f Fault) Error() string { return f.Text }
