//go:build linux

package e2e

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"fmt"
	"hash/adler32"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zktest"
)

// A bomb is a small file that expands to a large amount of data.
type bomb struct {
	name  string
	plain bool // the file is not compressed
	write func(w io.Writer) error
	says  string // part of the expected error of import; empty allows any
	loads string // part of the expected error of --load; empty means that of import

	// hostileOnly is set for bombs that run only with -hostile. Without it, package dump has tests with
	// similar ones: TestSmallFilesThatStandForMuch and TestSmallFilesFillNoDisk.
	hostileOnly bool
}

// writeRepeated writes text(i) for each i from 0 to n-1.
func writeRepeated(w io.Writer, n int, text func(i int) string) error {
	for i := range n {
		if _, err := io.WriteString(w, text(i)); err != nil {
			return err
		}
	}
	return nil
}

// surround returns a function that writes before, then text(i) for each i from 0 to n-1, then
// after.
func surround(before string, n int, text func(i int) string, after string) func(io.Writer) error {
	return func(w io.Writer) error {
		if _, err := io.WriteString(w, before); err != nil {
			return err
		}
		if err := writeRepeated(w, n, text); err != nil {
			return err
		}
		_, err := io.WriteString(w, after)
		return err
	}
}

func constant(text string) func(int) string { return func(int) string { return text } }

const dumpHead = `{"zksh":"dump","version":1,"root":"/a","time":"2024-01-01T00:00:00Z"}` + "\n"

// snapshotHead returns the start of a snapshot, up to the number of its ACLs.
func snapshotHead() string {
	e := jute.Encoder{B: []byte("ZKSN")}
	e.Int(2)
	e.Long(0)
	e.Int(0) // sessions
	return string(e.B)
}

// openACL returns the ACL with the number 1 in a snapshot, which grants all permissions to everybody.
func openACL() string {
	var e jute.Encoder
	e.Long(1)
	e.Int(1, 31)
	e.String("world")
	e.String("anyone")
	return string(e.B)
}

// snapshotNode returns a znode in a snapshot.
func snapshotNode(path string, data []byte) string {
	var e jute.Encoder
	e.String(path)
	e.Buffer(data)
	e.Long(1, 1, 1, 1, 1)
	e.Int(0, 0, 0)
	e.Long(0, 1)
	return string(e.B)
}

// writeSnapshot writes an intact snapshot with the given number of znodes below the root.
func writeSnapshot(w io.Writer, znodes int) error {
	sum := adler32.New()
	write := surround(snapshotHead()+"\x00\x00\x00\x01"+openACL()+snapshotNode("", nil), znodes, func(i int) string {
		return snapshotNode(fmt.Sprintf("/znode-%010d", i), []byte("0123456789abcdef"))
	}, "\x00\x00\x00\x01/")
	if err := write(io.MultiWriter(w, sum)); err != nil {
		return err
	}
	var e jute.Encoder
	e.Long(int64(sum.Sum32()))
	e.String("/")
	_, err := w.Write(e.B)
	return err
}

// bombs returns bombs in each file format that zksh reads.
func bombs() []bomb {
	head, acl := snapshotHead(), openACL()
	acls, node := head+"\x00\x00\x00\x01"+acl, snapshotNode
	line := func(path, data string) string {
		return fmt.Sprintf(`{"path":%q,"kind":"persistent","data":%s,"stat":null,"acl":null}`+"\n", path, data)
	}
	data, top := strings.Repeat("d", 1<<20), line("/a", "null")
	const expands, needs = "the file expands to more than", "the sandbox would need more than"
	znodes, much := 500_000, "truncated"
	if *hostile {
		znodes, much = 3_000_000, expands
	}
	return []bomb{
		{name: "znodes", write: surround(dumpHead+top, znodes, func(i int) string {
			return line(fmt.Sprintf("/a/%d", i), "null")
		}, ""), says: much, loads: needs},
		{name: "paths", hostileOnly: true, write: surround(dumpHead+top, 200_000, func(i int) string {
			return line(fmt.Sprintf("/a/%01000d", i), "null")
		}, ""), says: expands, loads: needs},
		{name: "data", hostileOnly: true, write: surround(dumpHead+top, 256, func(i int) string {
			return line(fmt.Sprintf("/a/%d", i), strconv.Quote(data))
		}, ""), says: expands, loads: needs},
		{name: "entries", hostileOnly: true, write: surround(
			dumpHead+`{"path":"/a","kind":"persistent","data":null,"stat":null,"acl":[{}`, 20_000_000, constant(",{}"), "]}\n")},
		{name: "one line", write: surround(dumpHead+`{"path":"/a","data":"`, 500, constant(data), "\"}\n")},
		{name: "nesting", hostileOnly: true, write: surround(
			dumpHead+`{"path":"/a","acl":[`, 20_000_000, constant(`{"id":[`), "")},
		{name: "a name without end", hostileOnly: true, write: surround(
			dumpHead+`{"path":"/`, 500, constant(data), `"}`+"\n")},
		{name: "fields", hostileOnly: true, write: surround(dumpHead+`{"path":"/a"`, 5_000_000, func(i int) string {
			return fmt.Sprintf(`,"%x":0`, i)
		}, "}\n")},
		{name: "snapshot of ACLs", hostileOnly: true, write: surround(
			head+"\x7f\xff\xff\xff", 10_000_000, constant(acl), "")},
		{name: "snapshot of entries", hostileOnly: true, write: surround(
			head+"\x00\x00\x00\x01"+acl[:8]+"\x7f\xff\xff\xff", 20_000_000, constant(acl[12:]), "")},
		{name: "snapshot of znodes", write: surround(acls+node("", nil), znodes, func(i int) string {
			return node(fmt.Sprintf("/%d", i), nil)
		}, ""), says: much, loads: needs},
		{name: "snapshot of data", write: surround(acls+node("", nil), 256, func(i int) string {
			return node(fmt.Sprintf("/%d", i), []byte(data))
		}, ""), says: expands, loads: needs},
		{name: "snapshot of sessions", write: surround(head[:16]+"\x7f\xff\xff\xff", 20_000_000,
			constant("\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x01"), "")},
		{name: "snapshot that claims data", plain: true, write: surround(acls+"\x00\x00\x00\x02/a\x7f\xff\xff\xff", 1, constant("x"), "")},
	}
}

