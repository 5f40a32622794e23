package queue

import (
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// Find returns the path of the contender's znode that the user specifies with text. The text can be
// a place in the queue, the name or path of the znode, or a part of the name that no other
// contender shares: its beginning, its end, or its shortened form in a list.
//
// Find interprets digits only as a place, not as the end of a sequence number. Otherwise, if the
// contender at that place had left, Find could return another one.
func (q *Queue) Find(text string) (string, error) {
	isPath := strings.Contains(text, "/")
	if isPath && text != q.Path && !strings.HasPrefix(text, strings.TrimSuffix(q.Path, "/")+"/") {
		return "", fmt.Errorf("%s is not below %s", text, q.Path)
	}
	whole := isPath || strings.Trim(text, "0123456789") == ""
	var fit []string
	for _, c := range q.Contenders {
		switch {
		case c.Node == text, c.node.path == text, strconv.Itoa(c.Place) == text:
			return c.node.path, nil
		case !whole && matches(c.Node, text):
			fit = append(fit, c.node.path)
		}
	}
	switch len(fit) {
	case 1:
		return fit[0], nil
	case 0:
		return "", fmt.Errorf("%s has no contender %q; to list the contenders, run: locks %s", q.Path, path.Base(text), q.Path)
	}
	return "", fmt.Errorf("%q matches several contenders: %s", text, strings.Join(fit, ", "))
}

// matches reports whether name begins or ends with part. If part contains an ellipsis (…),
// matches reports whether name can be shortened to part.
func matches(name, part string) bool {
	if strings.Contains(part, "…") {
		pattern := strings.ReplaceAll(regexp.QuoteMeta(part), "…", ".*")
		return regexp.MustCompile("^(?s:" + pattern + ")$").MatchString(name)
	}
	return strings.HasPrefix(name, part) || strings.HasSuffix(name, part)
}
