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

// A fencedLock is one line of ZK_LOCK_FENCE. It identifies the znode of a lock that a parent
// process holds:
//
//	HOST:PORT,…/PATH@MARK,…[@CLUSTER]
//
// PATH is the path of the lock's own znode. There is one MARK for each znode on this path,
// beginning with the topmost one. The marks identify the ensemble even if its servers have
// other names, and even after the lock is gone. Lines written by zksh 0.1 have no marks. CLUSTER
// is the section of zksh's configuration that lists the servers.
type fencedLock struct {
	hosts   []string // addresses of the servers, as host:port
	node    string   // path of the lock's own znode, including the chroot
	marks   []mark   // marks of the znodes that paths returns, in the same order; nil if unknown
	cluster string   // ClusterMark and the section name; empty if no section lists the servers

	line     string // the line as it was read
	parseErr error  // why the line cannot be parsed; if set, the only other field set is line

	home    zkconn.Ensemble // a connection of this program that may lead to the lock's ensemble; zero if there is none
	session int64           // id of the session on home that holds the lock; 0 if another program holds it
}

// A mark identifies the transaction that created a znode. Znodes of different ensembles have
// different marks.
type mark struct{ czxid, ctime int64 }

// matches reports whether the znode with Stat st has this mark. It returns false for znodes that
// exist in every new ensemble, such as /zookeeper. Their czxid is 0, so they do not identify an
// ensemble.
func (m mark) matches(st *zk.Stat) bool {
	return m.czxid != 0 && m == markOf(st)
}

// markOf returns the mark of the znode with Stat st. If st is nil, the znode does not exist, and
// the returned mark matches no znode.
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

// parseFence parses the value of ZK_LOCK_FENCE. The result includes lines that cannot be parsed.
// Such a line blocks all writes of this program and of the programs that it starts.
func parseFence(lines string) (locks []fencedLock) {
	for line := range strings.Lines(lines) {
		if line = strings.TrimSuffix(line, "\n"); line == "" {
			continue
		}
		p, err := parseFencedLock(line)
		if err != nil {
			p = fencedLock{parseErr: err}
		}
		p.line = line
		locks = append(locks, p)
	}
	return locks
}

func parseFencedLock(line string) (fencedLock, error) {
	at := strings.LastIndexByte(line, '/') + 1
	name, marks, marked := strings.Cut(line[at:], "@")
	servers, err := zkconn.ParseServers(line[:at] + name)
	switch {
	case err != nil:
		return fencedLock{}, err
	case servers.Chroot == "":
		return fencedLock{}, errors.New("the path is missing")
	}
	p := fencedLock{hosts: servers.Hosts, node: servers.Chroot}
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
			return fencedLock{}, err
		}
		p.marks = append(p.marks, m)
	}
	if n := len(p.paths()); len(p.marks) != n {
		return fencedLock{}, fmt.Errorf("the line has %d znode identifiers, but its path has %d components; the numbers must be equal", len(p.marks), n)
	}
	return p, nil
}

func (p fencedLock) String() string {
	if p.parseErr != nil {
		return p.line
	}
	var marks []string
	for _, m := range p.marks {
		marks = append(marks, m.String())
	}
	text := p.address()
	if len(marks) > 0 {
		text += "@" + strings.Join(marks, ",") + p.cluster // cluster begins with "@"
	}
	return text
}

func (p fencedLock) servers() string { return strings.Join(p.hosts, ",") }

// address returns the servers and the path of the lock's znode, in the form of a connect string.
func (p fencedLock) address() string { return p.servers() + p.node }

// paths returns the paths of the lock's own znode and of its ancestors, beginning with the
// topmost one.
func (p fencedLock) paths() (all []string) {
	for node := p.node; node != "/"; node = path.Dir(node) {
		all = append(all, node)
	}
	slices.Reverse(all)
	return all
}

// hasMark reports whether any znode on the lock's path still has its mark. stats contains the
// Stats of these znodes, by path.
func (p fencedLock) hasMark(stats map[string]*zk.Stat) bool {
	for i, node := range p.paths() {
		if i < len(p.marks) && p.marks[i].matches(stats[node]) {
			return true
		}
	}
	return false
}

// isHere reports whether stats was read in the lock's ensemble. stats contains the Stats of znodes,
// by path. If the lock has no marks, isHere returns true if the lock's own znode exists, because
// the name of that znode is unique.
func (p fencedLock) isHere(stats map[string]*zk.Stat) bool {
	return p.hasMark(stats) || p.marks == nil && stats[p.node] != nil
}

// readStats returns the Stats of all znodes on the locks' paths, by path. The Stat of a missing
// znode is nil.
func readStats(ctx context.Context, epoch zkconn.Epoch, locks []fencedLock) (map[string]*zk.Stat, error) {
	var paths []string
	for _, p := range locks {
		paths = append(paths, p.paths()...)
	}
	slices.Sort(paths)
	paths = slices.Compact(paths)
	list, err := epoch.Stats(ctx, paths)
	if err != nil {
		return nil, err
	}
	stats := map[string]*zk.Stat{}
	for i, st := range list {
		stats[paths[i]] = st
	}
	return stats, nil
}

// withMarks returns a copy of locks, completed with the missing marks of those locks that this
// program holds. It reads the marks in the session that holds the lock. If that session has ended,
// the lock still has no marks afterwards.
func withMarks(ctx context.Context, locks []fencedLock) ([]fencedLock, error) {
	locks = slices.Clone(locks)
	in := map[zkconn.Epoch][]fencedLock{}
	for _, p := range locks {
		if at, present := p.unreadHolder(); present {
			in[at] = append(in[at], p)
		}
	}
	var errs []error
	read := map[zkconn.Epoch]map[string]*zk.Stat{}
	for at, of := range in {
		stats, err := readStats(ctx, at, of)
		read[at], errs = stats, append(errs, err)
	}
	for i, p := range locks {
		at, present := p.unreadHolder()
		if stats := read[at]; present && stats != nil {
			for _, node := range p.paths() {
				locks[i].marks = append(locks[i].marks, markOf(stats[node]))
			}
		}
	}
	return locks, errors.Join(errs...)
}

// unreadHolder returns the session in which the marks of p must still be read: the session of this
// program that holds the lock. If p already has marks, or no session of this program holds the
// lock, present is false.
func (p fencedLock) unreadHolder() (epoch zkconn.Epoch, present bool) {
	if p.session == 0 || p.marks != nil {
		return epoch, false
	}
	return p.home.EpochOf(p.session)
}
