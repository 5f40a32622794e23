package zkconn

import "strings"

// serverPath puts the chroot before a path.
func (l *link) serverPath(path string) string {
	switch {
	case l.servers.Chroot == "":
		return path
	case path == "/":
		return l.servers.Chroot
	}
	return l.servers.Chroot + path
}

// clientPath takes the chroot off a server's path; a path outside it stays.
func (l *link) clientPath(path string) string {
	root := l.servers.Chroot
	switch {
	case root == "":
		return path
	case path == root:
		return "/"
	case len(path) > len(root) && path[:len(root)] == root && path[len(root)] == '/':
		return path[len(root):]
	}
	return path
}

func (l *link) clientPaths(paths []string) []string {
	for i, p := range paths {
		paths[i] = l.clientPath(p)
	}
	return paths
}

// inside tells whether a server path is the chroot or below it.
func (l *link) inside(path string) bool {
	root := l.servers.Chroot
	return root == "" || path == root || strings.HasPrefix(path, root+"/")
}
