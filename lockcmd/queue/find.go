package queue

import (
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// Find returns the path of the contender's znode that a user specifies as what. what is a
// place in the queue, the znode's name or path, or a part of the name that is unique in the
// queue: its beginning, its end or the shortened form in a list. Digits alone are always a
// place. They never match the end of a sequence number, because the contender at that place
// may be gone, and the number would then select another contender.
func (q *Queue) Find(what string) (string, error) {
	isPath := strings.Contains(what, "/")
	if isPath && !strings.HasPrefix(what, strings.TrimSuffix(q.Path, "/")+"/") {
		return "", fmt.Errorf("%s is not below %s", what, q.Path)
	}
	whole := isPath || strings.Trim(what, "0123456789") == ""
	var fit []string
	for _, c := range q.Contenders {
		for _, n := range c.nodes {
			switch {
			case n.name() == what, n.path == what, strconv.Itoa(c.Place) == what:
				return n.path, nil
			case !whole && matches(n.name(), what):
				fit = append(fit, n.path)
			}
		}
	}
	switch len(fit) {
	case 1:
		return fit[0], nil
	case 0:
		return "", fmt.Errorf("%s has no contender %q; to list the contenders, run: locks %s", q.Path, path.Base(what), q.Path)
	}
	return "", fmt.Errorf("%q matches several contenders: %s", what, strings.Join(fit, ", "))
}

// matches reports whether name begins or ends with part. If part contains an ellipsis, it
// reports whether name could have been shortened to part.
func matches(name, part string) bool {
	if strings.Contains(part, "…") {
		pattern := strings.ReplaceAll(regexp.QuoteMeta(part), "…", ".*")
		return regexp.MustCompile("^(?s:" + pattern + ")$").MatchString(name)
	}
	return strings.HasPrefix(name, part) || strings.HasSuffix(name, part)
}
