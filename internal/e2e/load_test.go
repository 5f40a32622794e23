//go:build unix

package e2e

import (
	"encoding/binary"
	"hash/adler32"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	gocmp "github.com/google/go-cmp/cmp"

	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/internal/zktest/zksession"
)

// A sandbox with a server's snapshot shows each znode as the server does: with its data, kind, stat
// and ACL. This holds for the format of each version of ZooKeeper. TestSnapshots of package dump reads
// the compressed snapshots of a server.
func TestLoadSnapshots(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t, zktest.Heap(64))
	s := zksession.Open(t, zkconn.Config{Servers: server.Addr(), Timeout: 20 * time.Second})
	fillForSnapshot(t, s)
	server.Restart() // makes the server write a snapshot
	zktest.Eventually(t, "the session is back", func() bool {
		return zkconn.Exec(t.Context(), s, zkconn.Exists("/t/eph")) == nil
	})
	want := znodeLines(t, "-server", server.Addr(), "export", "-R", "/")
	name := filepath.Join(t.TempDir(), "version-2", "snapshot")
	copySnapshot(t, server, name)
	for _, file := range append(otherFormats(t, name), name) {
		got := znodeLines(t, "--sandbox", "--load", file, "export", "-R", "/")
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", file, diff)
		}
		facts := zksh(t, "--sandbox", "--load", file, "sandbox")
		if !strings.Contains(facts, "\nephemeral = 1\ncontainer = 1\nttl = 1\nzxid = 0x") {
			t.Errorf("%s: %s", file, facts)
		}
	}
}

// fillForSnapshot creates znodes of every kind, with versions, ACLs and odd names.
func fillForSnapshot(t *testing.T, s *zkconn.Session) {
	t.Helper()
	const hash = "u:aW52YWxpZA=="
	shared := []zk.ACL{
		{Perms: zk.PermRead, Scheme: "world", ID: "anyone"}, {Perms: zk.PermAll, Scheme: "ip", ID: "127.0.0.1"},
		{Perms: zk.PermAll, Scheme: "digest", ID: hash},
	}
	for _, z := range []struct {
		path string
		data []byte
		acl  []zk.ACL
		mode zkconn.CreateMode
	}{
		{path: "/t"},
		{path: "/t/eph", data: []byte("e"), mode: zkconn.CreateMode{Ephemeral: true}},
		{path: "/t/cont", mode: zkconn.CreateMode{Container: true}},
		{path: "/t/cont/in", data: []byte{}},
		{path: "/t/ttl", data: []byte("t"), mode: zkconn.CreateMode{TTL: time.Hour}},
		{path: "/t/shared", acl: shared},
		{path: "/t/配置 ä%2F", data: []byte("值")},
		{path: "/t/big", data: []byte(strings.Repeat("\x00\xff\n", 300_000))},
	} {
		acl := z.acl
		if acl == nil {
			acl = zkconn.OpenACL()
		}
		zktest.Must(t, zkconn.Exec(t.Context(), s, zkconn.Create(z.path, z.data, acl, z.mode)))
	}
	for range 3 { // raises the version counters
		zktest.Must(t, zkconn.Exec(t.Context(), s, zkconn.SetData("/t/cont/in", []byte("new"), -1)))
		zktest.Must(t, zkconn.Exec(t.Context(), s, zkconn.Create("/t/gone", nil, zkconn.OpenACL(), zkconn.CreateMode{})))
		zktest.Must(t, zkconn.Exec(t.Context(), s, zkconn.Delete("/t/gone", -1)))
	}
	zktest.Must(t, zkconn.Exec(t.Context(), s, zkconn.SetACL("/t/cont/in", zk.WorldACL(zk.PermAll&^zk.PermDelete), -1)))
}

// znodeLines runs an export to standard output, and returns its lines about znodes.
func znodeLines(t *testing.T, args ...string) []string {
	t.Helper()
	lines := strings.Split(zksh(t, args...), "\n")
	return slices.DeleteFunc(lines, func(line string) bool { return !strings.HasPrefix(line, `{"path":`) })
}

