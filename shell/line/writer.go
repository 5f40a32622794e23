//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package line

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	prompt "github.com/c-bata/go-prompt"
	"github.com/mattn/go-runewidth"

	"github.com/zksh/zksh/internal/render"
)

// view is what the line being typed looks like.
type view struct {
	prompt Prompt
	text   string
	cursor int // in characters of text
	menu   int // the column go-prompt takes the cursor to be in
}

// place is a cell, counted from the first cell of the prompt. A column equal to
// the width is behind the last cell of a row: the next character begins another.
type place struct{ row, column int }

// promptWriter draws the prompt and the line itself, and of go-prompt's drawing
// lets nothing through but the menu. So the line is right where go-prompt's
// arithmetic is not: when a wide character does not fit at the end of a row, when
// the window changes, and when something is printed above the line.
type promptWriter struct {
	prompt.VT100Writer // takes what is not passed on

	to    io.Writer
	size  func() (columns, rows int)       // of the terminal
	frame func() (messages string, v view) // what to draw next
	color bool

	b      bytes.Buffer
	width  int   // of the terminal
	rows   int   // of the terminal
	shown  view  // what was drawn last
	at     place // of the cursor
	end    place // of the text
	target place // of the cursor when all is drawn
	unsure bool  // output may have left the cursor behind the beginning of its row
	stage  stage
	err    error // of the last write
}

// stage is how far one drawing of the line has come.
type stage int

const (
	notDrawing     stage = iota
	lineDrawn            // go-prompt draws the line: not passed on
	menuDrawing          // passed on
	previewDrawing       // go-prompt draws the line with what is selected: not passed on
)

// previewColor marks what go-prompt draws after the menu.
const previewColor = prompt.Fuchsia

// The sequences of a terminal that are needed.
const (
	hideCursor = "\x1b[?25l"
	showCursor = "\x1b[?25h"
	eraseBelow = "\x1b[J"
	eraseAll   = "\x1b[H\x1b[2J"
	alertColor = "\x1b[31m"
	reversed   = "\x1b[0;7m"
	noColor    = "\x1b[0m"
)

// HideCursor begins a drawing.
func (w *promptWriter) HideCursor() {
	w.stage = lineDrawn
	messages, v := w.frame()
	w.lookAtSize()
	w.b.WriteString(hideCursor)
	w.above(messages)
	w.draw(v)
}

// noNewline marks output that has no newline at its end.
const noNewline = reversed + "%" + noColor

// newLine goes to the next row if output has left the cursor in the middle of one, and
// marks that. Nobody can say where the cursor is, so a mark and blanks fill as many cells as a
// row has: they end at the end of this row, where the prompt will cover the mark, or wrap.
func (w *promptWriter) newLine() {
	if w.unsure && w.width > 1 {
		w.b.WriteString(noNewline + strings.Repeat(" ", w.width-1) + "\r")
	}
	w.unsure = false
}

// above writes messages where the line begins, which is drawn below them.
func (w *promptWriter) above(messages string) {
	w.newLine()
	w.home()
	if messages != "" {
		w.b.WriteString(eraseBelow + messages)
	}
}

// ScrollDown begins the menu, which makes room for itself below the line.
func (w *promptWriter) ScrollDown() {
	if w.stage == lineDrawn {
		w.stage = menuDrawing
	}
	if w.stage == menuDrawing {
		w.b.WriteString("\x1bD")
		w.at.row++
	}
}

// ScrollUp comes back from making room.
func (w *promptWriter) ScrollUp() {
	if w.stage == menuDrawing {
		w.b.WriteString("\x1bM")
		w.at.row--
	}
}

// ShowCursor ends a drawing.
func (w *promptWriter) ShowCursor() {
	if w.stage == notDrawing {
		return
	}
	w.move(w.target)
	w.b.WriteString(showCursor)
	w.stage = notDrawing
	w.flush()
}

// The colours of the menu that must tell something from the rest of it.
const (
	selectedColor      = prompt.Turquoise // what is selected
	selectedAboutColor = prompt.Cyan      // what that is about
)

// SetColor colours the menu, or where there shall be no colour reverses what must
// be told from the rest.
func (w *promptWriter) SetColor(fg, bg prompt.Color, bold bool) {
	if fg == previewColor {
		w.stage = previewDrawing
	}
	if w.stage != menuDrawing {
		return
	}
	attribute := 0
	if bold {
		attribute = 1
	}
	switch {
	case w.color:
		fmt.Fprintf(&w.b, "\x1b[%d;%d;%dm", attribute, colorCode(fg), colorCode(bg)+10)
	case bg == selectedColor || bg == selectedAboutColor:
		w.b.WriteString(reversed)
	default:
		w.b.WriteString(noColor)
	}
}

// colorCode is the number of a foreground colour.
func colorCode(c prompt.Color) int {
	switch {
	case c == prompt.DefaultColor:
		return 39
	case c < prompt.DarkGray:
		return 30 + int(c-prompt.Black)
	}
	return 90 + int(c-prompt.DarkGray)
}

// WriteStr writes in the menu.
func (w *promptWriter) WriteStr(s string) {
	if w.stage == menuDrawing {
		s = visible(s)
		w.b.WriteString(s)
		w.at.column += runewidth.StringWidth(s)
	}
}

// WriteRaw is how go-prompt goes on to the next row of the menu when one has
// filled its row.
func (w *promptWriter) WriteRaw(data []byte) {
	if w.stage == menuDrawing && string(data) == "\n" {
		w.newRow()
	}
}

