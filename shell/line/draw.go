//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package line

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mattn/go-runewidth"

	"github.com/zksh/zksh/internal/render"
)

// A view describes how to draw the line that is being typed.
type view struct {
	prompt Prompt
	text   string
	cursor int // number of characters of text before the cursor
	menu   int // column in which go-prompt assumes the cursor to be

	styles     []Style // style of each character of text, or nil if all are Plain
	suggestion string  // text to show after text, which is not part of the line
	command    bool    // whether the line is a command, which terminals may mark, and not an answer
}

// A position is the place of a cell, relative to the first cell of the prompt. If the column is
// equal to the width of the terminal, the position is after the last cell of a row, and the next
// character is drawn in the next row.
type position struct{ row, column int }

// Marks of the protocol OSC 133, by which terminals find prompts, commands and their output.
// Terminals that do not know it ignore them.
const (
	markPrompt = "\x1b]133;A\a"
	markLine   = "\x1b]133;B\a"
	markOutput = "\x1b]133;C\a"
	markEnd    = "\x1b]133;D;%d\a" // with the exit status
)

// beginOutput marks the beginning of the output of a command.
func (w *promptWriter) beginOutput() {
	w.commandRan = true
	w.buffer.WriteString(markOutput)
	w.flush()
}

// draw writes the prompt and the line, starting at the cursor. It then moves the cursor to the
// place at which go-prompt begins the menu.
func (w *promptWriter) draw(v view) {
	v = w.cropToScreen(v)
	w.shown = v
	w.cursor = position{}
	marks := v.command && !w.marked
	if marks {
		w.marked = true
		w.buffer.WriteString(markPrompt)
	}
	w.writeIn(w.promptColor(v.prompt), visible(v.prompt.Text))
	if marks {
		w.buffer.WriteString(markLine)
	}
	w.writeStyled(v)
	w.setEnds(v)
	if w.cursor.column == w.width {
		w.newRow()
	}
	w.buffer.WriteString(eraseBelow)
	w.end = w.cursor
	w.target = w.cursorPosition(v)
	w.move(position{w.end.row, v.menu})
}

// writeStyled writes the text of a line and the suggestion after it, in their styles.
func (w *promptWriter) writeStyled(v view) {
	text := []rune(visible(v.text))
	for i := 0; i < len(text); {
		style, from := v.styleAt(i), i
		for i < len(text) && v.styleAt(i) == style {
			i++
		}
		w.writeIn(w.styleColor(style), string(text[from:i]))
	}
	w.writeIn(w.styleColor(suggestion), visible(v.suggestion))
}

// writeIn writes text at the cursor in a color, which is a control sequence or empty. If a wide
// character does not fit at the end of a row, writeIn erases the cell that the terminal skips, where
// a character of the previous drawing may be.
func (w *promptWriter) writeIn(color, text string) {
	if text == "" {
		return
	}
	w.buffer.WriteString(color)
	for _, r := range text {
		if w.cursor.column < w.width && w.cursor.column+runewidth.RuneWidth(r) > w.width {
			w.buffer.WriteString(eraseRight)
		}
		w.buffer.WriteRune(r)
		w.cursor = w.advance(w.cursor, string(r))
	}
	if color != "" {
		w.buffer.WriteString(noColor)
	}
}

// styleColor returns the control sequence that begins a style, or an empty string.
func (w *promptWriter) styleColor(style Style) string {
	if w.color == nil {
		return ""
	}
	return w.color[style]
}

func (v view) styleAt(i int) Style {
	if i < len(v.styles) {
		return v.styles[i]
	}
	return Plain
}

// setEnds computes the positions at which a line ends.
func (w *promptWriter) setEnds(v view) {
	w.textEnd = w.endOf(v)
	w.end = w.advance(w.textEnd, visible(v.suggestion))
	if w.textEnd.column == w.width {
		w.textEnd = position{w.textEnd.row + 1, 0}
	}
}

// fits reports whether a line with its suggestion needs at most half of the screen.
func (w *promptWriter) fits(v view) bool {
	return w.advance(w.endOf(v), visible(v.suggestion)).row < max(1, w.rows/2)
}

// colored returns the text of a prompt in its color.
func (w *promptWriter) colored(p Prompt) string {
	text := visible(p.Text)
	if color := w.promptColor(p); color != "" {
		return color + text + noColor
	}
	return text
}

// promptColor returns the control sequence that begins the color of a prompt, or an empty string.
func (w *promptWriter) promptColor(p Prompt) string {
	i := slices.Index(Colors, p.Color)
	switch {
	case w.color == nil:
		return ""
	case p.Alert:
		return alertColor
	case i >= 0: // the order of Colors is that of the SGR codes
		return fmt.Sprintf("\x1b[%dm", 30+i)
	}
	return ""
}

// endOf returns the position after the last character of a line, without its suggestion.
func (w *promptWriter) endOf(v view) position {
	return w.advance(w.advance(position{}, visible(v.prompt.Text)), visible(v.text))
}

// cropToScreen returns the part of the line around the cursor if the line is longer than the
// screen. Rows that have scrolled out at the top could not be redrawn.
func (w *promptWriter) cropToScreen(v view) view {
	text := []rune(v.text)
	room := w.width*(w.rows-2) - runewidth.StringWidth(v.prompt.Text)
	keep := max(room/2, 1) // a character may occupy two cells
	if runewidth.StringWidth(v.text) <= room || len(text) <= keep {
		return v
	}
	from := max(0, min(v.cursor-keep/2, len(text)-keep))
	part, styles := text[from:from+keep], v.styles[min(from, len(v.styles)):]
	v.cursor -= from
	if from+keep < len(text) {
		part, styles = append(part[:keep:keep], '…'), styles[:min(keep, len(styles))]
	}
	if from > 0 {
		part, styles = append([]rune{'…'}, part...), append([]Style{Plain}, styles...)
		v.cursor++
	}
	v.text, v.styles, v.suggestion = string(part), styles, ""
	return v
}

// cursorPosition returns the position of the cursor in a line.
func (w *promptWriter) cursorPosition(v view) position {
	v.text = string([]rune(v.text)[:v.cursor])
	to := w.endOf(v)
	if to.column == w.width {
		return position{to.row + 1, 0}
	}
	return to
}

// advance returns the position of the cursor after s has been written at the position start.
func (w *promptWriter) advance(start position, s string) (end position) {
	end = start
	for _, r := range s {
		n := runewidth.RuneWidth(r)
		if end.column+n > w.width {
			end = position{end.row + 1, 0}
		}
		end.column += n
	}
	return end
}

// visible replaces control characters and invisible characters in s, so that the line has the width
// on the terminal that zksh computes. It keeps zero-width joiners, so that joined emoji appear as
// one.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case r != zeroWidthJoiner && render.Hidden(r):
			return '?'
		}
		return r
	}, s)
}

const zeroWidthJoiner = '\u200d'
