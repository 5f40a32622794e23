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

// note is what the data of our znodes say: who holds the lock, for people. It is
// one line of JSON.
type note struct {
	Host  string `json:"host"`
	PID   int    `json:"pid"`
	User  string `json:"user"`
	Note  string `json:"note,omitempty"`
	Start string `json:"start"` // when the lock was asked for, as RFC 3339 has it
	// Held are the znodes of what was held then, by this process or what it runs
	// under, by their paths on the server.
	Held []string `json:"held,omitempty"`
}

// ownNote describes this process.
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

// Note is the data of a znode of this process, with a text for others, and the
// znodes of what is held already.
func Note(text string, held []string) ([]byte, error) {
	n := ownNote(text)
	n.Held = held
	return json.Marshal(n)
}

func parseNote(data []byte) (n note, ok bool) {
	err := json.Unmarshal(data, &n)
	return n, err == nil && n.valid()
}

// valid tells a note from what some other JSON leaves of one.
func (n note) valid() bool { return n.Host != "" && n.PID > 0 }

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

// request is what the data of a znode tell once its owner was asked to let go.
// Behind zklock.RevokeMessage stands more of it if zksh asked an owner that writes
// notes.
type request struct {
	By     note            `json:"by"`
	Holder json.RawMessage `json:"holder,omitempty"` // the data as they were
}

const askedToLetGo = "release requested"

// parseRequest reports whether data ask to let go, and how much they tell of it.
func parseRequest(data []byte) (r request, ok bool) {
	rest, ok := bytes.CutPrefix(data, []byte(zklock.RevokeMessage))
	if !ok {
		return r, string(data) == zklock.UnlockMessage
	}
	if json.Unmarshal(rest, &r) != nil {
		return request{}, true
	}
	return r, true
}

// Revoke is what a znode's data become when this process asks its owner to let
// go. Curator looks for its bare message, so only an owner that writes notes like
// ours gets more.
func Revoke(data []byte) ([]byte, error) {
	if r, ok := parseRequest(data); ok { // it was asked before
		data = r.Holder
	}
	if _, ok := parseNote(data); !ok {
		return []byte(zklock.RevokeMessage), nil
	}
	line, err := json.Marshal(request{By: ownNote(""), Holder: data})
	return append([]byte(zklock.RevokeMessage+" "), line...), err
}

// Asker names who asks to let go, for a line of text.
func Asker(data []byte) string {
	if r, _ := parseRequest(data); r.By.valid() {
		return render.Safe(r.By.String())
	}
	return "another client"
}

// whoColumns is the most a plain text is shown of.
const whoColumns = 40

// decode says in words what a contender's data tells of it, and whether zksh
// wrote that. Empty data tells nothing.
func decode(data []byte) (who string, ours bool) {
	if n, ok := parseNote(data); ok {
		return n.String(), true
	}
	if r, ok := parseRequest(data); ok {
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

func (r request) decode() (who string, ours bool) {
	who = askedToLetGo
	if r.By.valid() {
		who += " by " + r.By.String()
	}
	holder, ours := parseNote(r.Holder)
	if ours {
		who = holder.String() + ", " + who
	}
	return who, ours
}

// isText tells what a person can read.
func isText(data []byte) bool {
	return utf8.Valid(data) && strings.IndexFunc(string(data), func(r rune) bool {
		return unicode.IsControl(r) && r != '\n' && r != '\t' && r != '\r'
	}) < 0
}

// Who says in words what a contender's data tells of it, for a line of text:
// nothing in it can end the line, or drive a terminal.
func Who(data []byte) string {
	who, _ := decode(data)
	return render.Safe(who)
}

// Describe names a contender by its data, by when its znode was made and by that
// znode. What is not known is left out.
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
