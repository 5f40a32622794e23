package queue

import (
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// Find is the path of the contender's znode that a person means: by its place in
// the queue, its name or path, or a part of the name that only it has, such as its
// end or what the list shows of a long one. Digits alone are a place and nothing
// else: who had it may be gone by now, and a number that ends in it is somebody
// else's.
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
			case !whole && like(n.name(), what):
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

// like reports whether a name begins or ends with a part, or is what a part with
// ellipses was made of.
func like(name, part string) bool {
	if strings.Contains(part, "…") {
		pattern := strings.ReplaceAll(regexp.QuoteMeta(part), "…", ".*")
		return regexp.MustCompile("^(?s:" + pattern + ")$").MatchString(name)
	}
	return strings.HasPrefix(name, part) || strings.HasSuffix(name, part)
}
