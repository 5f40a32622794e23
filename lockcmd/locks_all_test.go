package lockcmd

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
)

// locks -R finds all queues, with dump and by walking the tree, and also with a chroot.
func TestAllQueues(t *testing.T) {
	whole := zktest.Sandbox(t, sandbox.Options{}).Addr()
	real := zktest.Shared(t).Addr()
	mute := zktest.Start(t, zktest.Words("srvr"), zktest.Heap(64)).Addr()
	for name, addr := range map[string]string{"sandbox": whole, "server": real, "no dump": mute} {
		t.Run(name, func(t *testing.T) {
			b := newFixture(t, addr)
			for _, dir := range []string{"/app", "/app/short", "/app/long", "/app/sem", "/app/sem/leases", "/app/sem/locks", "/app/none", "/other"} {
				b.persistent(dir, "")
			}
			b.persistent("/app/none/lock-0000000001", "is no contender")
			b.create(b.Session, "/app/closed", "", []zk.ACL{{Perms: zk.PermCreate, Scheme: "world", ID: "anyone"}}, false)
			b.create(b.Session, "/app/closed/"+uuid+"-lock-0000000001", "not to be listed", zkconn.OpenACL(), true)
			b.addContenders("other/"+uuid+"-lock-0000000001", "app/long/"+uuid+"-lock-0000000001", "app/long/"+uuid+"-lock-0000000002",
				"app/short/"+uuid+"-lock-0000000001", "app/sem/leases/"+uuid+"-lease-0000000001")
			b.create(b.Session, "/app/short/"+uuid+"-lock-0000000002", `{"host":"web1","pid":7,"user":"ann"}`, zkconn.OpenACL(), true)
			s := open(t, addr+b.root, usualTimeout)
			st := runCommand(t, s, render.JSON, 0, "locks", "-R", "/app")
			var all struct {
				Walked string
				Queues []struct {
					Path       string
					Contenders []any
				}
			}
			if err := json.Unmarshal([]byte(st.Printed()), &all); err != nil {
				t.Fatal(err)
			}
			var found []string
			for _, q := range all.Queues {
				found = append(found, fmt.Sprint(q.Path, len(q.Contenders)))
			}
			if got := strings.Join(found, " "); got != "/app/long2 /app/short2 /app/sem1" {
				t.Error(got)
			}
			if (all.Walked == "") != (addr != mute) || strings.Contains(st.Notes(), "dump is not allowed; add it to") != (addr == mute) {
				t.Errorf("%q, %q", all.Walked, st.Notes())
			}
			text := runCommand(t, s, render.Text, 0, "locks", "-R", "/app").Printed()
			if !strings.HasPrefix(text, "/app/long: 1 hold, 1 wait, the longest for ") || !strings.Contains(text, "ann@web1 pid 7") {
				t.Error(text)
			}
			table := runCommand(t, s, render.Table, 0, "locks", "-R").Printed()
			if n := strings.Count(table, "\n"); n != 7 || !strings.HasPrefix(table, "PATH ") || !strings.Contains(table, "\n/other ") {
				t.Error(table)
			}
			if got := runCommand(t, s, render.Text, 0, "locks", "-R", "/app/none").Printed(); got != "no queues below /app/none\n" {
				t.Error(got)
			}
		})
	}
}
