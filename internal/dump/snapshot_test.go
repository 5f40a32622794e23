package dump_test

import (
	"bytes"
	"cmp"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	gocmp "github.com/google/go-cmp/cmp"

	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/internal/zktest/zksession"
)

// oddNames are names of znodes that formats may encode wrongly.
var oddNames = []string{"plain", "with blank", `quote"s'`, "%2F%", "配置", ".hidden", `back\slash`, "a:b", "content"}

// fill creates a tree with all kinds of znodes and data.
func fill(t *testing.T, s *zkconn.Session) {
	t.Helper()
	make := func(path string, data []byte, acl []zk.ACL, mode zkconn.CreateMode) {
		t.Helper()
		if acl == nil {
			acl = zkconn.OpenACL()
		}
		zktest.Must(t, zkconn.Exec(t.Context(), s, zkconn.Create(path, data, acl, mode)))
	}
	make("/t", nil, nil, zkconn.CreateMode{})
	for i, name := range oddNames {
		make("/t/"+name, []byte(strings.Repeat(name, i)), nil, zkconn.CreateMode{})
		make("/t/"+name+"/below", []byte{}, nil, zkconn.CreateMode{})
	}
	make("/t/big", bytes.Repeat([]byte{0, 0xff, '\n'}, 300_000), nil, zkconn.CreateMode{})
	make("/t/eph", []byte("e"), nil, zkconn.CreateMode{Ephemeral: true})
	make("/t/cont", nil, nil, zkconn.CreateMode{Container: true})
	make("/t/cont/in", nil, nil, zkconn.CreateMode{})
	make("/t/ttl", []byte("t"), nil, zkconn.CreateMode{TTL: time.Hour})
	make("/t/shared", nil, []zk.ACL{
		{Perms: zk.PermRead, Scheme: "world", ID: "anyone"}, {Perms: zk.PermAll, Scheme: "ip", ID: "127.0.0.1"},
		{Perms: zk.PermAll, Scheme: "digest", ID: "u:aW52YWxpZA=="},
	}, zkconn.CreateMode{})
	for range 3 { // raise the version counters
		zktest.Must(t, zkconn.Exec(t.Context(), s, zkconn.SetData("/t/plain", []byte("new"), -1)))
		make("/t/plain/gone", nil, nil, zkconn.CreateMode{})
		zktest.Must(t, zkconn.Exec(t.Context(), s, zkconn.Delete("/t/plain/gone", -1)))
	}
	zktest.Must(t, zkconn.Exec(t.Context(), s, zkconn.SetACL("/t/plain", zk.WorldACL(zk.PermAll&^zk.PermDelete), -1)))
}

// readServer returns a znode and its descendants as the server shows them.
func readServer(t *testing.T, s *zkconn.Session, path string) (all []*dump.Znode) {
	t.Helper()
	node, err := zkconn.Do(t.Context(), s, zkconn.GetData(path))
	zktest.Must(t, err)
	access, err := zkconn.Do(t.Context(), s, zkconn.GetACL(path))
	zktest.Must(t, err)
	list, err := zkconn.Do(t.Context(), s, zkconn.List(path))
	zktest.Must(t, err)
	all = append(all, &dump.Znode{Path: path, Kind: dump.KindOf(node.Stat), Data: node.Data, ACL: access.ACL, Stat: node.Stat})
	slices.Sort(list.Names)
	for _, name := range list.Names {
		all = append(all, readServer(t, s, zkconn.Join(path, name))...)
	}
	return all
}

// A snapshot of a real server contains the znodes that the server shows. It also says which of
// them are containers or have a TTL.
func TestSnapshots(t *testing.T) {
	for _, method := range []string{"", "gz", "snappy"} {
		t.Run(cmp.Or(method, "plain"), func(t *testing.T) {
			t.Parallel()
			server := zktest.Start(t, zktest.JavaProperty("zookeeper.snapshot.compression.method", method))
			s := zksession.Open(t, zkconn.Config{Servers: server.Addr(), Timeout: 20 * time.Second})
			fill(t, s)
			server.Restart() // which writes a snapshot
			zktest.Eventually(t, "the session is back", func() bool {
				err := zkconn.Exec(t.Context(), s, zkconn.Exists("/"))
				return err == nil
			})
			want := readServer(t, s, "/")
			files, err := filepath.Glob(filepath.Join(server.Snapshots(), "snapshot.*"+method))
			if err != nil || len(files) < 2 {
				t.Fatalf("%v, %v", files, err)
			}
			slices.SortFunc(files, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
			tree, err := dump.Open(t.Context(), files[len(files)-1])
			zktest.Must(t, err)
			defer tree.Close()
			kinds := map[string]string{}
			var got []*dump.Znode
			for z, err := range tree.Znodes("/") {
				zktest.Must(t, err)
				if z.Kind != dump.Persistent {
					kinds[z.Path] = z.Kind.String() + z.TTL.String()
					z.Kind, z.TTL = dump.KindOf(z.Stat), 0
				}
				got = append(got, z)
			}
			wantKinds := map[string]string{"/t/eph": "ephemeral0s", "/t/cont": "container0s", "/t/ttl": "ttl1h0m0s"}
			if diff := gocmp.Diff(wantKinds, kinds); diff != "" {
				t.Error(diff)
			}
			equal := gocmp.Comparer(func(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) })
			if diff := gocmp.Diff(want, got, equal); diff != "" {
				t.Error(diff)
			}
			if tree.Header.Zxid == 0 || tree.Trailer.Zxid < tree.Header.Zxid {
				t.Errorf("%+v %+v", tree.Header, tree.Trailer)
			}
		})
	}
}
