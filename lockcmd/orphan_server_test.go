package lockcmd

import (
	"errors"
	"hash/adler32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
)

// orphanSession is the owner of the znode in a snapshot of orphanSnapshot. It does not exist.
const orphanSession = 0x100000000000001

// orphanSnapshot returns a snapshot of ZooKeeper without sessions, in which the last of the
// znodes is ephemeral.
func orphanSnapshot(zxid int64, znodes ...string) []byte {
	e := jute.Encoder{B: []byte("ZKSN")}
	e.Int(2)   // version
	e.Long(-1) // dbid
	e.Int(0)   // sessions
	e.Int(0)   // ACLs
	for i, path := range append([]string{"", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"}, znodes...) {
		owner := int64(0)
		if i == len(znodes)+3 {
			owner = orphanSession
		}
		e.String(path)
		e.Buffer(nil)
		e.Long(-1)         // ACL: world:anyone:cdrwa
		e.Long(zxid, zxid) // czxid, mzxid
		e.Long(1, 1)       // ctime, mtime
		e.Int(0, 0, 0)     // versions
		e.Long(owner, zxid)
	}
	e.String("/")
	e.Long(int64(adler32.Checksum(e.B)))
	e.String("/")
	return e.B
}

// plantOrphan restarts the servers with the znodes as their only data. The last znode is ephemeral.
func plantOrphan(t *testing.T, servers []*zktest.Server, znodes ...string) {
	t.Helper()
	for _, s := range servers {
		s.Stop()
	}
	for _, s := range servers {
		for _, pattern := range []string{filepath.Join(s.Logs(), "log.*"), filepath.Join(s.Snapshots(), "snapshot.*")} {
			files, err := filepath.Glob(pattern)
			zktest.Must(t, err)
			for _, f := range files {
				zktest.Must(t, os.Remove(f))
			}
		}
		name := filepath.Join(s.Snapshots(), "snapshot.1000000ff")
		zktest.Must(t, os.WriteFile(name, orphanSnapshot(0x1000000ff, znodes...), 0o600))
	}
	var starting sync.WaitGroup
	for _, s := range servers {
		starting.Go(s.Restart)
	}
	starting.Wait()
}

// A real leader forgets an ephemeral znode without a session when it starts, but its followers
// keep the znode, because no transaction deletes it. locks names the orphan and says that the
// leader does not list it. As the manual says, create and delete remove the znode.
func TestOrphanOnFollowers(t *testing.T) {
	servers := zktest.Ensemble(t, 3)
	const queue, node = "/q", uuid + "-lock-0000000001"
	// A second election, as a slow machine causes it, removes the znode from all servers.
	const attempts = 3
	for attempt := 1; ; attempt++ {
		plantOrphan(t, servers, queue, queue+"/"+node)
		if slices.ContainsFunc(servers, func(srv *zktest.Server) bool {
			_, err := zkconn.Do(zktest.Within(t), open(t, srv.Addr(), usualTimeout), zkconn.Exists(queue+"/"+node))
			return err == nil
		}) {
			break
		}
		if attempt == attempts {
			t.Fatalf("no server had the znode, %d times", attempts)
		}
	}
	var addrs []string
	leader := ""
	for _, s := range servers {
		addrs = append(addrs, s.Addr())
		if s.Leads() {
			leader = s.Addr()
		}
	}
	// A follower that joins late gets the leader's snapshot, without the znode.
	s := open(t, strings.Join(addrs, ","), usualTimeout)
	zktest.Eventually(t, "a server that has the znode", func() bool {
		_, err := zkconn.Do(zktest.Within(t), s, zkconn.Exists(queue+"/"+node))
		if err != nil {
			s = open(t, strings.Join(addrs, ","), usualTimeout)
		}
		return err == nil
	})
	follower := s.Info().Addr
	notes := ""
	// Until all servers have reported their clients and sessions, nobody knows that it is an orphan.
	zktest.Eventually(t, "locks names the orphan", func() bool {
		notes = runCommand(t, s, render.Text, 75, "locks", queue).Notes()
		return strings.Contains(notes, "orphan: "+node)
	})
	if !strings.Contains(notes, "belongs to session 0x100000000000001, which no longer exists") ||
		!strings.Contains(notes, "the servers may disagree; to remove it, run: unlock --force "+node+" "+queue) {
		t.Error(notes)
	}
	has := func(addr string) error {
		_, err := zkconn.Do(zktest.Within(t), open(t, addr, usualTimeout), zkconn.Exists(queue+"/"+node))
		return err
	}
	if err := has(leader); !errors.Is(err, zkconn.NoNode) {
		t.Errorf("the leader %s: %v", leader, err)
	}
	if err := has(follower); err != nil {
		t.Errorf("the follower %s: %v", follower, err)
	}
	ctx := zktest.Within(t)
	if err := zkconn.Exec(ctx, s, zkconn.Delete(queue+"/"+node, -1)); !errors.Is(err, zkconn.NoNode) {
		t.Error(err)
	}
	// The leader creates the znode, although the followers cannot. All of them can delete it then.
	if err := zkconn.Exec(ctx, s, zkconn.Create(queue+"/"+node, nil, zkconn.OpenACL(), zkconn.CreateMode{})); !errors.Is(err, zkconn.NodeExists) {
		t.Error(err)
	}
	zktest.Check(t, zkconn.Exec(ctx, s, zkconn.Delete(queue+"/"+node, -1)))
	for _, addr := range addrs {
		zktest.Eventually(t, "no znode on "+addr, func() bool { return errors.Is(has(addr), zkconn.NoNode) })
	}
}
