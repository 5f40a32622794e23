package dump

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/zktest"
)

// repeated returns a reader of n copies of text, which are not in memory.
func repeated(text string, n int) io.Reader {
	return io.LimitReader(&endless{text: text}, int64(len(text)*n))
}

type endless struct {
	text string
	at   int
}

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = e.text[e.at]
		e.at = (e.at + 1) % len(e.text)
	}
	return len(p), nil
}

// gzipped returns the concatenation of parts, compressed.
func gzipped(t *testing.T, parts ...io.Reader) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.Copy(w, io.MultiReader(parts...)); err != nil {
		t.Fatal(err)
	}
	zktest.Must(t, w.Close())
	return b.Bytes()
}

// withChecksum appends the line with the checksum of lines.
func withChecksum(lines string) string {
	return lines + fmt.Sprintf("{\"sha256\":\"%x\"}\n", sha256.Sum256([]byte(lines)))
}

const headLine = `{"zksh":"dump","version":1,"root":"/a","time":"2024-01-01T00:00:00Z"}` + "\n"

// Read rejects small files that would expand to more than their share of memory.
func TestSmallFilesThatStandForMuch(t *testing.T) {
	if testing.Short() {
		t.Skip("NOT TESTED: it takes long")
	}
	deep := func(n int) string { return strings.Repeat("/a", n) }
	many := func(head string, name func(i int) string, n int) io.Reader {
		r, w := io.Pipe()
		go func() { // ends after the last write, or when the reader is closed
			_, err := io.WriteString(w, head)
			for i := 0; i < n && err == nil; i++ {
				_, err = io.WriteString(w, name(i))
			}
			_ = w.CloseWithError(err)
		}()
		return r
	}
	snapshot := jute.Encoder{B: []byte("ZKSN")}
	snapshot.Int(2)
	snapshot.Long(0)
	snapshot.Int(0, 1<<30)
	var lists jute.Encoder
	lists.Long(0)
	lists.Int(1, 31)
	lists.String("world")
	lists.String("anyone")
	list := string(lists.B)
	for name, b := range map[string][]byte{
		"entries of an ACL": gzipped(t, strings.NewReader(headLine+`{"path":"/a","kind":"persistent","data":null,"stat":null,"acl":[{}`),
			repeated(",{}", 2_000_000), strings.NewReader("]}\n")),
		"words of what was left out": gzipped(t, strings.NewReader(headLine+`{"end":{"znodes":0,"unread":[""`), repeated(`,""`, 2_000_000), strings.NewReader("]}}\n")),
		"fields of an entry": gzipped(t, many(headLine+`{"path":"/a"`, func(i int) string { return fmt.Sprintf(`,"%x":0`, i) },
			1_000_000), strings.NewReader("}\n")),
		"a deep path": []byte(headLine + znodeLine(deep(400_000))),
		"deep paths": gzipped(t, many(headLine+znodeLine("/x"), func(i int) string {
			return znodeLine(fmt.Sprintf("/%d%s", i, deep(9000)))
		}, 100)),
		"nesting":      gzipped(t, strings.NewReader(headLine+`{"path":"/a","acl":[`), repeated(`{"id":[`, 2_000_000)),
		"paths":        gzipped(t, many(headLine, func(i int) string { return znodeLine(fmt.Sprintf("/%01000d", i)) }, 100_000)),
		"lists":        gzipped(t, bytes.NewReader(snapshot.B), repeated("\x00\x00\x00\x00"+list[4:], 2_000_000)),
		"a list's own": gzipped(t, bytes.NewReader(snapshot.B), strings.NewReader(list[:8]+"\x7f\xff\xff\xff"), repeated(list[12:], 2_000_000)),
	} {
		t.Run(name, func(t *testing.T) {
			most := peak(t, func() {
				tree, err := Read(t.Context(), bytes.NewReader(b))
				if err == nil {
					err = tree.Close()
				} else if errors.Is(err, io.ErrUnexpectedEOF) || strings.Contains(err.Error(), "cut short") {
					t.Errorf("it was read to its end: %v", err)
				}
				if err == nil {
					t.Error("it was read")
				}
			})
			if most > 64<<20+sizePerByte*uint64(len(b)) {
				t.Errorf("%d bytes took %d MiB", len(b), most>>20)
			}
		})
	}
}

