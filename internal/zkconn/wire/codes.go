package wire

// The error codes of the protocol (KeeperException.Code) that a connection acts on.
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

// A Fault is why this side has given a connection up: the server did what no server may.
type Fault struct {
	Text   string
	Silent bool // it answered pings alone
}

func (f Fault) Error() string { return f.Text }
