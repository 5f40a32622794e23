package jute

import (
	"bytes"
	"slices"
	"testing"
)

// FuzzDecoder decodes a list of strings at once and element by element. Both have the same result,
// and neither panics.
func FuzzDecoder(f *testing.F) {
	var e Encoder
	e.Strings([]string{"a", "", "bcd"})
	f.Add(e.B)
	f.Add([]byte{})
	f.Add([]byte{0, 0, 0, 2, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1, 'x', 7}) // null, and x
	f.Add([]byte{0, 0, 0, 2, 0xff, 0xff, 0xff, 0xfe, 0, 0, 0, 0})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 1})
	f.Add([]byte{0x7f, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		whole, single := NewDecoder(b), NewDecoder(b)
		got := whole.Strings()
		var want []string
		for range single.Count(4, StringCost) {
			want = append(want, single.String())
		}
		if single.Err() != nil {
			want = nil
		}
		if !slices.Equal(got, want) || whole.Err() != single.Err() || !bytes.Equal(whole.Rest(), single.Rest()) {
			t.Errorf("%q, %v, not %q, %v", got, whole.Err(), want, single.Err())
		}
		NewDecoder(b).ACL()
		NewDecoder(b).Stat()
		limited := NewDecoder(b)
		limited.Limit(2 * StringCost)
		if names := limited.Strings(); len(names) > 2 {
			t.Errorf("%d names, over the limit", len(names))
		}
	})
}

// FuzzQuota parses a quota, formats it, and parses it again with the same result.
func FuzzQuota(f *testing.F) {
	f.Add([]byte("count=3,bytes=20=;countHardLimit=5"))
	f.Add([]byte("count=-1,bytes=-1"))
	f.Add([]byte("=;,=="))
	f.Fuzz(func(t *testing.T, b []byte) {
		q, ok := ParseQuota(b)
		if !ok {
			return
		}
		again, ok := ParseQuota([]byte(q.String()))
		for key, n := range q {
			if !ok || again.Get(key) != n {
				t.Errorf("%q: %v, and then %v", b, q, again)
			}
		}
	})
}
