//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package line

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	prompt "github.com/c-bata/go-prompt"
	"github.com/mattn/go-runewidth"
)

// A promptWriter receives the output of go-prompt. It draws the prompt and the line itself, and
// passes only go-prompt's menu on to the terminal. go-prompt computes wrong positions for the line
// if a wide character does not fit at the end of a row, if the size of the window changes, and if
// something is printed above the line.
type promptWriter struct {
	prompt.VT100Writer // collects output that is not passed on to the terminal

	to    io.Writer
	size  func() (columns, rows int)       // returns the size of the terminal
	frame func() (messages string, v view) // returns the messages and the line to draw next
	color palette

	buffer        bytes.Buffer // output that has not yet been written to the terminal
	width         int          // number of columns of the terminal
	rows          int          // number of rows of the terminal
	shown         view         // view that was drawn last
	cursor        position     // current position of the cursor
	textEnd       position     // position at which the text of the line ends
	end           position     // position at which the drawn line ends, including the suggestion
	target        position     // position to which the cursor moves after drawing
	columnUnknown bool         // whether other output may have moved the cursor out of the first column
	marked        bool         // whether the terminal knows where the prompt begins
	commandRan    bool         // whether a command has begun since the last prompt
	stage         stage
	err           error // error of the last write
}

// A stage is a phase of a drawing: go-prompt draws the line, then the menu, and then a preview of
// the selected entry.
type stage int

const (
	notDrawing  stage = iota
	lineDrawn         // go-prompt draws the line; this output is not passed on to the terminal
	menuDrawing       // go-prompt draws the menu; this output is passed on to the terminal
	// go-prompt draws the line with the selected entry; this output is not passed on to the
	// terminal
	previewDrawing
)

// previewColor is the color in which go-prompt draws a preview after the menu. By this color,
// promptWriter distinguishes the preview from the menu.
const previewColor = prompt.Fuchsia

// Control sequences of the terminal.
const (
	hideCursor = "\x1b[?25l"
	showCursor = "\x1b[?25h"
	eraseBelow = "\x1b[J"
	eraseRight = "\x1b[K"
	eraseAll   = "\x1b[H\x1b[2J"
	alertColor = "\x1b[31m"
	reversed   = "\x1b[0;7m"
	noColor    = "\x1b[0m"
)

// HideCursor begins to draw the line. go-prompt calls it at the beginning of each drawing.
func (w *promptWriter) HideCursor() {
	w.stage = lineDrawn
	messages, v := w.frame()
	w.updateSize()
	w.buffer.WriteString(hideCursor)
	w.writeMessages(messages, v)
	w.draw(v)
}

// noNewline is the mark that shows that output did not end with a newline.
const noNewline = reversed + "%" + noColor

// newLine makes sure that the prompt begins in the first column. If other output may have left the
// cursor in the middle of a row, it prints noNewline, followed by spaces up to the full width of a
// row. It does not know the column of the cursor. If the cursor was in the first column, the mark
// and the spaces fill that row, and the prompt then overwrites the mark. Otherwise, the spaces wrap
// into the next row, and the mark remains visible.
func (w *promptWriter) newLine() {
	if w.columnUnknown && w.width > 1 {
		w.buffer.WriteString(noNewline + strings.Repeat(" ", w.width-1) + "\r")
	}
	w.columnUnknown = false
}

// writeMessages writes messages in place of the line. The line is then drawn below them.
func (w *promptWriter) writeMessages(messages string, v view) {
	if w.commandRan && v.command {
		fmt.Fprintf(&w.buffer, markEnd, v.prompt.Status)
		w.commandRan = false
	}
	w.newLine()
	w.moveHome()
	if messages != "" {
		w.marked = false
		w.buffer.WriteString(eraseBelow + messages)
	}
}

// ScrollDown moves the cursor down a row, and scrolls at the end of the window. go-prompt begins
// the menu with ScrollDown, to make room below the line.
func (w *promptWriter) ScrollDown() {
	if w.stage == lineDrawn {
		w.stage = menuDrawing
	}
	if w.stage == menuDrawing {
		w.buffer.WriteString("\x1bD")
		w.cursor.row++
	}
}

// ScrollUp moves the cursor up a row. go-prompt calls it after it has made room for the menu.
func (w *promptWriter) ScrollUp() {
	if w.stage == menuDrawing {
		w.buffer.WriteString("\x1bM")
		w.cursor.row--
	}
}

// ShowCursor moves the cursor to its position in the line, and writes everything that was drawn.
// go-prompt calls it at the end of each drawing.
func (w *promptWriter) ShowCursor() {
	if w.stage == notDrawing {
		return
	}
	w.move(w.target)
	w.buffer.WriteString(showCursor)
	w.stage = notDrawing
	w.flush()
}

