package zkconn

import (
	"context"
	"io"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/zktest"
)

// ClickHouse Keeper is recognized by its answer to srvr or, without an answer, by its own znode
// where ZooKeeper's configuration znode is missing. Each connection is checked once, and not
// before a lock is about to be held.
func TestKeeperIsRecognized(t *testing.T) {
	const zookeeper, clickhouse = "Zookeeper version: 3.4.14-x, built on y\nMode: standalone\n", "ClickHouse Keeper version: v24.8.4.13-stable-x\nMode: leader\n"
	for name, test := range map[string]struct {
		keeper, config Code
		srvr           string // answer to srvr; empty means that the server closes the connection
		tied, asked    bool
	}{
		"ZooKeeper":                  {NoNode, codeOK, clickhouse, false, false},
		"forbidden configuration":    {NoNode, NoAuth, clickhouse, false, false},
		"Keeper":                     {codeOK, NoNode, clickhouse, true, true},
		"Keeper without srvr":        {codeOK, NoNode, "", true, true},
		"RaftKeeper":                 {codeOK, NoNode, "RaftKeeper version: v2.1\n", false, true},
		"Keeper with ZooKeeper's":    {codeOK, codeOK, clickhouse, true, true},
		"ZooKeeper with Keeper's":    {codeOK, codeOK, zookeeper, false, true},
		"ZooKeeper 3.4":              {NoNode, NoNode, zookeeper, false, true},
		"old Keeper":                 {NoNode, NoNode, clickhouse, true, true},
		"another":                    {NoNode, NoNode, "RaftKeeper version: v2.1\n", false, true},
		"without an answer":          {NoNode, NoNode, "", false, true},
		"one that mentions a Keeper": {NoNode, NoNode, "Zookeeper version: 3\nClickHouse Keeper version: 1\n", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr, words := srvrPort(t, test.srvr)
			var reads atomic.Int32
			cfg := Config{Servers: addr, Timeout: sessionTimeout}
			var connected atomic.Bool
			cfg.dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				if connected.Swap(true) { // for srvr
					return new(net.Dialer).DialContext(ctx, network, addr)
				}
				return pipeTo(0, func(_ int, p *remote) {
					p.host(func(xid, op int32) bool {
						reads.Add(1)
						switch op {
						case jute.OpGetData:
							return p.reply(xid, test.config)
						case jute.OpExists:
							return p.reply(xid, test.keeper)
						}
						return p.reply(xid, codeOK)
					})
				}), nil
			}
			s, err := Open(cfg)
			zktest.Must(t, err)
			ctx := testContext(t)
			defer func() { _ = s.Close(ctx); <-ended(s.current()) }()
			p, err := s.Ensemble().Pin(ctx)
			zktest.Must(t, err)
			zktest.Must(t, p.Sync(ctx, "/"))
			if p.State(time.Now()).EndsWithConnection || words.Load() > 0 || reads.Load() != 1 {
				t.Errorf("asked before: %d reads, %d times srvr", reads.Load()-1, words.Load())
			}
			for range 3 {
				alone, err := p.Standalone(ctx)
				if err != nil || alone != (test.config == codeOK) {
					t.Fatalf("alone: %t, %v", alone, err)
				}
			}
			if got := p.State(time.Now()).EndsWithConnection; got != test.tied {
				t.Errorf("its sessions end with their connections: %t", got)
			}
			if n := words.Load(); n > 1 || (n == 1) != test.asked {
				t.Errorf("srvr was asked %d times", n)
			}
			if n := reads.Load(); n != 3 {
				t.Errorf("%d reads in all", n)
			}
		})
	}
}

// srvrPort starts a server that answers four-letter commands with text, or closes the connection
// if text is empty. It returns the server's address and the number of commands it received.
func srvrPort(t *testing.T, text string) (addr string, asked *atomic.Int32) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	zktest.Must(t, err)
	asked = new(atomic.Int32)
	ended := make(chan struct{})
	go func() { // ends when the listener is closed
		defer close(ended)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			asked.Add(1)
			_ = c.SetDeadline(time.Now().Add(sessionTimeout)) // only limits a test that hangs
			if _, err := io.ReadFull(c, make([]byte, 4)); err == nil {
				_, _ = io.WriteString(c, text) // if this fails, the client is gone or sees a truncated answer
			}
			c.Close()
		}
	}()
	t.Cleanup(func() { ln.Close(); <-ended })
	return ln.Addr().String(), asked
}

// When the creation of a lock's znode is confirmed, the client already knows whether the session
// ends with the connection.
func TestKeeperIsRecognizedInTime(t *testing.T) {
	var asked requests
	serve := func(_ int, p *remote) {
		p.hostAs(1, sessionTimeout, &asked, func(xid, op int32) bool {
			switch op {
			case jute.OpGetData:
				return p.reply(xid, NoNode)
			case jute.OpCreate:
				return p.replyCreated(xid, "/l/n-1")
			}
			return p.reply(xid, codeOK)
		})
	}
	bubble(t, serve, func(t *testing.T, s *Session) {
		ctx := testContext(t)
		p, err := s.Ensemble().Pin(ctx)
		zktest.Must(t, err)
		req := &zk.CreateRequest{Path: "/l/n-", Acl: OpenACL(), Flags: zk.FlagEphemeral | zk.FlagSequence}
		for range 2 {
			if _, _, _, err := p.CreateAndList(ctx, req, "/l"); err != nil {
				t.Fatal(err)
			}
			if !p.State(time.Now()).EndsWithConnection {
				t.Error("the znode was made on a server that is not recognized")
			}
		}
		want := []int32{jute.OpCreate, jute.OpGetChildren, jute.OpGetData, jute.OpExists, jute.OpCreate, jute.OpGetChildren}
		if got := asked.all(); !slices.Equal(got, want) {
			t.Errorf("asked %v, want %v", got, want)
		}
	})
}
