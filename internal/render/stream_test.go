package render

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
)

// A word is an Item whose second cell is the word.
type word string

func (w word) Cells() []string { return []string{"1", string(w)} }
func (w word) JSON() any       { return string(w) }

func words(items ...Item) *Stream {
	return &Stream{
		Open: Facts{"path", "/a"}, List: "words", Items: slices.Values(items),
		Columns: []Column{{Header: "n", Width: 3, Right: true}, {Header: "word"}},
		End:     func() error { return errors.New("broken off") },
	}
}

func TestStreamForms(t *testing.T) {
	for format, want := range map[Format]string{
		Text:  "  n  word\n  1  a\"b\n  1  c\x1b\n",
		Table: "  n  word\n  1  a\"b\n  1  c\\x1b\n",
		JSON:  `{"path":"/a","words":["a\"b","c\u001b"],"error":"broken off"}` + "\n",
	} {
		var b bytes.Buffer
		p := &Printer{W: &b, Format: format}
		if err := p.Print(words(word(`a"b`), word("c\x1b"))); err != nil || b.String() != want {
			t.Errorf("%s: %q, %v; want %q", format, b.String(), err, want)
		}
	}
	bare := words(word("a"))
	bare.Bare = true
	own := words(word("a"))
	own.Failed = func(err error) Facts { return Facts{"error", err.Error(), "code", "Failed"} }
	var b bytes.Buffer
	p := &Printer{W: &b, Format: JSON}
	if err := errors.Join(bare.Text(&b), p.Print(own), p.Print(&Stream{List: "none", Items: slices.Values([]Item{})})); err != nil {
		t.Error(err)
	}
	if want := "  1  a\n{\"path\":\"/a\",\"words\":[\"a\"],\"error\":\"broken off\",\"code\":\"Failed\"}\n{\"none\":[]}\n"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}

// TestStreamShowsWhatIsThere checks that a nil Item makes the earlier items visible.
func TestStreamShowsWhatIsThere(t *testing.T) {
	var b strings.Builder
	var shown []string
	s := words()
	s.Items = func(yield func(Item) bool) {
		_ = yield(word("a")) && yield(nil)
		shown = append(shown, b.String())
		_ = yield(word("b"))
	}
	p := &Printer{W: &b, Format: Text}
	if err := p.Print(s); err != nil || shown[0] != "  n  word\n  1  a\n" {
		t.Errorf("%q, %v", shown, err)
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("full") }

// TestStreamEndsWithItsReader checks that no more items are read after writing has failed.
func TestStreamEndsWithItsReader(t *testing.T) {
	for _, format := range []Format{Text, Table, JSON} {
		after := 0
		s := words()
		s.Items = func(yield func(Item) bool) {
			if yield(word("a")) && yield(nil) {
				after++
			}
		}
		p := &Printer{W: fullDisk{}, Format: format}
		if err := p.Print(s); err == nil || after > 0 {
			t.Errorf("%s: %v, and it went on", format, err)
		}
	}
}

// On a narrow terminal, rows are wrapped, or a Spare column is left out. Otherwise, rows are
// printed unchanged.
func TestStreamFits(t *testing.T) {
	text := func(width int) string {
		var b strings.Builder
		p := Printer{W: &b, Width: func() int { return width }}
		if err := p.Print(&Stream{List: "l", Columns: []Column{{Header: "kind", Width: 10}, {Header: "owner", Width: 18, Spare: true}, {Header: "name"}},
			Items: func(yield func(Item) bool) { yield(narrowItem{}) }}); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	whole := "kind        owner               name\npersistent  0x123456789abcdef0  /some/where (already undone)\n"
	for width, want := range map[int]string{
		0: whole, 80: whole,
		50: "kind        owner               name\npersistent  0x123456789abcdef0  /some/where\n    (already undone)\n",
		40: "kind        name\npersistent  /some/where (already undone)\n",
	} {
		if got := text(width); got != want {
			t.Errorf("in %d columns:\n%s", width, got)
		}
	}
}

type narrowItem struct{}

func (narrowItem) Cells() []string {
	return []string{"persistent", "0x123456789abcdef0", "/some/where (already undone)"}
}
func (narrowItem) JSON() any { return nil }

// The words of an Answer are wrapped on a terminal if Wrap is set.
func TestAnswerWraps(t *testing.T) {
	for wrap, want := range map[bool]string{false: "undid 2: set /some/where\n", true: "undid 2: set\n/some/where\n"} {
		var b strings.Builder
		p := Printer{W: &b, Format: Text, Width: func() int { return 20 }}
		if err := p.Print(Answer{Words: "undid 2: set /some/where\n", Wrap: wrap}); err != nil || b.String() != want {
			t.Errorf("%v: %q, %v", wrap, b.String(), err)
		}
	}
}
