package wire

import "testing"

// The xids of a group of requests may wrap around. A second answer with the same xid is not
// accepted.
func TestAwaits(t *testing.T) {
	r := &Request{first: xidBase - 2, left: 3, parts: make([]Part, 3)}
	xids := []int32{xidBase + xidBase - 2, xidBase + xidBase - 1, xidBase}
	for want, xid := range xids {
		if at, is := r.awaits(xid); at != want || !is {
			t.Errorf("%#x: %d, %t", xid, at, is)
		}
	}
	for _, xid := range []int32{xidBase + xidBase - 3, xidBase + 1} {
		if at, is := r.awaits(xid); is {
			t.Errorf("%#x: %d", xid, at)
		}
	}
	r.put(1, Reply{Code: SessionMoved})
	if _, is := r.awaits(xids[1]); is || r.left != 2 || r.parts[1].Code != SessionMoved {
		t.Errorf("the second answer again: %+v", r)
	}
	if at, is := (&Request{first: 7}).awaits(xidBase + 7); at != 0 || !is {
		t.Errorf("one request: %d, %t", at, is)
	}
	if _, is := (&Request{first: 7}).awaits(xidBase + 8); is {
		t.Error("the next one's answer is taken")
	}
}
