package syntax

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zksh/zksh/commands"
	"pgregory.net/rapid"
)

// plain returns an unquoted word, and quoted a quoted one.
func plain(s string) commands.Word  { return commands.Word{Text: s} }
func quoted(s string) commands.Word { return commands.Word{Text: s, Quoted: true} }

func TestSplit(t *testing.T) {
	for _, tc := range []struct {
		line string
		want []commands.Word
	}{
		// Corner cases of zkCli.
		{`create /f a"b c"d`, []commands.Word{plain("create"), plain("/f"), plain(`a"b`), plain(`c"d`)}},
		{`create /j "esc\"q"`, []commands.Word{plain("create"), plain("/j"), quoted(`esc\`), plain(`q"`)}},
		{`create /n '"x"'`, []commands.Word{plain("create"), plain("/n"), quoted(`"x"`)}},
		{`create /k ""`, []commands.Word{plain("create"), plain("/k"), quoted("")}},
		{`create /k ''`, []commands.Word{plain("create"), plain("/k"), quoted("")}},
		{"create\t/a\tv", []commands.Word{plain("create"), plain("/a"), plain("v")}},
		{"a \t\n\v\f\rb", []commands.Word{plain("a"), plain("b")}},
		{`"abc"def`, []commands.Word{quoted("abc"), plain("def")}},
		{`"abc"'def'ghi`, []commands.Word{quoted("abc"), quoted("def"), plain("ghi")}},
		{`'ls' /`, []commands.Word{quoted("ls"), plain("/")}},
		{`set /a "it's"`, []commands.Word{plain("set"), plain("/a"), quoted("it's")}},
		{`set /a {"k":"v"}`, []commands.Word{plain("set"), plain("/a"), plain(`{"k":"v"}`)}},
		{`set /a "a\b"`, []commands.Word{plain("set"), plain("/a"), quoted(`a\b`)}},
		{`set /a a\ b`, []commands.Word{plain("set"), plain("/a"), plain(`a\`), plain("b")}},
		{`set /p -5 "-x"`, []commands.Word{plain("set"), plain("/p"), plain("-5"), quoted("-x")}},
		// Spaces outside ASCII do not separate words.
		{"a\u00a0b\u0085c", []commands.Word{plain("a\u00a0b\u0085c")}},
		{"set /a \xff\xfe", []commands.Word{plain("set"), plain("/a"), plain("\xff\xfe")}},
		{"set /a \"\xff\xfe\"", []commands.Word{plain("set"), plain("/a"), quoted("\xff\xfe")}},
		// zkCli treats these lines differently.
		{"", nil},
		{" \t ", nil},
		{"  ls /c  ", []commands.Word{plain("ls"), plain("/c")}},
		{"\"a\u2028b\" 'c\u0085d'", []commands.Word{quoted("a\u2028b"), quoted("c\u0085d")}},
		// $'…'
		{`$''`, []commands.Word{quoted("")}},
		{`$'a b'c`, []commands.Word{quoted("a b"), plain("c")}},
		{`a$'b'`, []commands.Word{plain("a$'b'")}},
		{`$ $x $"y"`, []commands.Word{plain("$"), plain("$x"), plain(`$"y"`)}},
		{`$'\n\t\r\a\b\e\f\v\\\'\"\?'`, []commands.Word{quoted("\n\t\r\a\b\x1b\f\v\\'\"?")}},
		{`$'\x41\x4g\xff0'`, []commands.Word{quoted("A\x04g\xff0")}},
		{`$'\0\101\7a\3770'`, []commands.Word{quoted("\x00A\aa\xff0")}},
		{`$'\u41\u00e9\u20AC1\U1F600 \U0001f6000'`, []commands.Word{quoted("Aé€1😀 😀0")}},
		{`$'"'"'"`, []commands.Word{quoted(`"`), quoted(`'`)}},
	} {
		got, err := Split(tc.line)
		if diff := cmp.Diff(tc.want, got); err != nil || diff != "" {
			t.Errorf("Split(%q): %v\n%s", tc.line, err, diff)
		}
	}
}

func TestSplitErrors(t *testing.T) {
	for line, want := range map[string]string{
		`set "abc def`:           `unclosed " at column 5; close it, or write the word as $'…'`,
		`  'abc`:                 `unclosed ' at column 3; close it, or write the word as $'…'`,
		`"`:                      `unclosed " at column 1; close it, or write the word as $'…'`,
		`"""`:                    `unclosed " at column 3; close it, or write the word as $'…'`,
		`create /j "esc\"q" 'x`:  `unclosed ' at column 20; close it, or write the word as $'…'`,
		`é€ "x`:                  `unclosed " at column 4; close it, or write the word as $'…'`,
		`set /a $'abc`:           `unclosed $' at column 8; close it with '`,
		`$'abc\'`:                `unclosed $' at column 1; close it with '`,
		`$'abc\`:                 `unclosed $' at column 1; close it with '`,
		`set $'ab\q'`:            `unknown escape \q at column 9`,
		`$'\8'`:                  `unknown escape \8 at column 3`,
		"$'\\\x1b[31m'":          `unknown escape \\x1b at column 3`,
		`$'\xg'`:                 `escape \x without hex digits at column 3`,
		`$'\u'`:                  `escape \u without hex digits at column 3`,
		`$'é\U'`:                 `escape \U without hex digits at column 4`,
		`$'\ud800'`:              `escape \ud800 is not a character at column 3`,
		`$'\U110000'`:            `escape \U110000 is not a character at column 3`,
		`$'\UFFFFFFFF'`:          `escape \UFFFFFFFF is not a character at column 3`,
		`$'\400'`:                `escape \400 is above \377 at column 3`,
		`ls / $'fine' "not fine`: `unclosed " at column 14; close it, or write the word as $'…'`,
	} {
		words, err := Split(line)
		if err == nil || err.Error() != want || words != nil {
			t.Errorf("Split(%q) = %v, %v; want the error %s", line, words, err, want)
		}
	}
}

func TestOpenQuote(t *testing.T) {
	for _, tc := range []struct{ before, line, want string }{
		{"", "", ""},
		{"", "ls /", ""},
		{"", `set /a "b`, `"`},
		{"", `set /a 'b "`, `'`},
		{"", `set /a $'b\'`, `$'`},
		{"", `set /a $'b\`, `$'`}, // the line break is escaped
		{"", `set /a don't`, ""},
		{"", `set /a {"k":"v`, ""},
		{"", `"a"'b`, `'`},
		{"", `# don't, "never`, ""},
		{"", `  # 'x`, ""},
		{`"`, ``, `"`},
		{`"`, `# it's`, `"`},
		{`"`, `x" 'y`, `'`},
		{`"`, `x" y`, ""},
		{`'`, `"`, `'`},
		{`$'`, `\'`, `$'`},
		{`$'`, `\\'`, ""},
	} {
		if got := OpenQuote(tc.before, tc.line); got != tc.want {
			t.Errorf("OpenQuote(%q, %q) = %q, want %q", tc.before, tc.line, got, tc.want)
		}
	}
}

func TestOnOneLine(t *testing.T) {
	for line, want := range map[string]string{
		"ls /":                            "ls /",
		"set  /a\t\"b\nc\" d":             "set  /a\t$'b\\nc' d",
		"set /a 'it\n\"is\"' \"b\" $'c'":  `set /a $'it\n"is"' "b" $'c'`,
		"set /a $'\\x41\nb\\\\\nc' don't": `set /a $'\x41\nb\\\nc' don't`,
		"set /a $'b\\\nc'":                `set /a $'b\ c'`, // both escapes are unknown
		"set /a \"中\n\x1b[2J\"\"x\"":      `set /a $'中\n\x1b[2J'"x"`,
	} {
		if got := OnOneLine(line); got != want {
			t.Errorf("OnOneLine(%q) = %q, want %q", line, got, want)
		}
	}
}

// A line continues exactly as long as a quote is open. OnOneLine keeps its words, or its error.
func TestLinesOfOneLine(t *testing.T) {
	piece := rapid.SampledFrom([]string{`"`, `'`, `$'`, `\`, "a", " ", "\t", "中", "\xff", "n", "#", "\n", "\n", "x41"})
	rapid.Check(t, func(t *rapid.T) {
		line := strings.Join(rapid.SliceOf(piece).Draw(t, "pieces"), "")
		open, whole := "", ""
		for i, part := range strings.Split(line, "\n") {
			if i > 0 {
				if open == "" {
					break
				}
				whole += "\n"
			}
			whole += part
			open = OpenQuote(open, part)
		}
		if BlankOrComment(whole) {
			return
		}
		words, err := Split(whole)
		unclosed := err != nil && strings.Contains(err.Error(), "unclosed")
		if unclosed && open == "" || open != "" && err == nil {
			t.Fatalf("%q: open is %q, split says %v", whole, open, err)
		}
		if open != "" {
			return
		}
		one := OnOneLine(whole)
		got, oneErr := Split(one)
		if strings.Contains(one, "\n") || (err == nil) != (oneErr == nil) || cmp.Diff(words, got) != "" {
			t.Fatalf("%q became %q: %v, %v; %v, %v", whole, one, words, err, got, oneErr)
		}
	})
}

func TestQuote(t *testing.T) {
	for word, want := range map[string]string{
		"/a":           "/a",
		`a"b'c`:        `a"b'c`,
		"$HOME":        "$HOME",
		"naïve":        "naïve",
		"":             `""`,
		"-s":           `"-s"`,
		"-":            `"-"`,
		"a b":          `"a b"`,
		"'a":           `"'a"`,
		"$'a":          `"$'a"`,
		`"a"`:          `'"a"'`,
		`"it's"`:       `$'"it\'s"'`,
		`C:\ "it's"`:   `$'C:\\ "it\'s"'`,
		"a\nb\r\tc":    `$'a\nb\r\tc'`,
		"\x00\x1b[31m": `$'\x00\x1b[31m'`,
		"\xffé":        `$'\xffé'`,
		"\u00a0\ufffd": "$'\\u00a0\ufffd'",
		"\U000e0041":   `$'\U000e0041'`,
		"a\u200bb":     `$'a\u200bb'`,
		"a\u3164b":     `$'a\u3164b'`,
	} {
		if got := commands.Quote(word); got != want {
			t.Errorf("commands.Quote(%q) = %s; want %s", word, got, want)
		}
	}
}

// randomWord generates byte strings. Bytes that have a meaning for Split are frequent in them.
func randomWord() *rapid.Generator[string] {
	b := rapid.OneOf(rapid.Byte(), rapid.SampledFrom([]byte(" \t\n\v\f\r\"'\\$-axu01\x00\x1b\x85\xc2\xe2\xff")))
	return rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(b), func(b []byte) string { return string(b) }))
}

func TestQuoteRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { checkRoundTrip(t, rapid.SliceOf(randomWord()).Draw(t, "words")) })
}

// checkRoundTrip checks that words quoted with commands.Quote form one printable line, which Split
// splits into the same words.
func checkRoundTrip(t rapid.TB, words []string) {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = commands.Quote(word)
		if !commands.Printable(quoted[i]) {
			t.Fatalf("commands.Quote(%q) = %q does not print", word, quoted[i])
		}
	}
	got, err := Split(strings.Join(quoted, " "))
	if err != nil || len(got) != len(words) {
		t.Fatalf("%q as %q: split into %v, %v", words, quoted, got, err)
	}
	for i, word := range words {
		if got[i].Text != word {
			t.Fatalf("%q as %s came back as %q", word, quoted[i], got[i].Text)
		}
		if !got[i].Quoted && (word == "" || word[0] == '-') {
			t.Fatalf("%q as %s could be taken for a flag", word, quoted[i])
		}
	}
}

// zkCliWord is the pattern of zkCli for a word. Java's \s is written out, because Go's \s does not
// include \v.
var zkCliWord = regexp.MustCompile(`[ \t\n\v\f\r]*([^"'][^ \t\n\v\f\r]*|"[^"]*"|'[^']*')[ \t\n\v\f\r]*`)

func FuzzSplit(f *testing.F) {
	for _, line := range []string{
		`create /f a"b c"d`, `create /j "esc\"q"`, `"abc"def ''`, "  ls\t/c ", `"""`,
		`set /a $'\x41\u00e9\n'b`, `$'\ud800`, "\xff \"\xfe\"",
	} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		words, err := Split(line)
		if err != nil {
			if !strings.Contains(err.Error(), " at column ") || words != nil {
				t.Fatalf("Split(%q) = %v, %v", line, words, err)
			}
			return
		}
		texts := make([]string, len(words))
		for i, word := range words {
			texts[i] = word.Text
		}
		checkRoundTrip(t, texts)
		if strings.Contains(line, "$'") {
			return
		}
		// A line without $'…' has the same words in zkCli.
		var want []commands.Word
		for _, m := range zkCliWord.FindAllStringSubmatch(strings.TrimLeft(line, commands.Blanks), -1) {
			if word := m[1]; word[0] == '"' || word[0] == '\'' {
				want = append(want, quoted(word[1:len(word)-1]))
			} else {
				want = append(want, plain(word))
			}
		}
		if diff := cmp.Diff(want, words); diff != "" {
			t.Fatalf("Split(%q) against zkCli:\n%s", line, diff)
		}
	})
}

