package queue

import (
	"testing"

	"github.com/zksh/zksh/lockcmd/zklock"
)

const (
	lock1  = uuid + "-lock-0000000001"
	read2  = uuid + "-__READ__0000000002"
	read3  = "_c_11111111-0000-4000-8000-0123456789ab-__READ__0000000003"
	write4 = "_c_22222222-0000-4000-8000-0123456789ab-__WRIT__0000000004"
)

func TestAhead(t *testing.T) {
	f := newFake()
	f.make(1, "", "/l")
	f.make(1, "", "/l/"+read2)
	f.make(2, "", "/l/"+read3)
	f.make(3, "", "/l/"+write4)
	q := f.read(t)
	for name, want := range map[string]int{read2: 0, read3: 0, write4: 2, lock1: 0} {
		if got := q.Ahead(name); len(got) != want {
			t.Errorf("%s: %d ahead, want %d", name, len(got), want)
		}
	}
	for mode, want := range map[zklock.Mode]bool{zklock.Shared: false, zklock.Exclusive: true, zklock.Counted: false} {
		if q.Contender(read2).Excludes(mode) != want {
			t.Errorf("a reader excludes %s: %v", mode, !want)
		}
	}
}

// A waiter stands for another contender by its session, or by what its data tell;
// one that waits for somebody else, or for nobody, does not count.
func TestWaits(t *testing.T) {
	note, err := Note("", []string{"/root/m/" + lock1})
	if err != nil {
		t.Fatal(err)
	}
	other := &Contender{Session: "0x7", Nodes: []string{lock1}}
	for _, c := range []struct {
		what    string
		session int64
		data    string
		waits   bool
	}{
		{"its session", 7, "", true},
		{"its data", 8, string(note), true},
		{"a stranger", 8, "", false},
		{"other data", 8, `{"host":"h","pid":1,"held":["/m/` + lock1 + `"]}`, false},
	} {
		f := newFake()
		f.make(1, "", "/l")
		f.make(1, "", "/l/"+read2)
		f.make(c.session, c.data, "/l/"+read3)
		f.make(c.session, c.data, "/l/"+write4)
		q := f.read(t)
		got := q.Waits(read2, other, "/root/m")
		if (got != nil) != c.waits || got != nil && got.Nodes[0] != write4 {
			t.Errorf("%s: %v, want %v", c.what, got, c.waits)
		}
		if got := q.Waits(write4, other, "/root/m"); got != nil {
			t.Errorf("%s: nobody waits behind the last, not %v", c.what, got)
		}
	}
}
