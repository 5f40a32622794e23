package lockcmd

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/zkconn"
)

// post is the znode of a lock, as a line of ZK_LOCK_FENCE names it:
//
//	HOST:PORT,…/PATH@MARK,…[@CLUSTER]
//
// Each znode on the path has a mark, from the top down to the lock's own znode. The marks
// identify the ensemble under any name of its servers, also when the lock is gone. A line of
// zksh 0.1 has no marks. CLUSTER is the configuration's section that names the servers.
type post struct {
	hosts   []string // host:port each
	node    string   // server path of the lock's own znode
	marks   []mark   // one for each of paths(); nil: unknown
	cluster string   // with its ClusterMark, or empty

	line  string // the line that was read
	fault error  // why it cannot be parsed; then the other fields are empty

	home    zkconn.Ensemble // a connection of this program that may be to the lock's ensemble; may be zero
	session int64       // id of the session on home that holds the lock; 0: another program holds it
}

// mark identifies the transaction that created a znode. Two ensembles do not share one.
type mark struct{ czxid, ctime int64 }

// of reports whether a znode has this mark. The znodes that every ensemble starts with, such
// as /zookeeper, have czxid 0 and identify nothing.
func (m mark) of(st *zk.Stat) bool {
	return m.czxid != 0 && m == markOf(st)
}

// markOf returns the mark of a znode; of a missing one (nil) it identifies nothing.
func markOf(st *zk.Stat) mark {
	if st == nil {
		return mark{}
	}
	return mark{st.Czxid, st.Ctime}
}

func (m mark) String() string {
	return strconv.FormatInt(m.czxid, 16) + "." + strconv.FormatInt(m.ctime, 16)
}

func parseMark(text string) (m mark, err error) {
	czxid, ctime, _ := strings.Cut(text, ".")
	if m.czxid, err = strconv.ParseInt(czxid, 16, 64); err == nil {
		m.ctime, err = strconv.ParseInt(ctime, 16, 64)
	}
	if err != nil {
		return mark{}, fmt.Errorf("%q does not identify a znode", text)
	}
	return m, nil
}

// postsOf parses the lines of ZK_LOCK_FENCE. It keeps a line that it cannot parse, so that
// neither this program nor the programs that it starts write anything.
func postsOf(lines string) (posts []post) {
	for line := range strings.Lines(lines) {
		if line = strings.TrimSuffix(line, "\n"); line == "" {
			continue
		}
		p, err := parsePost(line)
		if err != nil {
			p = post{fault: err}
		}
		p.line = line
		posts = append(posts, p)
	}
	return posts
}

func parsePost(line string) (post, error) {
	at := strings.LastIndexByte(line, '/') + 1
	name, marks, marked := strings.Cut(line[at:], "@")
	servers, err := zkconn.ParseServers(line[:at] + name)
	switch {
	case err != nil:
		return post{}, err
	case servers.Chroot == "":
		return post{}, errors.New("the path is missing")
	}
	p := post{hosts: servers.Hosts, node: servers.Chroot}
	if !marked {
		return p, nil
	}
	marks, cluster, named := strings.Cut(marks, "@")
	if named {
		p.cluster = zkconn.ClusterMark + cluster
	}
	for text := range strings.SplitSeq(marks, ",") {
		m, err := parseMark(text)
		if err != nil {
			return post{}, err
		}
		p.marks = append(p.marks, m)
	}
	if n := len(p.paths()); len(p.marks) != n {
		return post{}, fmt.Errorf("the line has %d znode identifiers, but its path has %d components; the numbers must be equal", len(p.marks), n)
	}
	return p, nil
}

func (p post) String() string {
	if p.fault != nil {
		return p.line
	}
	var marks []string
	for _, m := range p.marks {
		marks = append(marks, m.String())
	}
	text := p.place()
	if len(marks) > 0 {
		text += "@" + strings.Join(marks, ",") + p.cluster // which begins with an @ of its own
	}
	return text
}

func (p post) servers() string { return strings.Join(p.hosts, ",") }

// place returns the servers and the path.
func (p post) place() string { return p.servers() + p.node }

// paths returns the znodes from the top down to the lock's own.
func (p post) paths() (all []string) {
	for node := p.node; node != "/"; node = path.Dir(node) {
		all = append(all, node)
	}
	slices.Reverse(all)
	return all
}

// marked reports whether one of the stats, by path, has the mark of its znode.
func (p post) marked(stats map[string]*zk.Stat) bool {
	for i, node := range p.paths() {
		if i < len(p.marks) && p.marks[i].of(stats[node]) {
			return true
		}
	}
	return false
}

// there reports whether the stats, by path, are those of the lock's ensemble. Without marks
// the lock's own znode shows it, as its name is unique.
func (p post) there(stats map[string]*zk.Stat) bool {
	return p.marked(stats) || p.marks == nil && stats[p.node] != nil
}

// gather returns the Stats of all znodes on the paths of posts, by path.
func gather(ctx context.Context, at zkconn.Epoch, posts []post) (map[string]*zk.Stat, error) {
	var paths []string
	for _, p := range posts {
		paths = append(paths, p.paths()...)
	}
	slices.Sort(paths)
	paths = slices.Compact(paths)
	list, err := at.Stats(ctx, paths)
	if err != nil {
		return nil, err
	}
	stats := map[string]*zk.Stat{}
	for i, st := range list {
		stats[paths[i]] = st
	}
	return stats, nil
}

// withMarks reads the marks of the locks that this program holds. It reads each in the
// session that holds the lock; if that session is over, the post stays without marks.
func withMarks(ctx context.Context, posts []post) ([]post, error) {
	posts = slices.Clone(posts)
	in := map[zkconn.Epoch][]post{}
	for _, p := range posts {
		if at, present := p.holder(); present {
			in[at] = append(in[at], p)
		}
	}
	var errs []error
	read := map[zkconn.Epoch]map[string]*zk.Stat{}
	for at, of := range in {
		stats, err := gather(ctx, at, of)
		read[at], errs = stats, append(errs, err)
	}
	for i, p := range posts {
		at, present := p.holder()
		if stats := read[at]; present && stats != nil {
			for _, node := range p.paths() {
				posts[i].marks = append(posts[i].marks, markOf(stats[node]))
			}
		}
	}
	return posts, errors.Join(errs...)
}

// holder returns the session that holds the lock, if the marks are still to be read there.
func (p post) holder() (at zkconn.Epoch, present bool) {
	if p.session == 0 || p.marks != nil {
		return at, false
	}
	return p.home.EpochOf(p.session)
}
