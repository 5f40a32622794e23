//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package shell

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// keysOf feeds pieces and takes keys as the editor does; runs of text are joined.
func keysOf(pieces ...string) []string {
	var b keyBuffer
	var keys []string
	take := func(flush bool) {
		for key := b.next(flush); key != ""; key = b.next(flush) {
			if n := len(keys); n > 0 && !isControl(key[0]) && !isControl(keys[n-1][0]) {
				keys[n-1] += key
				continue
			}
			keys = append(keys, key)
		}
	}
	for _, p := range pieces {
		b.bytes += p
		take(false)
	}
	take(true)
	return keys
}

func TestKeys(t *testing.T) {
	for in, want := range map[string][]string{
		"ls /a\r":                              {"ls /a", "\r"},
		"a\nb\r\nc":                            {"a", "\r", "b", "\r", "c"},
		"\x1b[A\x1b[A\x1bOB":                   {"\x1b[A", "\x1b[A", "\x1bOB"},
		"\x1b[1;5Dx\x1bb\x1b\x7f":              {"\x1b[1;5D", "x", "\x1bb", "\x1b\x7f"},
		"\x1b[[A\x1b[15~":                      {"\x1b[[A", "\x1b[15~"},
		"\x1b":                                 {"\x1b"},
		"\x1b\x03":                             {"\x1b", "\x03"},
		"\x1b\x1b[C":                           {"\x1b", "\x1b[C"},
		"\x1b[\x03":                            {"\x1b[", "\x03"},
		"你好\x7f😀":                              {"你好", "\x7f", "😀"},
		"a\xffb":                               {"a\uFFFDb"},
		"a\xe4\xb8":                            {"a\uFFFD\uFFFD"},
		"\x1b[200~a\tb\x03c\rd\x1b[201~\te":    {"a b", "c", "\r", "d", "\t", "e"},
		"\x1b[200~one\ntwo\r\nthree\x1b[201~y": {"one", "\r", "two", "\r", "threey"},
	} {
		if diff := cmp.Diff(want, keysOf(in)); diff != "" && strings.Join(keysOf(in), "") != strings.Join(want, "") {
			t.Errorf("%q (-want +got):\n%s", in, diff)
		}
	}
}

// FuzzKeys: however a terminal's bytes are cut into pieces, the same keys come out,
// and no control character or broken text hides in one of them.
func FuzzKeys(f *testing.F) {
	f.Add("\x1b[200~a\tb\x1b[201~\x1b[1;5D你\r\n", uint8(3))
	f.Add("\x1b\x1b[\x00\xff\xe4\xb8\xad", uint8(5))
	f.Fuzz(func(t *testing.T, in string, at uint8) {
		whole := keysOf(in)
		for _, key := range whole {
			if !isControl(key[0]) && (strings.ToValidUTF8(key, "") != key || strings.IndexFunc(key, func(r rune) bool { return r < ' ' || r == 0x7f }) >= 0) {
				t.Errorf("%q: the text %q", in, key)
			}
		}
		if n := int(at); n < len(in) && !strings.HasSuffix(in[:n], "\r") {
			if diff := cmp.Diff(whole, keysOf(in[:n], in[n:])); diff != "" {
				t.Errorf("%q cut at %d (-whole +pieces):\n%s", in, n, diff)
			}
		}
	})
}

func TestWords(t *testing.T) {
	for _, c := range []struct {
		s           string
		last, first int
	}{
		{"", 0, 0},
		{"get /one/two", 3, 3},
		{"get /one/two/ ", 5, 3},
		{" /你好 /世界", 2, 4},
		{"//", 2, 2},
	} {
		if last, first := lastWord(c.s, notInWord), firstWord(c.s); last != c.last || first != c.first {
			t.Errorf("%q: %d, %d; want %d, %d", c.s, last, first, c.last, c.first)
		}
	}
}