// otherFormats writes a snapshot of ZooKeeper 3.8 in the formats of 3.4, which lacks the digest of the
// tree, and of 3.9, which adds the last zxid. It returns the names of the files.
func otherFormats(t *testing.T, name string) []string {
	t.Helper()
	const digest = 8 + 4 + 8 + 8 + 4 + 1 // zxid, version, digest, and a checksum followed by "/"
	b := []byte(readFile(t, name))
	added := binary.BigEndian.AppendUint64(slices.Clone(b), 0x100000001)
	added = binary.BigEndian.AppendUint64(added, uint64(adler32.Checksum(added)))
	formats := map[string][]byte{".3.4": b[:len(b)-digest], ".3.9": append(added, "\x00\x00\x00\x01/"...)}
	var files []string
	for version, contents := range formats {
		zktest.Must(t, os.WriteFile(name+version, contents, 0o600))
		files = append(files, name+version)
	}
	return files
}

// exported exports a tree with some znodes, and returns the name of the file.
func exported(t *testing.T) string {
	t.Helper()
	server := zktest.Sandbox(t, sandbox.Options{}).Addr()
	runLinesAt(t, server, "create /secret s3cret\ncreate /app 1\ncreate /app/a a")
	name := filepath.Join(t.TempDir(), "backup.json")
	zksh(t, "-server", server, "export", "-R", "/", name)
	return name
}

// No other shell joins a sandbox with the contents of a file, and no other client can read it.
func TestLoadedSandboxIsPrivate(t *testing.T) {
	t.Parallel()
	file, home := exported(t), t.TempDir()
	shared := openPipelineIn(t, home, "--sandbox")
	shared.ask(t, "create /shared", "Created /shared")
	loaded := openPipelineIn(t, home, "--sandbox", "--load", file)
	loaded.ask(t, "ls /", "[app, secret, zookeeper]")
	loaded.ask(t, "create /mine", "Created /mine")
	second := openPipelineIn(t, home, "--sandbox", "--load", file)
	second.ask(t, "ls /", "[app, secret, zookeeper]")
	joined := openPipelineIn(t, home, "--sandbox")
	joined.ask(t, "ls /", "[shared, zookeeper]")
	env := homeEnv(home)
	zktest.Eventually(t, "the znode in the shared sandbox is proposed", func() bool {
		return strings.Contains(proposed(t, env, "zksh --sandbox get /s", "zsh"), "/shared")
	})
	if got := proposed(t, env, "zksh --sandbox --load "+file+" get /s", "zsh"); got != "" {
		t.Errorf("completion of a file that is not loaded proposes %q", got)
	}
	for _, p := range []*pipeline{joined, second, shared} {
		p.leave(t)
	}
	first := openPipelineIn(t, home, "--sandbox") // starts a new sandbox, although the loaded one still runs
	first.ask(t, "ls /", "[zookeeper]")
	first.leave(t)

	_, err := io.WriteString(loaded.in, "sandbox\n")
	zktest.Must(t, err)
	line, err := loaded.out.ReadString('\n')
	zktest.Must(t, err)
	address, ok := strings.CutPrefix(strings.TrimSpace(line), "address = ")
	if !ok {
		t.Fatalf("%q", line)
	}
	for _, script := range []string{"get /app\n", "addauth digest super:super\nget /app\n"} {
		r := runProgram(t, script, "-server", address)
		if r.status == 0 || r.out != "" || !strings.Contains(r.err, "Session closed because client failed to authenticate") {
			t.Errorf("%+v", r)
		}
	}
}

// With --listen, a sandbox serves the contents of a file to other clients, to which ACLs apply.
func TestLoadedSandboxServes(t *testing.T) {
	t.Parallel()
	server := zktest.Sandbox(t, sandbox.Options{}).Addr()
	runLinesAt(t, server, "create /open 1\naddauth digest ann:a\ncreate /closed 2 auth::cdrwa")
	file := filepath.Join(t.TempDir(), "backup.json")
	if r := runProgram(t, "addauth digest ann:a\nexport -R / "+file+"\n", "-server", server); r.status != 0 {
		t.Fatal(r)
	}
	p := openPipeline(t, "--sandbox", "--load", file, "--listen", "127.0.0.1:0")
	line, err := p.out.ReadString('\n')
	m := regexp.MustCompile(`^serving \S+/backup\.json \(3 znodes, .*\) in a sandbox on (\S+);`).FindStringSubmatch(line)
	if m == nil {
		t.Fatalf("%q, %v", line, err)
	}
	if got := zksh(t, "-server", m[1], "get", "/open"); got != "1\n" {
		t.Errorf("%q", got)
	}
	r := runProgram(t, "", "-server", m[1], "get", "/closed")
	if r.status != 1 || !strings.Contains(r.err, "Insufficient permission") {
		t.Errorf("%+v", r)
	}
	if r := runProgram(t, "addauth digest ann:a\nget /closed\n", "-server", m[1]); r.out != "2\n" {
		t.Errorf("%+v", r)
	}
}

