package lockcmd

import (
	"context"
	"strings"
	"testing"

	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
)

const uuid2 = "_c_f0a1b2c3-0000-4000-8000-0123456789ac" // of another contender than uuid

// locks PATH names an orphan, and the command that it prints removes the orphan.
func TestOrphan(t *testing.T) {
	box := zktest.Sandbox(t, sandbox.Options{})
	b := newFixture(t, box.Addr())
	other := open(t, box.Addr(), usualTimeout)
	session, node := render.Hex(other.Info().ID), uuid+"-lock-0000000001"
	b.create(other, "/"+node, "", zkconn.OpenACL(), true)
	b.addContenders(uuid2 + "-lock-0000000002")
	if !box.Orphan(other.Info().ID) {
		t.Fatal("no session")
	}
	command := "unlock --force " + node + " " + b.root
	want := "orphan: " + node + " in the queue of " + b.root + " belongs to session " + session + ", which no longer exists, so no server deletes the znode; to remove it, run: " + command
	if got := runCommand(t, b.Session, render.Text, 75, "locks", b.root).Notes(); strings.TrimSpace(got) != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if got := runCommand(t, b.Session, render.JSON, 75, "locks", b.root).Printed(); strings.Count(got, `"orphan":{"problem":`) != 1 || !strings.Contains(got, `"command":"`+command+`"`) {
		t.Error(got)
	}
	runCommand(t, b.Session, render.Text, 0, strings.Fields(command)...)
	left := runCommand(t, b.Session, render.Text, 75, "locks", b.root)
	if strings.Contains(left.Printed(), "0000000001") || !strings.Contains(left.Printed(), "0000000002") || left.Notes() != "" {
		t.Error(left.Printed(), left.Notes())
	}
}

// A queue whose sessions all exist has no orphan: not even if the holder has no connection, and
// while sessions begin, join the queue and end.
func TestNoOrphan(t *testing.T) {
	onBoth(t, func(t *testing.T, addr string) {
		b := newFixture(t, addr)
		b.addContenders(uuid + "-lock-0000000001")
		proxy := zktest.NewProxy(t, addr)
		waiter := open(t, proxy.Addr(), usualTimeout)
		b.create(waiter, "/"+uuid+"-lock-0000000002", "", zkconn.OpenACL(), true)
		proxy.Refuse(true)
		proxy.Cut()
		ctx, cancel := context.WithCancel(zktest.Within(t))
		traffic := make(chan error)
		go func() { traffic <- b.sessionTraffic(ctx) }() // ends when cancel is called
		cut := 0
		for range 10 {
			all := runCommand(t, b.Session, render.Text, 75, "locks", b.root)
			if strings.Contains(all.Printed(), "no connection") {
				cut++
			}
			if strings.Contains(all.Notes(), "orphan") {
				t.Error(all.Printed(), all.Notes())
			}
		}
		cancel()
		zktest.Check(t, <-traffic)
		if cut == 0 {
			t.Error("the waiter was always connected")
		}
		proxy.Refuse(false)
	})
}

// sessionTraffic lets sessions join the queue and end, one after another, until ctx ends.
func (b *fixture) sessionTraffic(ctx context.Context) error {
	for ctx.Err() == nil {
		s, err := zkconn.Open(zkconn.Config{Servers: b.addr, Timeout: usualTimeout})
		if err != nil {
			return err
		}
		err = zkconn.Exec(ctx, s, zkconn.Create(b.root+"/"+uuid2+"-lock-", nil, zkconn.OpenACL(), zkconn.CreateMode{Ephemeral: true, Sequential: true}))
		if closeErr := s.Close(context.WithoutCancel(ctx)); err == nil {
			err = closeErr
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}
