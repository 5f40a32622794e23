//go:build unix

package e2e

import (
	"testing"
	"time"

	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/internal/zktest/zksession"
)

// The prompt counts the lines of a transaction, and a rejected line can be typed again.
func TestTransactionInteractive(t *testing.T) {
	t.Parallel()
	c := openConsole(t, "-server", zktest.Sandbox(t, sandbox.Options{}).Addr())
	c.expect(connected)
	c.typeIn("begin" + "\r")
	c.expect(`\(CONNECTED\) \(txn 0\) 1\] `)
	c.typeIn("create /a x" + "\r")
	c.expect(`\(CONNECTED\) \(txn 1\) 2\] `)
	c.run("get /a", `^only check, create, set and delete can be part of a transaction`)
	c.run("creat /b", `^unknown command "creat"; did you mean create\?`)
	c.run("check /a 0", "")
	c.typeIn("redo 1" + "\r")
	c.expect(`create /a x`)
	c.expect(`\(CONNECTED\) \(txn 3\) 6\] `)
	c.typeIn("commit" + "\r")
	c.expect(`^nothing was done, because line 5 of the transaction failed: create: Node already exists: /a\n`)
	c.expect(`\(CONNECTED\) 7\] `)
	c.run("begin", "")
	c.run("create -s /s- x", "")
	c.run("commit", `^line 8: Created /s-0000000000\nCommitted 1\n`)
	c.run("begin", "")
	c.run("create /never", "")
	c.typeIn("get\x03") // drops the line being typed, not the transaction
	c.expect(`\(CONNECTED\) \(txn 1\) 12\] `)
	c.run("abort", "")
	c.run("begin", "")
	c.run("create /never", "")
	c.typeIn("quit\r")
	c.expect(`^the transaction that began on line 13 was never committed, so nothing in it took effect\n`)
	c.wantStatus(1)
}

// A transaction survives a reconnect of its session, but not the session's expiry.
func TestTransactionOverCuts(t *testing.T) {
	t.Parallel()
	box := zktest.Sandbox(t, sandbox.Options{})
	client := zksession.Open(t, zkconn.Config{Servers: box.Addr(), Timeout: 30 * time.Second})
	proxy := zktest.NewProxy(t, box.Addr())
	c := openConsole(t, "-server", proxy.Addr(), "-timeout", "8000")
	const again = `^WatchedEvent state:SyncConnected type:None path:null\n\[zk: \S+\(CONNECTED\) \(txn 1\) \d+\] `
	c.expect(connected)
	c.run("begin", "")
	c.run("create -e /a x", "")
	proxy.Cut()
	c.expect(`state:Disconnected`)
	c.expect(again)
	c.run("commit", `^line 1: Created /a\n`)
	c.run("begin", "")
	c.run("create /b x", "")
	proxy.Refuse(true)
	proxy.Cut()
	zktest.Eventually(t, "the session expires", func() bool {
		st, _ := zkconn.Do(zktest.Within(t), client, zkconn.Exists("/a"))
		return st == nil
	})
	proxy.Refuse(false)
	c.expect(`the session expired, and its watches`)
	c.expect(again)
	c.run("commit", `Session expired for /b`)
	if st, err := zkconn.Do(zktest.Within(t), client, zkconn.Exists("/b")); st != nil {
		t.Errorf("it was carried out in another session: %v", err)
	}
	c.typeIn("quit\r")
}
