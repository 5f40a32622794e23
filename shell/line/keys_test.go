//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package line

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// keysOf adds the pieces to a keyBuffer one by one, and returns the keys. It joins consecutive keys
// that are text.
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
		"\x1b[200~a\tb\x01c\rd\x1b[201~\te":    {"a", pastedTab, "bc", "\r", "d", "\t", "e"},
		"\x1b[200~a\tb\x03c\td":                {"a", pastedTab, "b", "\x03", "c", "\t", "d"},
		"\x1b[200~one\ntwo\r\nthree\x1b[201~y": {"one", "\r", "two", "\r", "threey"},
	} {
		if diff := cmp.Diff(want, keysOf(in)); diff != "" && strings.Join(keysOf(in), "") != strings.Join(want, "") {
			t.Errorf("%q (-want +got):\n%s", in, diff)
		}
	}
}

// A key may arrive in several pieces.
func TestKeysInPieces(t *testing.T) {
	got := keysOf("create /\xe4", "\xb8", "\xadb\x1b", "[", "D", "x\r", "\x1b[200~a", "\x1b", "[201", "~\x01")
	want := []string{"create /中b", "\x1b[D", "x", "\r", "a", "\x01"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The editor waits for the rest of an incomplete mark of a paste. Ctrl-C or a timeout ends a paste
// whose end mark is missing.
func TestPatience(t *testing.T) {
	e := &promptEditor{}
	want := func(patience int, pasting bool) {
		t.Helper()
		if e.timeout() != patience || e.keys.pasting != pasting {
			t.Errorf("patience %d, pasting %v; want %d, %v", e.timeout(), e.keys.pasting, patience, pasting)
		}
	}
	take := func(typed string) {
		e.addTyped(typed)
		for e.keys.next(false) != "" {
		}
	}
	want(-1, false)
	take("\x1b[20")
	want(escapeWait, false)
	take("0~ab\x1b")
	want(pasteWait, true)
	take("[201~")
	want(-1, false)
	take("\x1b[200~ab\x03")
	want(-1, false)
	take("\x1b[200~ab")
	e.endPaste()
	want(-1, false)
}

func TestPastedLine(t *testing.T) {
	for in, want := range map[string]string{
		"\x1b[200~":                                "no",
		"\x1b[200~one":                             "no",
		"\x1b[200~one\rtwo\r":                      "one|two\r",
		"\x1b[200~\r\x1b[201~":                     "|\x1b[201~",
		"\x1b[200~a\tb\x01\x1b[31m中\r\ncd":         "a\tb中|cd",
		"\x1b[200~one\x1b[201~\r":                  "one|", // Enter after the paste
		"\x1b[200~one\x03\r":                       "no",
		"\x1b[200~one" + truncatedMark + "\rtwo\r": "no",
		"one\r": "no",
	} {
		k := keyBuffer{bytes: in}
		if strings.HasPrefix(in, pasteBegins) {
			k.bytes, k.pasting = k.bytes[len(pasteBegins):], true
		}
		before := k
		got := "no"
		if line, rest, ok := k.pastedLine(); ok {
			got = line + "|" + rest.bytes
		}
		if got != want || k != before {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestInterrupted(t *testing.T) {
	for in, want := range map[string]string{
		"ls /\r":                               "no",
		"ls /\r\x03":                           "",
		"ls /\rget /a\r\x03ls":                 "ls",
		"\x1b[200~ls /\rls\r\x1b[201~\x03\x1b": "\x1b",
	} {
		k := keyBuffer{bytes: in}
		if k.cutAtInterrupt() {
			if k.bytes != want {
				t.Errorf("%q leaves %q, want %q", in, k.bytes, want)
			}
		} else if want != "no" || k.bytes != in {
			t.Errorf("%q is not interrupted, and leaves %q", in, k.bytes)
		}
	}
}

// The rest of a paste that began before a question is not an answer to it. It is kept for after the
// question.
func TestAnswersAndPastes(t *testing.T) {
	for _, c := range []struct{ before, typed, answer, later string }{
		{"ls\r", "y\r", "y\r", "ls\r"},
		{"\x1b[200~ls\r", "y\r\x1b[201~n\r", "n\r", "\x1b[200~ls\ry\r\x1b[201~"},
		{"\x1b[200~ls\r\x1b[201~", "y\r", "y\r", "\x1b[200~ls\r\x1b[201~"},
		{"\x1b[200~ls\r", "y\r\x03z", "\x03z", ""},
	} {
		e := &promptEditor{afterQuestion: keyBuffer{bytes: c.before}}
		for i := range len(c.typed) { // byte by byte
			e.addTyped(c.typed[i : i+1])
		}
		if e.keys.bytes != c.answer || e.afterQuestion.bytes != c.later {
			t.Errorf("%q, %q: the answer %q, later %q", c.before, c.typed, e.keys.bytes, e.afterQuestion.bytes)
		}
	}
}

func TestWasCut(t *testing.T) {
	for n, want := range map[int]bool{maxTyped - 1: false, maxTyped: true, maxTyped + 1: true} {
		if got := isTruncated(strings.Repeat("x", n) + "\n"); got != want {
			t.Errorf("%d bytes and a line end: %v", n, got)
		}
	}
	if isTruncated("ls /\n" + strings.Repeat("x", maxTyped)) {
		t.Error("a terminal cuts only the first line")
	}
}

// The keys do not depend on how the input is split into pieces. A key that is text contains no
// control characters and no invalid UTF-8.
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
