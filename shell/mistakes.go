package shell

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/shell/syntax"
)

// A mistake is a habit of other shells that means something else here. zksh names it only
// if the line fails.
type mistake struct {
	text  string
	whole bool // it takes the place of the usage error, which would mislead
}

// mistakeIn looks for the mistakes that people make most often; nil: there is none.
func (s *Shell) mistakeIn(line string, words []commands.Word) *mistake {
	if !strings.ContainsAny(line, `\;|>`) {
		return nil
	}
	switch {
	case escapesQuote(line):
		return &mistake{`\" does not escape a quote here: write the value in single quotes, as in '{"id": 1}', or as $'…'`, true}
	case slices.ContainsFunc(words[1:], s.endsCommand):
		own := "on its own line"
		if s.policy.mode() == commands.Batch {
			own += ", or in its own -c option"
		}
		return &mistake{"; does not separate commands here: write each command " + own, true}
	case slices.ContainsFunc(words, clings):
		return &mistake{"put spaces around | and >", false}
	}
	return nil
}

// unfinished is an error if the last word only opens a JSON value: somebody has pasted one of
// several lines without quotes.
func unfinished(words []commands.Word) error {
	last := words[len(words)-1]
	if last.Quoted || last.Text != "{" && last.Text != "[" {
		return nil
	}
	return wrongOutlet("unquoted %[1]s at the end of the line; quote the whole value, even if it is only %[1]s", last.Text)
}

// escapesQuote reports whether a word in double quotes ends in a backslash, and text
// follows it without a space.
func escapesQuote(line string) bool {
	if !strings.Contains(line, `\"`) {
		return false
	}
	for rest := strings.TrimLeft(line, commands.Blanks); rest != ""; rest = strings.TrimLeft(rest, commands.Blanks) {
		quote, n, _ := syntax.Token(rest)
		word := rest[:n]
		rest = rest[n:]
		if quote == `"` && strings.HasSuffix(word, `\"`) && rest != "" && !strings.ContainsRune(commands.Blanks, rune(rest[0])) {
			return true
		}
	}
	return false
}

// endsCommand reports whether a word has a semicolon that may have been meant to end a
// command.
func (s *Shell) endsCommand(w commands.Word) bool {
	_, next, has := strings.Cut(w.Text, ";")
	return has && !w.Quoted && (next == "" || s.registry.Find(next) != nil)
}

// explain adds the mistake to an error that it may have caused. It may be nil.
func (m *mistake) explain(err error) error {
	if m == nil {
		return err
	}
	if usage, misused := errors.AsType[*commands.UsageError](err); misused {
		if m.whole {
			usage.Problem = m.text
		} else {
			usage.Problem += "; " + m.text
		}
		return err
	}
	if errors.Is(err, zkconn.NoNode) {
		return fmt.Errorf("%w (%s)", err, m.text)
	}
	return err
}