// These move in the menu.
func (w *promptWriter) CursorUp(n int)       { w.inMenu(-n, 0) }
func (w *promptWriter) CursorDown(n int)     { w.inMenu(n, 0) }
func (w *promptWriter) CursorForward(n int)  { w.inMenu(0, n) }
func (w *promptWriter) CursorBackward(n int) { w.inMenu(0, -n) }

func (w *promptWriter) inMenu(rows, columns int) {
	if w.stage == menuDrawing {
		w.move(place{w.at.row + rows, w.at.column + columns})
	}
}

// move goes to a cell of the line or the menu.
func (w *promptWriter) move(to place) {
	if n := to.row - w.at.row; n > 0 {
		fmt.Fprintf(&w.b, "\x1b[%dB", n)
	} else if n < 0 {
		fmt.Fprintf(&w.b, "\x1b[%dA", -n)
	}
	w.b.WriteByte('\r')
	if to.column > 0 {
		fmt.Fprintf(&w.b, "\x1b[%dC", to.column)
	}
	w.at = to
}

// home goes to the first cell of the prompt.
func (w *promptWriter) home() { w.move(place{}) }

func (w *promptWriter) newRow() {
	w.b.WriteString("\r\n")
	w.at = place{w.at.row + 1, 0}
}

// draw writes the line from its first cell on and goes to where the menu begins.
func (w *promptWriter) draw(v view) {
	v = w.cut(v)
	w.shown = v
	w.b.WriteString(w.dressed(v.prompt) + visible(v.text))
	w.at = w.behind(v)
	if w.at.column == w.width {
		w.newRow()
	}
	w.b.WriteString(eraseBelow)
	w.end = w.at
	w.target = w.cursorPlace(v)
	w.move(place{w.end.row, v.menu})
}

// dressed is a prompt as it is shown.
func (w *promptWriter) dressed(p Prompt) string {
	text := visible(p.Text)
	if !w.color {
		return text
	}
	if p.Alert {
		return alertColor + text + noColor
	}
	if i := slices.Index(Colors, p.Color); i >= 0 { // they stand in the terminal's order
		return fmt.Sprintf("\x1b[%dm%s%s", 30+i, text, noColor)
	}
	return text
}

// behind is the cell behind the last one of a line.
func (w *promptWriter) behind(v view) place {
	return w.follow(w.follow(place{}, visible(v.prompt.Text)), visible(v.text))
}

// cut leaves of a text that is longer than the screen the part around the cursor:
// what has gone past the top cannot be drawn anew.
func (w *promptWriter) cut(v view) view {
	text := []rune(v.text)
	room := w.width*(w.rows-2) - runewidth.StringWidth(v.prompt.Text)
	keep := max(room/2, 1) // a character may take two cells
	if runewidth.StringWidth(v.text) <= room || len(text) <= keep {
		return v
	}
	from := max(0, min(v.cursor-keep/2, len(text)-keep))
	part := text[from : from+keep]
	v.cursor -= from
	if from+keep < len(text) {
		part = append(part[:keep:keep], '…')
	}
	if from > 0 {
		part = append([]rune{'…'}, part...)
		v.cursor++
	}
	v.text = string(part)
	return v
}

// cursorPlace is the cell the cursor belongs into.
func (w *promptWriter) cursorPlace(v view) place {
	v.text = string([]rune(v.text)[:v.cursor])
	to := w.behind(v)
	if to.column == w.width {
		return place{to.row + 1, 0}
	}
	return to
}

// follow says where the cursor is after s was written at a place.
func (w *promptWriter) follow(at place, s string) place {
	for _, r := range s {
		n := runewidth.RuneWidth(r)
		if at.column+n > w.width {
			at = place{at.row + 1, 0}
		}
		at.column += n
	}
	return at
}

// visible replaces what could drive the terminal or hide on it, character by
// character: the line is as wide as it looks. Joined pictures are left to it.
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

// endLine leaves the line as it is and goes to the row below it.
func (w *promptWriter) endLine() {
	w.lookAtSize()
	w.move(w.end)
	w.b.WriteString(eraseBelow + "\r\n")
	w.fresh()
	w.flush()
}

// lookAtSize takes note of another width. A terminal fills its rows anew then, so
// the cursor is somewhere else now.
func (w *promptWriter) lookAtSize() {
	columns, rows := w.size()
	w.rows = rows
	if columns != w.width {
		w.width = columns
		w.at = w.cursorPlace(w.shown)
		w.end = w.behind(w.shown)
	}
}

// resized takes the line away, to be drawn in another width.
func (w *promptWriter) resized() {
	w.lookAtSize()
	w.home()
	w.b.WriteString(eraseBelow)
	w.fresh()
	w.flush()
}

// clear empties the screen.
func (w *promptWriter) clear() {
	w.b.WriteString(eraseAll)
	w.fresh()
}

// fresh says that the cursor is where the prompt shall begin.
func (w *promptWriter) fresh() {
	w.at, w.end, w.target = place{}, place{}, place{}
	w.shown = view{}
}

func (w *promptWriter) flush() {
	_, w.err = w.to.Write(w.b.Bytes())
	w.b.Reset()
}

// Flush drops what is not passed on, and says how the last drawing went; each is
// written in one piece.
func (w *promptWriter) Flush() error {
	w.VT100Writer = prompt.VT100Writer{}
	return w.err
}