// Read rejects a small file that would fill the disk, unless MaxSize permits its size.
func TestSmallFilesFillNoDisk(t *testing.T) {
	data := strings.Repeat("A", 1<<20)
	lines := strings.Replace(headLine, "/a", "/x", 1) + znodeLine("/x")
	for i := range 64 {
		lines += strings.Replace(znodeLine(fmt.Sprintf("/x/%d", i)), "null", strconv.Quote(data), 1)
	}
	b := gzipped(t, strings.NewReader(withChecksum(lines+trailerLine(65))))
	_, err := Read(t.Context(), bytes.NewReader(b))
	if err == nil || !strings.Contains(err.Error(), "MiB in a temporary file") || !strings.Contains(err.Error(), "--load FILE") {
		t.Errorf("%d bytes: %v", len(b), err)
	}
	tree, err := Read(t.Context(), bytes.NewReader(b), MaxSize(100<<20))
	zktest.Must(t, err)
	zktest.Check(t, tree.Close())
}

// peak calls do and returns about the maximum of the memory in use meanwhile.
func peak(t *testing.T, do func()) uint64 {
	t.Helper()
	var before, after runtime.MemStats
	runtime.GC()
	debug.FreeOSMemory()
	runtime.ReadMemStats(&before)
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	done := make(chan struct{})
	go func() { defer close(done); do() }()
	most := uint64(0)
	for {
		runtime.ReadMemStats(&after)
		if after.HeapAlloc > before.HeapAlloc {
			most = max(most, after.HeapAlloc-before.HeapAlloc)
		}
		select {
		case <-done:
			return most
		default:
			time.Sleep(time.Millisecond) // sampling interval
		}
	}
}

// Read returns when its context ends, even if the file blocks or never ends.
func TestReadIsCancelled(t *testing.T) {
	why := errors.New("enough")
	blocked, w := io.Pipe()
	defer w.Close()
	for name, in := range map[string]io.Reader{
		"blocked": blocked,
		"endless": io.MultiReader(strings.NewReader(headLine), &endless{text: znodeLine("/a")}),
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			if name == "blocked" {
				cancel(why)
			} else {
				in = io.TeeReader(in, after(1<<20, func() { cancel(why) }))
			}
			if _, err := Read(ctx, in); !errors.Is(err, why) {
				t.Errorf("got %v", err)
			}
		})
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if _, err := Open(ctx, filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("opened")
	}
}

// after returns a writer that calls do after n bytes.
func after(n int, do func()) io.Writer { return &afterWriter{n, do} }

type afterWriter struct {
	n  int
	do func()
}

func (a *afterWriter) Write(p []byte) (int, error) {
	if a.n -= len(p); a.n < 0 {
		a.do()
	}
	return len(p), nil
}

// Lacks reports the znodes that could not be read at the export, of all concatenated dumps.
func TestLacks(t *testing.T) {
	whole := written(t, []*Znode{{Path: "/a"}})
	zktest.Check(t, read(t, whole).Trailer.Lacks())
	for missed, want := range map[int]string{1: "1 znode and its descendants could", 2: "2 znodes and their descendants could"} {
		part := withChecksum(headLine + znodeLine("/a") +
			fmt.Sprintf(`{"end":{"znodes":1,"unread":["NoAuth: /a/b"],"missed":%d}}`, missed) + "\n")
		if err := read(t, []byte(string(whole)+part)).Trailer.Lacks(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d missed: %v", missed, err)
		}
	}
}
