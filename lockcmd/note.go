package lockcmd

import (
	"bytes"
	"encoding/json"
	"os"
	"os/user"
	"strconv"
	"time"

	"github.com/zksh/zksh/lockcmd/zklock"
)

// note is what the data of our znodes say: who holds the lock, for people. It is
// one line of JSON.
type note struct {
	Host  string `json:"host"`
	PID   int    `json:"pid"`
	User  string `json:"user"`
	Note  string `json:"note,omitempty"`
	Start string `json:"start"` // when the lock was asked for, as RFC 3339 has it
}

// ownNote describes this process.
func ownNote(text string) note {
	n := note{PID: os.Getpid(), Note: text, Start: time.Now().UTC().Format("2006-01-02T15:04:05.000Z07:00")}
	if host, err := os.Hostname(); err == nil {
		n.Host = host
	}
	n.User = strconv.Itoa(os.Getuid())
	if u, err := user.Current(); err == nil {
		n.User = u.Username
	}
	return n
}

// line is the data of a znode.
func (n note) line() ([]byte, error) { return json.Marshal(n) }

// String is the note for a person: user@host pid 12: why.
func (n note) String() string {
	s := n.Host
	if n.User != "" {
		s = n.User + "@" + s
	}
	s += " pid " + strconv.Itoa(n.PID)
	if n.Note != "" {
		s += ": " + n.Note
	}
	return s
}

// revocation is what stands behind zklock.RevokeMessage in the data of a znode
// of ours: who asks, and what the data had been.
type revocation struct {
	By     note            `json:"by"`
	Holder json.RawMessage `json:"holder,omitempty"`
}

// readRevocation reads a request to let go that zksh has made.
func readRevocation(data []byte) (revocation, bool) {
	var r revocation
	rest, ok := bytes.CutPrefix(data, []byte(zklock.RevokeMessage))
	return r, ok && json.Unmarshal(rest, &r) == nil
}

// message is the data of a znode whose owner is asked to let go. Curator looks
// for its bare message, so only an owner that writes notes like ours gets more.
func (r revocation) message(data []byte) ([]byte, error) {
	var n note
	if json.Unmarshal(data, &n) != nil || n.PID == 0 {
		return []byte(zklock.RevokeMessage), nil
	}
	r.Holder = data
	line, err := json.Marshal(r)
	return append([]byte(zklock.RevokeMessage+" "), line...), err
}
