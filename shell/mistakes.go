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

// A mistake is a use of syntax that is common in other shells but has a different meaning in zksh.
// zksh explains the mistake only if the line fails.
type mistake struct {
	text          string // explanation for the user
	replacesError bool   // whether the explanation replaces a usage error, which would be misleading
}

// mistakeIn returns the first common mistake in a line, or nil if there is none.
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
	case slices.ContainsFunc(words, hasUnspacedOperator):
		return &mistake{"put spaces around | and >", false}
	}
	return nil
}

// checkUnclosedJSON returns an error if the last word is an unquoted { or [. The user has probably
// pasted a JSON value of several lines without quotes.
func checkUnclosedJSON(words []commands.Word) error {
	last := words[len(words)-1]
	if last.Quoted || last.Text != "{" && last.Text != "[" {
		return nil
	}
	return usageErrorf("unquoted %[1]s at the end of the line; quote the whole value, "+
		"even if it is only %[1]s", last.Text)
}

// escapesQuote reports whether a word in double quotes ends in a backslash and is directly
// followed by more text, without a space. The user probably meant \" as an escaped quote.
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

// endsCommand reports whether an unquoted word contains a semicolon that was probably meant to end
// a command.
func (s *Shell) endsCommand(w commands.Word) bool {
	_, next, has := strings.Cut(w.Text, ";")
	return has && !w.Quoted && (next == "" || s.registry.Find(next) != nil)
}

// explain adds the explanation of m to err, if the mistake may have caused err. If m is nil,
// explain returns err unchanged.
func (m *mistake) explain(err error) error {
	if m == nil {
		return err
	}
	if usage, misused := errors.AsType[*commands.UsageError](err); misused {
		if m.replacesError {
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
