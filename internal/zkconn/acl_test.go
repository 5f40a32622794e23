package zkconn

import (
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/google/go-cmp/cmp"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/zkconn/wire"
)

// Each answer gets an ACL list of its own, although equal lists are decoded only once, and also
// if one list is a prefix of another.
func TestACLsOfManyAnswers(t *testing.T) {
	open, own := zk.WorldACL(zk.PermAll), []zk.ACL{{Perms: 1, Scheme: "digest", ID: "me:x"}}
	both := append(append([]zk.ACL{}, open...), own...)
	a := answerTo(wire.Reply{}, "")
	for i, want := range [][]zk.ACL{open, open, both, open, own, own, {}, both, both, open} {
		var e jute.Encoder
		writeACL(&e, want)
		e.Int(int32(i)) // a value that follows the list
		a.Next(e.B)
		got := a.accessList()
		if behind := a.Int(); behind != int32(i) || a.Err() != nil || !cmp.Equal(got, want) {
			t.Errorf("answer %d: %v, then %d, %v; want %v", i, got, behind, a.Err(), want)
		}
	}
	a.Next([]byte{0, 0, 0, 1})
	if got := a.accessList(); a.Err() == nil {
		t.Errorf("a list that is cut short: %v", got)
	}
	var e jute.Encoder
	writeACL(&e, own)
	a.Next(e.B)
	if got := a.accessList(); a.Err() != nil || !cmp.Equal(got, own) {
		t.Errorf("behind one that is cut short: %v, %v", got, a.Err())
	}
}