// loadLimit sets the limit for a sandbox with the contents of a file, so that the test does not need
// three quarters of the machine's memory. loadMemory is the largest memory of the process, in bytes.
const (
	loadLimit  = "GOMEMLIMIT=160MiB"
	loadMemory = 224 << 20
)

// No hostile file fills zksh's memory or the disk.
func TestHostileFilesFillNoMemory(t *testing.T) {
	if zktest.UnderRace() {
		t.Skip("the race detector takes many times the memory")
	}
	server := zktest.Sandbox(t, sandbox.Options{}).Addr()
	for _, b := range bombs() {
		t.Run(b.name, func(t *testing.T) {
			if b.hostileOnly && !*hostile {
				t.Skip("make hostile runs it")
			}
			t.Parallel()
			name := filepath.Join(t.TempDir(), "dump")
			b.make(t, name)
			lines := [][]string{
				{"-server", server, "import", "-R", "-n", name, "/copy"},
				{"--sandbox", "--load", name, "ls", "/"},
			}
			if *hostile {
				lines = append(lines, []string{"-server", server, "diff", "file:" + name, "/"})
			}
			for _, line := range lines {
				f := attack{line: line[0], says: b.says}
				if line[0] == "--sandbox" {
					f.says, f.env = cmp.Or(b.loads, b.says), []string{loadLimit}
				}
				m := measure(t, f, line...)
				t.Logf("%s: %d MiB, status %d, %v: %.200s", line, m.peak>>20, m.status, m.took.Round(time.Millisecond), m.err)
				if m.check(t, f); strings.Contains(m.err, "panic") {
					t.Errorf("%s", m.err)
				}
				if f.env != nil && m.peak > loadMemory {
					t.Errorf("%d MiB with %s", m.peak>>20, loadLimit)
				}
			}
		})
	}
}

// A sandbox needs a bounded amount of memory for each znode of a file.
func TestMemoryOfALoadedSandbox(t *testing.T) {
	if zktest.UnderRace() {
		t.Skip("the race detector takes many times the memory")
	}
	znodes := 200_000
	if *hostile {
		znodes = 1_000_000
	}
	name := filepath.Join(t.TempDir(), "snapshot")
	bomb{plain: true, write: func(w io.Writer) error { return writeSnapshot(w, znodes) }}.make(t, name)
	m := measure(t, attack{}, "--sandbox", "--load", name, "getAllChildrenNumber", "/")
	t.Logf("%d znodes: %d MiB, %v", znodes, m.peak>>20, m.took.Round(time.Millisecond))
	const program, each = 48 << 20, 800 // bytes of memory
	if m.status != 0 || m.peak > int64(program+each*znodes) {
		t.Errorf("%d MiB, status %d: %s", m.peak>>20, m.status, m.err)
	}
}

// make writes the bomb to a file.
func (b bomb) make(t *testing.T, name string) {
	t.Helper()
	f, err := os.Create(name)
	zktest.Must(t, err)
	defer f.Close()
	var w io.WriteCloser = f
	if !b.plain {
		w, _ = gzip.NewWriterLevel(f, gzip.BestSpeed) // BestSpeed is a valid level, so there is no error
	}
	buffered := bufio.NewWriterSize(w, 1<<16)
	zktest.Must(t, b.write(buffered))
	zktest.Must(t, buffered.Flush())
	if !b.plain {
		zktest.Must(t, w.Close())
	}
}

// zksh's memory is also bounded for a transaction log with a record that is very long or claims
// to be.
func TestHostileLogsFillNoMemory(t *testing.T) {
	if zktest.UnderRace() {
		t.Skip("the race detector takes many times the memory")
	}
	var head jute.Encoder
	head.B = []byte("ZKLG")
	head.Int(2)
	head.Long(0)
	for _, b := range []bomb{
		{name: "claims", plain: true, write: surround(string(head.B)+"\x00\x00\x00\x00\x00\x00\x00\x01\x7f\xff\xff\xff", 1, constant("x"), "")},
		{name: "records", plain: true, write: surround(string(head.B)+"\x00\x00\x00\x00\x00\x00\x00\x01\x0f\xff\xff\xff", 400, constant(strings.Repeat("r", 1<<20)), "")},
	} {
		t.Run(b.name, func(t *testing.T) {
			name := filepath.Join(t.TempDir(), "log.1")
			b.make(t, name)
			f := attack{line: "log"}
			m := measure(t, f, "-server", "127.0.0.1:1", "log", name)
			t.Logf("%d MiB, status %d, %v: %.200s", m.peak>>20, m.status, m.took.Round(time.Millisecond), m.err)
			m.check(t, f)
		})
	}
}
