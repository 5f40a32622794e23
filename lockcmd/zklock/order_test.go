package zklock

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/go-zookeeper/zk"
	"pgregory.net/rapid"
)

// czxids is a Session that answers only exists.
type czxids struct {
	Session
	made map[string]int64 // by path
}

func (c czxids) State(time.Time) SessionState { return SessionState{} }

func (c czxids) Exists(_ context.Context, path string) (*zk.Stat, error) {
	if z, ok := c.made[path]; ok {
		return &zk.Stat{Czxid: z}, nil
	}
	return nil, zk.ErrNoNode
}

// A contender is one attempt as the server sees it.
type contender struct {
	mode  Mode
	name  string
	czxid int64
}

// drawContenders draws contenders in the order of their creation, numbered like a server
// does: it counts up, stays at the maximum, and sometimes overflows for a moment.
func drawContenders(t *rapid.T) []contender {
	next := rapid.SampledFrom([]int64{0, 7, math.MaxInt32 - 9, math.MaxInt32 - 1, math.MaxInt32}).Draw(t, "first number")
	var all []contender
	for i := range rapid.IntRange(1, 12).Draw(t, "contenders") {
		c := contender{mode: rapid.SampledFrom([]Mode{Exclusive, Shared}).Draw(t, "mode"), czxid: int64(100 + i)}
		family := rapid.SampledFrom(Families()).Draw(t, "family")
		guid := fmt.Sprintf("%08x-0000-4000-8000-000000000000", i)
		number := next
		if next > math.MaxInt32 {
			number = math.MaxInt32
			if rapid.Bool().Draw(t, "over") {
				number = next - 1<<32
			}
		}
		next++
		c.name = fmt.Sprintf("%s%010d", prefix(family, c.mode, guid), number)
		all = append(all, c)
	}
	return all
}

// ahead returns exactly the conflicting contenders that were created before, the nearest
// last.
func TestAheadAgreesWithModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := drawContenders(t)
		lock := New(nil, "/lock", Options{})
		session := czxids{made: map[string]int64{}}
		children := []string{"config", "_c_x", "lock-", testGUID}
		for _, c := range all {
			session.made["/lock/"+c.name] = c.czxid
			children = append(children, c.name)
		}
		children = rapid.Permutation(children).Draw(t, "children")
		for _, me := range all {
			e := &entry{l: lock, s: session, mode: me.mode, name: me.name, czxid: me.czxid}
			got, err := e.ahead(context.Background(), children)
			if err != nil {
				t.Fatal(err)
			}
			checkAhead(t, all, me, got)
		}
	})
}

func checkAhead(t *rapid.T, all []contender, me contender, got []string) {
	var want []string
	for _, other := range all {
		if other.czxid < me.czxid && (other.mode == Exclusive || me.mode == Exclusive) {
			want = append(want, other.name)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("ahead of %q are %q, want %q", me.name, got, want)
	}
}

// ahead fails if the list does not contain the entry's own znode.
func TestAheadWithoutOwnZnode(t *testing.T) {
	e := &entry{l: New(nil, "/lock", Options{}), name: "_c_" + testGUID + "-lock-0000000007"}
	for _, children := range [][]string{nil, {"_c_other-lock-0000000003"}} {
		if got, err := e.ahead(context.Background(), children); err == nil {
			t.Errorf("ahead of nothing are %q", got)
		}
	}
}

// ParseName understands every name that a lock creates, with any number.
func TestMadeNamesAreRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mode := rapid.SampledFrom([]Mode{Exclusive, Shared}).Draw(t, "mode")
		number := int64(rapid.Int32().Draw(t, "number"))
		guid := newGUID()
		for _, family := range Families() {
			name := fmt.Sprintf("%s%010d", prefix(family, mode, guid), number)
			n, ok := ParseName(name)
			if !ok || n.Mode != mode || n.Number != number && number > -1e8 {
				t.Errorf("ParseName(%q) = %+v, %v", name, n, ok)
			}
			if !isOwn(name, guid) || isOwn(name, testGUID) {
				t.Errorf("whose is %q?", name)
			}
		}
	})
}

// ParseName accepts any name, and never returns a number outside the range of the server's
// counter.
func TestAnyNameIsRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`(_c_)?[0-9a-f-]{0,36}(-lock-|__lock__|__READ__|x-|read-)?-?[0-9]{0,12}`).Draw(t, "name")
		n, ok := ParseName(name)
		if ok && n.Number != NoNumber && (n.Number > math.MaxInt32 || n.Number < math.MinInt32) {
			t.Errorf("ParseName(%q) = %+v", name, n)
		}
	})
}

// skew changes the wall clock reading of a time and keeps the monotonic one, as setting the
// clock or a sleep of the machine does.
func skew(t time.Time, d time.Duration) time.Time {
	moved := t.Add(d)
	monotonic := unsafe.Offsetof(struct {
		wall uint64
		ext  int64
	}{}.ext) // as in time.Time
	*(*int64)(unsafe.Add(unsafe.Pointer(&moved), monotonic)) -= int64(d)
	return moved
}

// CASES.md, case 43: the monotonic clock of a machine stood still while it was asleep.
func TestLeaseAge(t *testing.T) {
	contact := time.Now()
	for _, c := range []struct{ real, jump, want time.Duration }{
		{time.Second, 0, time.Second},
		{time.Second, time.Hour, time.Hour + time.Second}, // asleep, or set forward
		{time.Second, -time.Hour, time.Second},            // set back
	} {
		now := skew(contact.Add(c.real), c.jump)
		if got := now.Sub(contact); got != c.real {
			t.Fatalf("the monotonic clock moved by %v, not %v", got, c.real)
		}
		if got := leaseAge(contact, now); got != c.want {
			t.Errorf("after %v and a jump of %v the lease is %v old, want %v", c.real, c.jump, got, c.want)
		}
	}
}
