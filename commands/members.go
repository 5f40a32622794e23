package commands

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/zksh/zksh/internal/properties"
	"github.com/zksh/zksh/internal/userfile"
)

// maxMembers is the maximum size of a file for reconfig, in bytes.
const maxMembers = 1 << 20

// readMembers reads the file of reconfig -file. It returns the members of the ensemble with their
// groups and weights, separated by commas.
func readMembers(name string) (string, error) {
	data, err := userfile.ReadSmallFile(name, maxMembers)
	var members string
	if err == nil {
		members, err = parseMembers(data)
	}
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		err = pathErr.Err
	}
	if err != nil {
		return "", fmt.Errorf("Error processing %s (%w)", name, err)
	}
	return members, nil
}

// Kinds of keys in a file for reconfig. The id of a member or a group follows the dot.
const (
	memberKey = "server."
	groupKey  = "group."
	weightKey = "weight."
)

// A memberLine is a line of a file for reconfig.
type memberLine struct {
	number int
	kind   string // memberKey, groupKey or weightKey
	id     int64  // id of the member; for a group, id of the group
	value  string
	group  []int64 // ids of the members of a group
}

func (l memberLine) key() string { return fmt.Sprintf("%s%d", l.kind, l.id) }

// votes reports whether the line describes a member that is not an observer.
func (l memberLine) votes() bool {
	addresses, _, _ := strings.Cut(l.value, ";")
	return l.kind == memberKey && !slices.ContainsFunc(strings.Split(addresses, "|"), func(address string) bool {
		return strings.HasSuffix(strings.ToLower(address), ":observer")
	})
}

// parseMembers parses the contents of a file for reconfig. It returns the lines, separated by
// commas, without the version, which ZooKeeper sets itself. As in zkCli, an unknown key is an error:
// if zksh ignored it, a misspelt member would leave the ensemble.
func parseMembers(data []byte) (string, error) {
	var lines []memberLine
	for p, err := range properties.Parse(data) {
		if err != nil {
			return "", fmt.Errorf("line %w", err)
		}
		if p.Key == "version" {
			continue
		}
		l, err := parseMember(p)
		if err != nil {
			return "", fmt.Errorf("line %d: %w", p.Line, err)
		}
		lines = append(lines, l)
	}
	if err := checkMembers(lines); err != nil {
		return "", err
	}
	entries := make([]string, len(lines))
	for i, l := range lines {
		entries[i] = l.key() + "=" + l.value
	}
	return strings.Join(entries, ","), nil
}

func parseMember(p properties.Property) (l memberLine, err error) {
	kinds := []string{memberKey, groupKey, weightKey}
	i := slices.IndexFunc(kinds, func(kind string) bool { return strings.HasPrefix(p.Key, kind) })
	if i < 0 {
		return l, fmt.Errorf("Unrecognised parameter: %s; the keys are server.N, group.N, weight.N and version", p.Key)
	}
	l = memberLine{number: p.Line, kind: kinds[i], value: strings.TrimSpace(p.Value)}
	if l.id, err = memberID(p.Key[len(l.kind):]); err != nil {
		return l, fmt.Errorf("%s: %w", p.Key, err)
	}
	switch {
	case l.value == "":
		err = errors.New("the value is missing")
	case strings.ContainsAny(l.value, ", \t\r\n\\"): // a server would see the end of the value, or another line
		err = errors.New("the value contains a comma, a space or a backslash; write each entry on a line of its own")
	case l.kind == weightKey:
		if _, bad := strconv.ParseUint(l.value, 10, 63); bad != nil {
			err = fmt.Errorf("the weight %q is not a whole number", l.value)
		}
	case l.kind == groupKey:
		for word := range strings.SplitSeq(l.value, ":") {
			id, bad := memberID(word)
			err = errors.Join(err, bad)
			l.group = append(l.group, id)
		}
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", p.Key, err)
	}
	return l, err
}

// memberID parses the id of a member or a group.
func memberID(word string) (int64, error) {
	id, err := strconv.ParseInt(word, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("the id %q is not a whole number", word)
	}
	return id, nil
}

// checkMembers returns an error if the lines contradict each other. A server would reject most of
// these contradictions, too, but it does not say why.
func checkMembers(lines []memberLine) error {
	numbers := map[string]int{} // line number of each key
	groups := map[int64]int{}   // line number of the group of each member
	hierarchical := false       // whether there are groups or weights
	for _, l := range lines {
		if earlier, twice := numbers[l.key()]; twice {
			return fmt.Errorf("line %d: %s is also in line %d", l.number, l.key(), earlier)
		}
		numbers[l.key()] = l.number
		hierarchical = hierarchical || l.kind != memberKey
		for _, id := range l.group {
			if earlier, twice := groups[id]; twice {
				return fmt.Errorf("line %d: server %d is already in the group of line %d", l.number, id, earlier)
			}
			groups[id] = l.number
		}
	}
	members := 0
	for _, l := range lines {
		ids := l.group
		switch l.kind {
		case memberKey:
			if members++; hierarchical && l.votes() && groups[l.id] == 0 {
				return fmt.Errorf("line %d: server %d is not in a group; in a file with groups or weights, "+
					"every voting member must be in a group", l.number, l.id)
			}
		case weightKey:
			ids = []int64{l.id}
		}
		for _, id := range ids {
			if numbers[fmt.Sprintf("%s%d", memberKey, id)] == 0 {
				return fmt.Errorf("line %d: %s: the file has no line server.%d", l.number, l.key(), id)
			}
		}
	}
	if members == 0 {
		return errors.New("the file contains no line server.N=…")
	}
	return nil
}