func TestCutRedirection(t *testing.T) {
	for line, want := range map[string][3]string{
		"ls / | grep 'a b' > c":    {"ls / ", "|", " grep 'a b' > c"},
		"get /a > f":               {"get /a ", ">", " f"},
		"get /a\t>>\tf":            {"get /a\t", ">>", "\tf"},
		`set /a "|" | cat`:         {`set /a "|" `, "|", " cat"},
		`set /a $'x\'| y' > f`:     {`set /a $'x\'| y' `, ">", " f"},
		"| cat":                    {"", "|", " cat"},
		"get /a |":                 {"get /a ", "|", ""},
		`ls / | awk "{print \"x`:   {"ls / ", "|", ` awk "{print \"x`},
		`set /a '|'`:               {`set /a '|'`, "", ""},
		`set /a "x"| y`:            {`set /a "x"| y`, "", ""},
		"ls /a |grep x":            {"ls /a |grep x", "", ""},
		"set /a a|b":               {"set /a a|b", "", ""},
		"set /a ->":                {"set /a ->", "", ""},
		"set /a ||":                {"set /a ||", "", ""},
		`set /a "open | cat`:       {`set /a "open | cat`, "", ""},
		"set /a \u00a0|\u00a0 cat": {"set /a \u00a0|\u00a0 cat", "", ""},
	} {
		command, mark, rest := CutRedirection(line)
		if got := [3]string{command, mark, rest}; got != want {
			t.Errorf("%q is cut into %q", line, got)
		}
	}
	for _, line := range []string{`ls / | awk "{`, "ls / | it's", "get /a > 'x"} {
		if open := OpenQuote("", line); open != "" {
			t.Errorf("%q leaves %q open", line, open)
		}
	}
}
