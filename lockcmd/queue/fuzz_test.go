package queue

import (
	"encoding/json"
	"testing"
)

// FuzzNote parses the data of a contender's znode.
func FuzzNote(f *testing.F) {
	f.Add([]byte(`{"user":"u","host":"h","pid":1,"note":"n","held":["/a"]}`))
	f.Add([]byte("__REVOKE__ {}"))
	f.Add([]byte("release requested"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if n, ok := parseNote(data); ok && (n.String() == "" || !n.valid()) {
			t.Errorf("%q: %+v", data, n)
		}
		parseRevocation(data)
		asked, err := Revoke(data)
		if err != nil {
			t.Fatal(err)
		}
		if r, ok := parseRevocation(asked); !ok || r.Holder != nil && !json.Valid(r.Holder) {
			t.Errorf("%q became %q", data, asked)
		}
	})
}
