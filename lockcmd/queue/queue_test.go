package queue

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var families = map[string]struct {
	nodes []string
	want  string
}{
	"mutex":           {[]string{uuid + "-lock-0000000002", uuid + "-lock-0000000001"}, "lock holds 1, lock waits 2"},
	"go-zookeeper":    {[]string{guid + "-lock-0000000002", guid + "-lock-0000000001"}, "lock holds 1, lock waits 2"},
	"readers first":   {[]string{uuid + "-__READ__0000000001", uuid + "-__READ__0000000002", uuid + "-__WRIT__0000000003", uuid + "-__READ__0000000004"}, "read holds 1, read holds 2, write waits 3, read waits 4"},
	"writer first":    {[]string{uuid + "-__WRIT__0000000001", uuid + "-__READ__0000000002"}, "write holds 1, read waits 2"},
	"downgraded read": {[]string{uuid + "-__WRIT__0000000004", uuid + "-__READ__0000000003"}, "read holds 3, write waits 4"},
	"kazoo":           {[]string{hex32 + "__lock__0000000001", hex32 + "__rlock__0000000002", hex32 + "__lock__0000000003"}, "lock holds 1, read waits 2, lock waits 3"},
	"kazoo readers":   {[]string{hex32 + "__rlock__0000000001", hex32 + "__rlock__0000000002"}, "read holds 1, read holds 2"},
	"latch":           {[]string{uuid + "-latch-0000000001", uuid + "-latch-0000000002"}, "latch holds 1, latch waits 2"},
	"recipe":          {[]string{"x-72057594-0000000001", "x-0123456789abcdef-0000000002"}, "lock holds 1, lock waits 2"},
	"HBase":           {[]string{"read-0000000001", "write-0000000002"}, "read holds 1, write waits 2"},
	"Accumulo":        {[]string{"zlock#8a9b#0000000001", "zlock-0000000002"}, "lock holds 1, lock waits 2"},
	"liberal":         {[]string{hex32 + "__rlock__0000000001", uuid + "-__READ__0000000002", uuid + "-lock-0000000003", uuid + "-__READ__0000000004"}, "read holds 1, read holds 2, lock waits 3, read waits 4"},
	"overflow":        {[]string{uuid + "-lock-2147483646", uuid + "-lock-2147483647", guid + "-lock-2147483647", uuid + "-lock--2147483648"}, "lock holds 2147483646, lock waits 2147483647, lock waits 2147483647, lock waits 2147483648"},
	"overflow, czxid": {[]string{uuid + "-lock--2147483648", uuid + "-lock-2147483647", uuid + "-lock-0000000007"}, "lock holds 2147483648, lock waits 2147483647, lock waits 7"},
}

func TestFamilies(t *testing.T) {
	for name, c := range families {
		f := newFakeEnsemble()
		f.add("/l")
		for _, n := range c.nodes {
			f.add("/l/" + n)
		}
		if got := brief(f.read(t)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestCuratorSemaphore(t *testing.T) {
	f := newFakeEnsemble()
	f.add("/l", "/l/leases", "/l/locks")
	if q := f.read(t); q.State != "free" || len(q.Ignored) > 0 {
		t.Errorf("an empty one: %+v", q)
	}
	f.add("/l/leases/"+uuid+"-lease-0000000001", "/l/leases/"+uuid+"-lease-0000000002")
	f.make(2, "", "/l/locks/"+uuid+"-lock-0000000007")
	f.add("/l/locks/" + uuid + "-lock-0000000008")
	if got := brief(f.read(t)); got != "semaphore holds 1, semaphore holds 2, semaphore waits 7, semaphore waits 8" {
		t.Error(got)
	}
	f.make(2, "", "/l/leases/"+uuid+"-lease-0000000003") // the semaphore has no free lease for it yet
	if q := f.read(t); brief(q) != "semaphore holds 1, semaphore holds 2, semaphore waits 3, semaphore waits 8" || len(q.Warnings) > 0 {
		t.Error(brief(q), q.Warnings)
	}
}

func TestKazooSemaphore(t *testing.T) {
	f := newFakeEnsemble()
	f.make(0, "2", "/l")
	second := "f" + hex32[1:]
	f.add("/l/"+second, "/l/"+hex32) // not in alphabetical order
	f.add("/l-__lock__")
	f.make(2, "", "/l-__lock__/"+hex32+"__lock__0000000005")
	q := f.read(t)
	if q.MaxLeases != 2 || len(q.Contenders) != 3 || q.Contenders[0].Node != second || len(q.Warnings) > 0 {
		t.Errorf("%+v", q)
	}
	if got := brief(q); !strings.HasPrefix(got, "semaphore holds ") || !strings.HasSuffix(got, "semaphore waits 5") {
		t.Error(got)
	}
	if got := strings.Join(q.Remarks(), ";"); got != "the semaphore has 2 leases" {
		t.Error(got)
	}
	f.make(2, "", "/l/"+strings.Repeat("a", 32)) // the first client at the guard has its lease now
	if got := brief(f.read(t)); strings.Count(got, "holds") != 3 || strings.Contains(got, "waits") {
		t.Error(got)
	}
}

func TestUnreadableZnodes(t *testing.T) {
	f := newFakeEnsemble()
	if q := f.read(t); !q.Missing || !q.Free() {
		t.Errorf("%+v", q)
	}
	f.add("/l", "/l/lock-0000000001", "/l/lock-0000000002", "/l/config")
	hidden, gone := f.znodes["/l/lock-0000000001"], f.znodes["/l/lock-0000000002"]
	hidden.Hidden, hidden.Data, gone.Stat = true, []byte("secret"), nil
	f.znodes["/l/lock-0000000001"], f.znodes["/l/lock-0000000002"] = hidden, gone
	q := f.read(t)
	if got := brief(q); got != "lock holds 1" {
		t.Error(got)
	}
	if c := q.Contenders[0]; c.Who != "unreadable" || c.Data != nil || c.Session != "0x1" {
		t.Errorf("%+v", c)
	}
	if diff := cmp.Diff([]string{"config"}, q.Ignored); diff != "" {
		t.Error(diff)
	}
	f.err = errors.New("out of order")
	if _, err := Read(t.Context(), f, "/l"); !errors.Is(err, f.err) {
		t.Errorf("the error is %v", err)
	}
}

// Holders returns one znode for each holder. For a lease of a semaphore, it is not a child of
// the lock's path.
func TestHolders(t *testing.T) {
	f := newFakeEnsemble()
	f.add("/l", "/l/leases", "/l/locks")
	f.make(2, "", "/l/"+uuid+"-__READ__0000000001")
	f.add("/l/leases/"+uuid+"-lease-0000000001", "/l/"+uuid+"-__WRIT__0000000003")
	q := f.read(t)
	holders := q.Holders()
	if diff := cmp.Diff([]string{uuid + "-__READ__0000000001", uuid + "-lease-0000000001"}, holders); diff != "" {
		t.Fatal(diff)
	}
	lease := "/l/leases/" + holders[1]
	for _, what := range []string{holders[1], lease, "3"} {
		if got, err := q.Find(what); got != lease {
			t.Errorf("%s: %q, %v", what, got, err)
		}
	}
}

func TestAge(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 0: "0s", 59 * time.Second: "59s", 192 * time.Second: "3m12s", 5*time.Hour + 4*time.Minute + 3*time.Second: "5h4m",
		291*time.Hour + time.Minute: "12d3h",
	} {
		if got := formatAge(d); got != want {
			t.Errorf("%s: %s, want %s", d, got, want)
		}
	}
}
