package render

import (
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/zktest"
)

func TestSafe(t *testing.T) {
	for in, want := range map[string]string{
		"plain 中文 é 👩‍👩‍👧":  "plain 中文 é 👩‍👩‍👧",
		"a\x1b[2Jb":         `a\x1b[2Jb`,
		"a\xff\xfeb":        `a\xff\xfeb`,
		"cut \xe4\xb8":      `cut \xe4\xb8`,
		"line\nnext\tcol\r": `line\nnext\tcol\x0d`,
		"c1 \u009b31m":      `c1 \u009b31m`,
		"rtl \u202e abc":    `rtl \u202e abc`,
		"del \x7f":          `del \x7f`,
		"back\\slash":       `back\slash`,
		"real \ufffd":       "real \ufffd",

		// Invisible characters: different names must not look the same.
		"a\u200bb\u200c\u200e\u200fc":    `a\u200bb\u200c\u200e\u200fc`,
		"\u2028\u2029\u202a\u202d":       `\u2028\u2029\u202a\u202d`,
		"\u2060\u2064\ufeff\u061c\u180e": `\u2060\u2064\ufeff\u061c\u180e`,
		"soft\u00ad, filler\u3164\u115f": `soft\u00ad, filler\u3164\u115f`,
		"tag \U000e0041":                 `tag \U000e0041`,
		"a\u200db, \u200d":               `a\u200db, \u200d`,
		"👩\u200d, 👩\u200da, a\u200d👧":    `👩\u200d, 👩\u200da, a\u200d👧`,
		"❤️‍🔥 👩🏽‍🚀":                      "❤️‍🔥 👩🏽‍🚀",
	} {
		if got := Safe(in); got != want {
			t.Errorf("Safe(%q) = %q, want %q", in, got, want)
		}
	}
}

type text string

func (s text) Text(w io.Writer) error { _, err := io.WriteString(w, string(s)); return err }

// TestSafePrinter prints characters that cross the ends of buffers.
func TestSafePrinter(t *testing.T) {
	for pad := range 5 {
		long := strings.Repeat("x", pad) + strings.Repeat("中\x1b", 1<<15) + "\xe4\n"
		var b strings.Builder
		zktest.Must(t, (&Printer{W: &b, Format: Text, Safe: true}).Print(text(long)))
		want := strings.Repeat("x", pad) + strings.Repeat(`中\x1b`, 1<<15) + `\xe4` + "\n"
		if b.String() != want {
			t.Errorf("with %d bytes before: %d bytes printed, want %d", pad, b.Len(), len(want))
		}
	}
}

// A safeWriter looks at the character after a joiner, even if that comes with the next Write. In
// JSON, it escapes characters beyond the basic plane as surrogates.
func TestSafeWriterInPieces(t *testing.T) {
	for _, c := range []struct {
		in, want string
		json     bool
	}{
		{"👩\u200d👧a\u200db\u200b\U000e0041\x7f\n", `👩‍👧a\u200db\u200b\U000e0041\x7f` + "\n", false},
		{"👩\u200d👧a\u200db\u200b\U000e0041\x7f\n", `👩‍👧a\u200db\u200b\udb40\udc41\u007f` + "\n", true},
	} {
		var b strings.Builder
		w := &safeWriter{w: &b, json: c.json}
		for i := range len(c.in) {
			if _, err := w.Write([]byte(c.in[i : i+1])); err != nil {
				t.Fatal(err)
			}
		}
		if b.String() != c.want {
			t.Errorf("%q, JSON %v: %q, want %q", c.in, c.json, b.String(), c.want)
		}
	}
}

func FuzzSafe(f *testing.F) {
	f.Add("a\x1b[31m\xff")
	f.Fuzz(func(t *testing.T, s string) {
		out := Safe(s)
		if !utf8.ValidString(out) || strings.ContainsAny(out, "\x00\x07\x08\x1b\r\n\t\x7f\u200b\u202e\ufeff") {
			t.Errorf("%q became %q", s, out)
		}
	})
}

func TestPipeIsUntouched(t *testing.T) {
	var b strings.Builder
	raw := "a\x1b\xff\x00\n"
	if err := (&Printer{W: &b, Format: Text}).Print(text(raw)); err != nil || b.String() != raw {
		t.Errorf("%q %v", b.String(), err)
	}
}

func TestData(t *testing.T) {
	for want, in := range map[string]Data{
		`null`:                    nil,
		`""`:                      {},
		`"<é>"`:                   Data("<é>"),
		`{"base64":"/wA="}`:       {0xff, 0},
		`"line\nnext \u001b end"`: Data("line\nnext \x1b end"),
	} {
		var b strings.Builder
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		err := e.Encode(in)
		if got := strings.TrimSpace(b.String()); err != nil || got != want {
			t.Errorf("%q: %s %v, want %s", in, got, err, want)
		}
	}
}

func TestJavaDate(t *testing.T) {
	zone := time.Local
	defer func() { time.Local = zone }()
	for _, c := range []struct{ zone, want string }{
		{"UTC", "Fri Nov 20 15:29:21 UTC 2026"},
		{"America/New_York", "Fri Nov 20 10:29:21 EST 2026"},
		{"America/Sao_Paulo", "Fri Nov 20 12:29:21 GMT-03:00 2026"},
	} {
		loc, err := time.LoadLocation(c.zone)
		zktest.Must(t, err)
		time.Local = loc
		if got := javaDate(1795188561000); got != c.want {
			t.Errorf("%s: %s, want %s", c.zone, got, c.want)
		}
	}
}

func TestStat(t *testing.T) {
	s := &Stat{Czxid: 9, Mzxid: 10, Pzxid: -1, Cversion: -1, Version: 3, EphemeralOwner: 0x100001255200005, DataLength: 11}
	var b strings.Builder
	zktest.Must(t, s.Text(&b))
	for _, want := range []string{"cZxid = 0x9\n", "pZxid = 0xffffffffffffffff\n", "cversion = -1\n", "ephemeralOwner = 0x100001255200005\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q lacks %q", b.String(), want)
		}
	}
	if n := strings.Count(b.String(), "\n"); n != 11 {
		t.Errorf("%d lines, want 11", n)
	}
	_ = zk.Stat(*s) // commands need this conversion
}

type grid struct{ text }

func (grid) Table() Grid {
	return Grid{Header: []string{"dataLength", "myValue_x"}, Rows: [][]string{{" 1 ", "a\tb"}, {"日本", "line\nnext"}}}
}

// TestTableKeepsData checks that a table does not change headers, trim cells or expand tabs, as the
// library does by default.
func TestTableKeepsData(t *testing.T) {
	var b strings.Builder
	zktest.Must(t, (&Printer{W: &b, Format: Table}).Print(grid{}))
	want := "dataLength  myValue_x   \n 1          a\\tb        \n日本        line\\nnext  \n"
	if b.String() != want {
		t.Errorf("got\n%q\nwant\n%q", b.String(), want)
	}
}
