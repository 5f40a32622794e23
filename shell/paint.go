package shell

import (
	"strings"

	"github.com/spf13/pflag"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/shell/line"
	"github.com/zksh/zksh/shell/syntax"
)

// Limits of a line that is shown in color. A longer one was probably pasted.
const (
	maxPainted      = 8192 // bytes
	maxPaintedWords = 64
)

// paint returns the parts of a line to show in a style. It is the Paint function of the
// line.Assistant. It never sends a request to the server.
func (c *completer) paint(text string) (spans []line.Span) {
	if len(text) > maxPainted {
		return nil
	}
	var words []commands.Word
	var cmd *commands.Command // the line's command, or nil if it is unknown
	for at := 0; len(words) < maxPaintedWords; {
		rest := strings.TrimLeft(text[at:], commands.Blanks)
		at = len(text) - len(rest)
		raw := firstRawWord(rest)
		if raw == "" {
			break
		}
		w, open := decodeWord(raw)
		if syntax.IsRedirection(w) {
			break
		}
		words = append(words, w)
		style := line.Plain
		switch {
		case len(words) == 1:
			if cmd = c.registry.Find(w.Text); cmd != nil {
				style = line.KnownCommand
			} else if len(raw) < len(rest) { // the word is finished
				style = line.UnknownCommand
			}
		case open:
			style = line.OpenQuote
		case w.Quoted:
			style = line.Quoted
		case cmd != nil:
			style = c.styleOf(cmd, words[1:len(words)-1], w.Text)
		}
		if style != line.Plain {
			spans = append(spans, line.Span{From: at, To: at + len(raw), Style: style})
		}
		at += len(raw)
	}
	return spans
}

// decodeWord decodes a word as it was typed. open reports whether its quote is still open.
func decodeWord(raw string) (w commands.Word, open bool) {
	var p partial
	if !p.decode(raw) {
		return commands.Word{Text: raw}, false
	}
	_, _, closed := syntax.Token(raw)
	return commands.Word{Text: p.text, Quoted: p.quote != ""}, !closed
}

// styleOf returns the style of an unquoted argument of cmd. before contains the arguments before it.
func (c *completer) styleOf(cmd *commands.Command, before []commands.Word, text string) line.Style {
	at, flag, flagsEnded := cmd.Position(before)
	var kind commands.Kind
	switch {
	case flag != nil:
		kind = commands.FlagParam(flag).Kind
	case len(text) > 1 && text[0] == '-' && !flagsEnded:
		if isFlag(cmd.FlagSet(), text) {
			return line.Flag
		}
		return line.Plain
	case at < len(cmd.Params):
		kind = cmd.Params[at].Kind
	}
	switch kind {
	case commands.Path, commands.Folder, commands.HeldLock, commands.PlaceWord, commands.SessionID:
		if path := c.folder.resolve(text); path[0] == '/' && c.nodes.has(path) {
			return line.KnownPath
		}
	}
	return line.Plain
}

// isFlag reports whether a word is one of the flags, or begins with one.
func isFlag(flags *pflag.FlagSet, text string) bool {
	name, _, _ := strings.Cut(strings.TrimLeft(text, "-"), "=")
	switch {
	case name == "":
		return false
	case len(name) > 1 && flags.Lookup(name) != nil:
		return true
	}
	return text[1] != '-' && flags.ShorthandLookup(name[:1]) != nil
}