// Background colors of the selected menu entry.
const (
	selectedColor      = prompt.Turquoise // background of the selected proposal
	selectedAboutColor = prompt.Cyan      // background of its description
)

// SetColor sets the colors in which the menu is drawn. If colors are off, it shows the selected
// entry in reverse video.
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
	case w.color != nil:
		fmt.Fprintf(&w.buffer, "\x1b[%d;%d;%dm", attribute, colorCode(fg), colorCode(bg)+10)
	case bg == selectedColor || bg == selectedAboutColor:
		w.buffer.WriteString(reversed)
	default:
		w.buffer.WriteString(noColor)
	}
}

// colorCode returns the SGR code of a foreground color.
func colorCode(c prompt.Color) int {
	switch {
	case c == prompt.DefaultColor:
		return 39
	case c < prompt.DarkGray:
		return 30 + int(c-prompt.Black)
	}
	return 90 + int(c-prompt.DarkGray)
}

// WriteStr writes text of the menu, and drops go-prompt's other text.
func (w *promptWriter) WriteStr(s string) {
	if w.stage == menuDrawing {
		s = visible(s)
		w.buffer.WriteString(s)
		w.cursor.column += runewidth.StringWidth(s)
	}
}

// WriteRaw moves the cursor to the next row of the menu if data is a newline, which go-prompt
// writes when an entry has filled its row. It ignores all other data.
func (w *promptWriter) WriteRaw(data []byte) {
	if w.stage == menuDrawing && string(data) == "\n" {
		w.newRow()
	}
}

// CursorUp, CursorDown, CursorForward and CursorBackward move the cursor in the menu by n rows or
// columns.
func (w *promptWriter) CursorUp(n int)       { w.moveInMenu(-n, 0) }
func (w *promptWriter) CursorDown(n int)     { w.moveInMenu(n, 0) }
func (w *promptWriter) CursorForward(n int)  { w.moveInMenu(0, n) }
func (w *promptWriter) CursorBackward(n int) { w.moveInMenu(0, -n) }

func (w *promptWriter) moveInMenu(rows, columns int) {
	if w.stage == menuDrawing {
		w.move(position{w.cursor.row + rows, w.cursor.column + columns})
	}
}

// move moves the cursor to a cell of the line or the menu.
func (w *promptWriter) move(to position) {
	if n := to.row - w.cursor.row; n > 0 {
		fmt.Fprintf(&w.buffer, "\x1b[%dB", n)
	} else if n < 0 {
		fmt.Fprintf(&w.buffer, "\x1b[%dA", -n)
	}
	w.buffer.WriteByte('\r')
	if to.column > 0 {
		fmt.Fprintf(&w.buffer, "\x1b[%dC", to.column)
	}
	w.cursor = to
}

// moveHome moves the cursor to the first cell of the prompt.
func (w *promptWriter) moveHome() { w.move(position{}) }

func (w *promptWriter) newRow() {
	w.buffer.WriteString("\r\n")
	w.cursor = position{w.cursor.row + 1, 0}
}

// endLine leaves the finished line on the screen without its suggestion, and moves the cursor to the
// row below it.
func (w *promptWriter) endLine() {
	w.updateSize()
	w.move(w.textEnd)
	w.buffer.WriteString(eraseBelow + "\r\n")
	w.resetPositions()
	w.flush()
}

// updateSize updates the recorded size of the terminal. If the width has changed, the terminal has
// wrapped the line differently, so updateSize also computes the new positions.
func (w *promptWriter) updateSize() {
	columns, rows := w.size()
	w.rows = rows
	if columns != w.width {
		w.width = columns
		w.cursor = w.cursorPosition(w.shown)
		w.setEnds(w.shown)
	}
}

// resized erases the line, so that it can be drawn again in the new width.
func (w *promptWriter) resized() {
	w.updateSize()
	w.moveHome()
	w.buffer.WriteString(eraseBelow)
	w.resetPositions()
	w.flush()
}

// clear clears the screen.
func (w *promptWriter) clear() {
	w.buffer.WriteString(eraseAll)
	w.resetPositions()
}

// resetPositions records that the cursor is at the beginning of the next prompt.
func (w *promptWriter) resetPositions() {
	w.cursor, w.textEnd, w.end, w.target = position{}, position{}, position{}, position{}
	w.shown, w.marked = view{}, false
}

func (w *promptWriter) flush() {
	_, w.err = w.to.Write(w.buffer.Bytes())
	w.buffer.Reset()
}

// Flush drops the output that is not passed on to the terminal, and returns the error of the last
// write. It does not write the drawing, because ShowCursor has already written it.
func (w *promptWriter) Flush() error {
	w.VT100Writer = prompt.VT100Writer{}
	return w.err
}
