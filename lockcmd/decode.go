package lockcmd

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/lockcmd/zklock"
)

func parseNote(data []byte) (n note, ok bool) {
	err := json.Unmarshal(data, &n)
	return n, err == nil && n.Host != "" && n.PID > 0
}

// What a holder finds in its data when it is asked to let go: Curator's text,
// and that of ZooKeeper's recipes.
const (
	revokeCurator = zklock.RevokeMessage
	revokeRecipe  = zklock.UnlockMessage
)

const askedToLetGo = "asked to let go"

// whoColumns is the most a plain text is shown of.
const whoColumns = 40

// decodeWho says in words what a contender's data tells of it, and whether zksh
// wrote that. Empty data tells nothing.
func decodeWho(data []byte) (who string, ours bool) {
	if n, ok := parseNote(data); ok {
		return n.String(), true
	}
	rest, revoked := strings.CutPrefix(string(data), revokeCurator)
	switch {
	case revoked:
		return decodeRevoked([]byte(rest))
	case string(data) == revokeRecipe:
		return askedToLetGo, false
	case len(data) == 0:
		return "", false
	case !isText(data):
		return fmt.Sprintf("%d bytes", len(data)), false
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(data)), "\n")
	return render.Cut(line, whoColumns), false
}

// decodeRevoked reads what may stand behind Curator's text: who asked, and what
// was there before.
func decodeRevoked(data []byte) (who string, ours bool) {
	var r struct{ By, Holder note }
	if json.Unmarshal(data, &r) != nil || r.Holder.Host == "" {
		return askedToLetGo, false
	}
	who = r.Holder.String() + ", " + askedToLetGo
	if r.By.Host != "" {
		who += " by " + r.By.String()
	}
	return who, true
}

// isText tells what a person can read.
func isText(data []byte) bool {
	return utf8.Valid(data) && strings.IndexFunc(string(data), func(r rune) bool {
		return unicode.IsControl(r) && r != '\n' && r != '\t' && r != '\r'
	}) < 0
}

// describeWho is decodeWho for a line of text: nothing in it can end the line, or
// drive a terminal.
func describeWho(data []byte) string {
	who, _ := decodeWho(data)
	return render.Safe(who)
}
