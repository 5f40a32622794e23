package interop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/commands/commandtest"
	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/internal/zktest/zksession"
	"github.com/zksh/zksh/lockcmd/demo"
)

// lockdemo's recipe "curator" sends exactly as many requests as the real InterProcessMutex.
func TestDemoCurator(t *testing.T) {
	const n = 8
	ctx := zktest.Within(t)
	p := zktest.NewProxy(t, zktest.Shared(t).Addr())
	drivers := startDrivers(t)
	var clients []client
	for range n + 1 {
		c, err := drivers.open(ctx, t, p.Addr(), "C-mutex")
		zktest.Must(t, err)
		clients = append(clients, c)
	}
	const path = "/demo-curator"
	if _, err := clients[0].acquire(ctx, "C-mutex", path); err != nil {
		t.Fatal(err)
	}
	got := make(chan error)
	for i, c := range clients[1:] { // one after another, each when the previous one has set its watch
		go func() {
			_, err := c.acquire(ctx, "C-mutex", path)
			got <- err
		}()
		zktest.Eventually(t, "they queue", func() bool {
			return strings.Count(zktest.Ask(t, zktest.Shared(t).Addr(), "wchp"), path+"/") == i+1
		})
	}
	countRequests(p) // discard the requests so far: all clients have queued
	for _, c := range clients {
		zktest.Must(t, c.release(ctx))
		if c != clients[n] {
			zktest.Must(t, <-got)
		}
	}
	cost, all := countRequests(p), 0
	for _, count := range cost {
		all += count
	}
	lists, deletes := cost[jute.OpGetChildren], cost[jute.OpDelete]
	if lists != n || deletes != n+1 || all != lists+deletes {
		t.Errorf("Curator: %d lists, %d deletes, %d requests", lists, deletes, all)
	}

	screen := &commandtest.Screen{Format: render.JSON}
	s := zksession.Open(t, zkconn.Config{Servers: zktest.Shared(t).Addr(), Timeout: sessionTimeout})
	env := &commands.Env{Session: s, Screen: screen, Yes: true}
	zktest.Must(t, commandtest.Run(ctx, demo.Command(), env, "curator", "-n", fmt.Sprint(n)))
	lines := bytes.Split(bytes.TrimSpace([]byte(screen.Printed())), []byte("\n"))
	var answer struct {
		Summary []struct{ Requests, Notifications int }
	}
	zktest.Must(t, json.Unmarshal(lines[len(lines)-1], &answer))
	if r := answer.Summary[0]; r.Requests != all || r.Notifications != n {
		t.Errorf("lockdemo: %+v; Curator: %d requests, %d notifications", r, all, n)
	}
}

// countRequests returns the number of requests for each opcode since its last call, without
// pings. It counts getChildren2 as getChildren.
func countRequests(p *zktest.Proxy) map[int32]int {
	ops := map[int32]int{}
	for _, op := range slices.DeleteFunc(p.Requests(), func(op int32) bool { return op == jute.OpPing }) {
		if op == jute.OpGetChildren2 {
			op = jute.OpGetChildren
		}
		ops[op]++
	}
	return ops
}
