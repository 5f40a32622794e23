package queue

import (
	"encoding/json"
	"testing"
)

// FuzzAnswers reads what servers say of themselves: whatever it is, nothing panics.
func FuzzAnswers(f *testing.F) {
	f.Add(" /127.0.0.1:51234[1](queued=0,recved=9,sent=9,sid=0x1000,lop=PING,est=1795188561000)\n")
	f.Add("](sid=0x1,est=\n[](sid=0xffffffffffffffff\n")
	f.Add("Sessions with Ephemerals (1):\n0x1000:\n\t/a/b\n\nConnections dump:\n")
	f.Add("server.1=zk1:2888:3888:participant;0.0.0.0:2181\nserver.2=[::1]:2888:3888:observer;[::]:2181\nserver.=\n")
	f.Fuzz(func(t *testing.T, text string) {
		parseCons(text)
		parseMembers(text, "2181")
		blocks(text)
		if all, err := ephemerals(text); err != nil && all != nil {
			t.Errorf("%v with %v", all, err)
		}
	})
}

// FuzzNote reads the data of a contender.
func FuzzNote(f *testing.F) {
	f.Add([]byte(`{"user":"u","host":"h","pid":1,"note":"n","held":["/a"]}`))
	f.Add([]byte("__REVOKE__ {}"))
	f.Add([]byte("release requested"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if n, ok := parseNote(data); ok && (n.String() == "" || !n.valid()) {
			t.Errorf("%q: %+v", data, n)
		}
		parseRequest(data)
		asked, err := Revoke(data)
		if err != nil {
			t.Fatal(err)
		}
		if r, ok := parseRequest(asked); !ok || r.Holder != nil && !json.Valid(r.Holder) {
			t.Errorf("%q became %q", data, asked)
		}
	})
}
