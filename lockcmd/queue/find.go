package queue

import (
	"fmt"
	"path"
	"strconv"
	"strings"
)

// Find is the child of the lock that a person means: its place in the queue, its
// name or path, or a part of the name that only it has, such as the number at the
// end or what the list shows of a long one.
func (q *Queue) Find(node string) (string, error) {
	if strings.Contains(node, "/") && path.Dir(node) != path.Clean(q.Path) {
		return "", fmt.Errorf("%s is not below %s", node, q.Path)
	}
	name := path.Base(node)
	start, end, _ := strings.Cut(name, "…")
	var fit []string
	for _, c := range q.Contenders {
		for _, n := range c.Nodes {
			if n == name || strconv.Itoa(c.Place) == name {
				return n, nil
			}
			if strings.HasPrefix(n, start) && strings.HasSuffix(n, end) || strings.HasSuffix(n, name) {
				fit = append(fit, n)
			}
		}
	}
	switch len(fit) {
	case 1:
		return fit[0], nil
	case 0:
		return "", fmt.Errorf("%s has no contender %q; locks %s shows them, and their place will do", q.Path, name, q.Path)
	}
	return "", fmt.Errorf("%q may be any of %s", name, strings.Join(fit, ", "))
}
