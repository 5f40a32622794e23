package zkconn

import (
	"runtime"
	"testing"

	"github.com/zksh/zksh/internal/zkconn/wire"
)

// FuzzAnswer decodes arbitrary bytes as the answer to each kind of request. Decoding must not
// panic, nor allocate memory only because a length claims so.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0x7f, 0xff, 0xff, 0xff})                   // two billion names
	f.Add([]byte{0, 0, 0, 22, 0, 0, 0, 0, 0, 0, 0})         // multiRead
	f.Add([]byte{255, 255, 255, 255, 0, 0, 0, 0})           // multi
	f.Add(append([]byte{0, 0, 0, 0}, make([]byte, 200)...)) // zeros, which decode as any kind of record
	f.Fuzz(func(t *testing.T, body []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		decodeAny(wire.Reply{Body: body})
		runtime.ReadMemStats(&after)
		const room = 4 << 20
		if took := after.TotalAlloc - before.TotalAlloc; took > room+64*uint64(len(body)) {
			t.Fatalf("%d bytes allocated for %d received", took, len(body))
		}
	})
}

// decodeAny decodes a reply as each kind of record. Errors are ignored.
func decodeAny(r wire.Reply) {
	decode(r, GetData("/"))
	decode(r, GetChildren("/"))
	decode(r, List("/"))
	decode(r, GetACL("/"))
	decode(r, Exists("/"))
	decode(r, SetACL("/", nil, 0))
	decode(r, MultiGetData([]string{"/a", "/b"}))
	_ = answerTo(r, "/root").Strings() // the record of getEphemerals
	decode(r, MultiGetChildren([]string{"/a", "/b"}))
	decode(r, Multi([]Change{Removal("/a", -1), Removal("/b", -1)}))
	decode(r, Create("/a", nil, nil, CreateMode{}))
}

func decode[T any](r wire.Reply, o Op[T]) { o.decode(answerTo(r, "/root")) }