// The prompt shows the name of the file, and the banner says what it contains.
func TestPromptOfALoadedSandbox(t *testing.T) {
	t.Parallel()
	file := exported(t)
	c := openConsole(t, "--sandbox", "--load", file)
	c.expect(`^This sandbox contains\s+` + regexp.QuoteMeta(file) +
		`\s+\(4\s+znodes,\s+up\s+to\s+zxid\s+0x[0-9a-f]+,\s+last\s+changed\s+at\s+\S+Z\)\.`)
	const shown = `^WatchedEvent state:SyncConnected type:None path:null\n\[zk: backup\.json\(CONNECTED\) \d+\] `
	c.expect(shown)
	address := regexp.MustCompile(`address = (\S+)`).FindStringSubmatch(c.run("sandbox", `^file = \S+\n`))
	other := zktest.Sandbox(t, sandbox.Options{}).Addr()
	c.typeIn("connect " + other + "\r")
	c.expect(`^\[zk: ` + regexp.QuoteMeta(other) + `\(CONNECTED\) \d+\] `)
	c.run("ls /", `^\[zookeeper\]\n`)
	c.typeIn("connect " + address[1] + "\r")
	c.expect(shown)
	c.run("get /secret", `^s3cret\n`)
	c.typeIn("tutorial\r")
	c.expect(`^the tutorial creates and changes znodes, so it runs only in `)
	c.typeIn("quit\r")
	c.wantStatus(1)
}

// Undo and the history of a sandbox with a file do not mix with those of other sandboxes.
func TestLoadedSandboxKeepsToItself(t *testing.T) {
	t.Parallel()
	file, home := exported(t), t.TempDir()
	c := openConsoleIn(t, home, "-q", "--sandbox", "--load", file)
	c.expect(connected)
	c.run("deleteall -y /app", "")
	c.run("undo", `^undid operation 1 \(deleteall /app\): 2 created\n`)
	c.run("delete /secret", "")
	c.typeIn("quit\r")
	c.wantStatus(0)
	for _, args := range [][]string{{"--sandbox", "--load", file}, {"--sandbox"}} {
		d := openConsoleIn(t, home, append([]string{"-q"}, args...)...)
		d.expect(connected)
		d.run("undo", `^there is nothing left to undo here \(operation \d+ was done on 127\.0\.0\.1:\d+\)`)
		d.typeIn("quit\r")
		d.wantStatus(1)
	}
	lines := readFile(t, filepath.Join(home, "state", "zksh", "history"))
	if !regexp.MustCompile(`(?m) sandbox backup\.json\tdelete /secret$`).MatchString(lines) {
		t.Errorf("the history is\n%s", lines)
	}
}

// A single command saves nothing that it destroys in the sandbox, because nobody could undo it. It
// saves what it destroys on a server.
func TestUndoOfACommandInALoadedSandbox(t *testing.T) {
	t.Parallel()
	file, server := exported(t), zktest.Sandbox(t, sandbox.Options{}).Addr()
	runLinesAt(t, server, "create /app old")
	c := openConsole(t, "--sandbox", "--load", file, "deleteall", "/app")
	c.wantStatus(0)
	if shown := c.shown(); shown != "" {
		t.Errorf("the terminal shows %q", shown)
	}
	c = openConsole(t, "--sandbox", "--load", file, "cp", "--overwrite", "/app", server+":/app")
	c.expect(regexp.QuoteMeta("zksh --server " + server + " undo"))
	c.wantStatus(0)
}
