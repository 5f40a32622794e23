package queue

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/user"
	"path"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// A note is the data that zksh stores in its lock znodes, as one line of JSON. It shows to other
// users which process holds the lock.
type note struct {
	Host   string `json:"host"`
	PID    int    `json:"pid"`
	User   string `json:"user"`
	Owner  string `json:"owner,omitempty"` // who owns the lock, if it does not belong to a session
	Note   string `json:"note,omitempty"`
	Leases int    `json:"leases,omitempty"` // number of leases of the semaphore; 0 for a lock
	Start  string `json:"start"`            // time at which the lock was requested, RFC 3339
	// Held lists the locks that this process and its parent processes held at the time Start, as
	// server paths of their znodes.
	Held []string `json:"held,omitempty"`
}

// ownNote returns a note about the current process, with text as a message for other users.
func ownNote(text string) note {
	n := note{PID: os.Getpid(), Note: text, Start: render.Time(time.Now())}
	if host, err := os.Hostname(); err == nil {
		n.Host = host
	}
	n.User = strconv.Itoa(os.Getuid())
	if u, err := user.Current(); err == nil {
		n.User = u.Username
	}
	return n
}

// Note returns the data to store in a lock znode of this process. text is a message for other
// users. held contains the server paths of the znodes of locks that the process already holds.
// leases is the number of leases of a semaphore, and 0 for a lock.
func Note(text string, held []string, leases int) ([]byte, error) {
	n := ownNote(text)
	n.Held, n.Leases = held, leases
	return json.Marshal(n)
}

// OwnerNote returns the data to store in a lock znode that belongs to an owner. text and leases
// have the same meaning as for Note.
func OwnerNote(owner, text string, leases int) ([]byte, error) {
	n := ownNote(text)
	n.Owner, n.Leases = owner, leases
	return json.Marshal(n)
}

func parseNote(data []byte) (n note, ok bool) {
	err := json.Unmarshal(data, &n)
	return n, err == nil && n.valid()
}

// valid reports whether n was parsed from a note that zksh wrote, rather than from other JSON.
func (n note) valid() bool { return n.Host != "" && n.PID > 0 }

// String returns a one-line description of the process, such as "text (user@host pid 12)". The
// text comes first, because a narrow window cuts off the end.
func (n note) String() string {
	s := n.Host
	if n.User != "" {
		s = n.User + "@" + s
	}
	s += " pid " + strconv.Itoa(n.PID)
	switch {
	case n.Owner != "" && n.Note != "":
		return fmt.Sprintf("owner %s: %s (%s)", n.Owner, n.Note, s)
	case n.Owner != "":
		return fmt.Sprintf("owner %s (%s)", n.Owner, s)
	case n.Note != "":
		return fmt.Sprintf("%s (%s)", n.Note, s)
	}
	return s
}

// A revocation contains the details of a request to release a lock. zksh writes it into the
// holder's znode, after zklock.RevokeMessage, but only if the znode contains a note of zksh.
type revocation struct {
	By     note            `json:"by"`
	Holder json.RawMessage `json:"holder,omitempty"` // data of the znode before the request
}

const releaseRequested = "release requested"

// parseRevocation reports whether data, the data of a lock znode, is a request to release the
// lock. It also returns the details of the request, or an empty r if there are none.
func parseRevocation(data []byte) (r revocation, ok bool) {
	rest, ok := bytes.CutPrefix(data, []byte(zklock.RevokeMessage))
	if !ok {
		return r, string(data) == zklock.UnlockMessage
	}
	if json.Unmarshal(rest, &r) != nil {
		return revocation{}, true
	}
	return r, true
}

// Revoke returns the data to write into a lock znode to ask its owner to release the lock. data
// is the current data of that znode. The result includes details only if zksh wrote data, because
// Curator recognizes only the plain message.
func Revoke(data []byte) ([]byte, error) {
	if r, ok := parseRevocation(data); ok { // the owner has already been asked to release the lock
		data = r.Holder
	}
	if _, ok := parseNote(data); !ok {
		return []byte(zklock.RevokeMessage), nil
	}
	line, err := json.Marshal(revocation{By: ownNote(""), Holder: data})
	return append([]byte(zklock.RevokeMessage+" "), line...), err
}

// Asker returns a short description of the client that asked a holder to release its lock. data
// is the data of the holder's znode.
func Asker(data []byte) string {
	if r, _ := parseRevocation(data); r.By.valid() {
		return render.Safe(r.By.String())
	}
	return "another client"
}

// whoColumns is the width, in columns, to which plain text from a znode is shortened in a list.
const whoColumns = 40

// noteIn returns the note in the data of a znode, also if its owner was asked to release the lock.
// It returns an empty note if there is none.
func noteIn(data []byte) note {
	if r, ok := parseRevocation(data); ok {
		data = r.Holder
	}
	n, ok := parseNote(data)
	if !ok {
		return note{}
	}
	return n
}

// decode returns a description of the client that wrote data into its lock znode. It also reports
// whether that client is zksh. If data is empty, the description is empty.
func decode(data []byte) (who string, byZksh bool) {
	if n, ok := parseNote(data); ok {
		return n.String(), true
	}
	if r, ok := parseRevocation(data); ok {
		return r.decode()
	}
	switch {
	case len(data) == 0:
		return "", false
	case !isText(data):
		return fmt.Sprintf("%d bytes", len(data)), false
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(data)), "\n")
	return render.Cut(line, whoColumns), false
}

func (r revocation) decode() (who string, ours bool) {
	who = releaseRequested
	if r.By.valid() {
		who += " by " + r.By.String()
	}
	holder, ours := parseNote(r.Holder)
	if ours {
		who = holder.String() + ", " + who
	}
	return who, ours
}

// isText reports whether data is valid UTF-8 without control characters other than tabs and line
// breaks.
func isText(data []byte) bool {
	return utf8.Valid(data) && strings.IndexFunc(string(data), func(r rune) bool {
		return unicode.IsControl(r) && r != '\n' && r != '\t' && r != '\r'
	}) < 0
}

// Who returns a description of the client that wrote data into its lock znode. The description is
// safe to print on one line of a terminal.
func Who(data []byte) string {
	who, _ := decode(data)
	return render.Safe(who)
}

// Describe returns a description of a contender: the client that wrote data, the creation time of
// the contender's znode, and the name of the znode. It omits parts that are unknown.
func Describe(data []byte, since time.Time, node string) string {
	who, name := Who(data), render.Safe(path.Base(node))
	words, end := []string{who}, " ("+name+")"
	if who == "" {
		words, end = []string{name}, ""
	}
	if !since.IsZero() {
		words = append(words, "since "+since.Local().Format(time.TimeOnly))
	}
	return strings.Join(words, ", ") + end
}
