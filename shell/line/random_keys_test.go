//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package line

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"

	prompt "github.com/c-bata/go-prompt"
	"github.com/creack/pty"

	"github.com/zksh/zksh/history"
	"github.com/zksh/zksh/internal/zktest"
)

var (
	randomKeys = flag.Int("keys", 600, "number of random keys that TestRandomKeys types")
	randomSeed = flag.Uint64("seed", 0, "seed of TestRandomKeys; 0 means a random one")
)

// A drawn is a step of an editor, which the editor reports to the test.
type drawn struct {
	Kind             string // "view", "end" (the line is finished), "output" or "clear"
	Above            string // messages, or other output
	Prompt           string // prompt in its color
	Text, Suggestion string
	Cursor           int
	Styles           []int
	Columns          int // width of the screen on which the editor has drawn the last view
}

// reportSteps makes an editor write each of its steps to w, in JSON. It returns the function that
// writes a step.
func reportSteps(e *promptEditor, w io.Writer) func(kind, above string, v view) {
	send := func(kind, above string, v view) {
		d := drawn{kind, above, e.out.colored(v.prompt), v.text, v.suggestion, v.cursor, nil, e.out.width}
		for _, style := range v.styles {
			d.Styles = append(d.Styles, int(style))
		}
		check(json.NewEncoder(w).Encode(d))
	}
	frame := e.out.frame
	e.out.frame = func() (string, view) {
		messages, v := frame()
		send("view", messages, v)
		return messages, v
	}
	drop, clearAll := doInterrupt.edit, doClear.edit
	doInterrupt.edit = func(e *promptEditor, b *prompt.Buffer) { send("end", "", e.view); drop(e, b) }
	doClear.edit = func(e *promptEditor, b *prompt.Buffer) { send("clear", "", view{}); clearAll(e, b) }
	return send
}

// readLinesAndReport reads lines with an editor, and reports its steps on file descriptor 3.
func readLinesAndReport() {
	suggestions := []string{"alpha beta gamma", "get /alpha/中文/一个很长的名字 and more 文", "set x 1", "beta", "x " + strings.Repeat("long ", 40)}
	var recall history.Recall
	recall.Add(history.Entry{Line: "first"}, history.Entry{Line: "get /alpha 中文 one two three four five six seven eight nine ten", Place: "@prod", Time: 1})
	e := New(os.Stdin, os.Stdout, os.Getenv, Assistant{
		Open:     func(string, string) string { return "" },
		Complete: func(before string) Proposals { return propose(before, true) },
		Recall:   &recall,
		Suggest: func(line string) string {
			for _, s := range suggestions {
				if rest, ok := strings.CutPrefix(s, line); ok {
					return rest
				}
			}
			return ""
		},
		Paint: func(line string) (spans []Span) {
			at := 0
			for i, word := range strings.Split(line, " ") {
				spans = append(spans, Span{at, at + len(word), Style(i%int(KnownPath) + 1)})
				at += len(word) + 1
			}
			return spans
		},
	}, nil).(*promptEditor)
	send := reportSteps(e, os.NewFile(3, "steps"))
	signals := make(chan os.Signal, 10)
	signal.Notify(signals, syscall.SIGUSR2)
	go func() { // lives until the process exits
		for n := 0; ; n++ {
			<-signals
			check(e.Notify(fmt.Sprintf("event %d 中文\n", n)))
		}
	}()
	for n := 0; ; n++ {
		line, err := e.ReadLine(context.Background(), func() Prompt { return Prompt{Text: fmt.Sprint(n, "# "), Alert: n%2 == 0} })
		if err != nil {
			return
		}
		send("end", "", e.view)
		text := fmt.Sprintf("read %q\n", line)
		_, err = os.Stdout.WriteString(text)
		check(err)
		send("output", text, view{})
	}
}

// A typist types random keys into an editor, and compares its screen with one on which each step is
// drawn in the plainest way.
type typist struct {
	*person
	columns int

	mu    sync.Mutex
	steps []drawn // guarded by mu
}

const typistRows = 24

// last returns the latest step, and the newest steps before it.
func (y *typist) last() (now drawn, before []drawn) {
	y.mu.Lock()
	defer y.mu.Unlock()
	n := len(y.steps) - 1
	for i := n - 1; i >= 0; i-- {
		if y.steps[i].Kind == "clear" || n-i > 60 {
			return y.steps[n], append([]drawn(nil), y.steps[i+1:n]...)
		}
	}
	return y.steps[n], append([]drawn(nil), y.steps[:n]...)
}

// plain draws all steps on an empty screen of the given width, which has room for all rows. It
// returns the row in which the line ends; the cursor of the screen is that of the line. The line was
// cropped for a screen with cropWidth columns, a finished line for the screen it was drawn on.
func (y *typist) plain(columns, cropWidth int) (screen *vt, end int) {
	screen = newVT(columns, 400)
	write := func(text string) { _, _ = screen.Write([]byte(text)) } // panics instead of returning an error
	draw := func(d drawn, rest string) {
		write(d.Prompt)
		for i, r := range []rune(visible(d.Text)) {
			if i < len(d.Styles) && colors16[d.Styles[i]] != "" {
				write(colors16[d.Styles[i]] + string(r) + noColor)
			} else {
				write(string(r))
			}
		}
		if rest != "" {
			write(colors16[suggestion] + visible(rest) + noColor)
		}
	}
	now, before := y.last()
	for _, d := range before {
		switch d.Kind {
		case "view":
			write(d.Above)
		case "output":
			write(d.Above)
		case "end":
			draw(y.cropped(d, d.Columns), "")
			if screen.column == columns {
				write("\n")
			}
			write("\n")
		}
	}
	write(now.Above)
	now = y.cropped(now, cropWidth)
	top := screen.row
	head := now
	head.Text = string([]rune(now.Text)[:now.Cursor])
	draw(head, "")
	row, column := screen.row, screen.column
	if column == columns {
		row, column = row+1, 0
	}
	screen.row, screen.column = top, 0
	draw(now, now.Suggestion)
	end = screen.row
	screen.row, screen.column = row, column
	return screen, end
}

func (y *typist) cropped(d drawn, columns int) drawn {
	w := &promptWriter{width: columns, rows: typistRows}
	styles := make([]Style, len(d.Styles))
	for i, s := range d.Styles {
		styles[i] = Style(s)
	}
	v := w.cropToScreen(view{prompt: Prompt{Text: strings.TrimSuffix(strings.TrimPrefix(d.Prompt, alertColor), noColor)},
		text: d.Text, cursor: d.Cursor, styles: styles, suggestion: d.Suggestion})
	d.Text, d.Cursor, d.Suggestion, d.Styles = v.text, v.cursor, v.suggestion, nil
	for _, s := range v.styles {
		d.Styles = append(d.Styles, int(s))
	}
	return d
}

// differs returns the difference between the screen and the plain one, or an empty string.
func (y *typist) differs() string {
	want, end := y.plain(y.columns, y.columns)
	y.vt.mu.Lock()
	defer y.vt.mu.Unlock()
	if c, w := min(y.vt.column, y.columns-1), min(want.column, y.columns-1); c != w {
		return fmt.Sprintf("the cursor is in column %d, not %d", c, w)
	}
	shift := y.vt.row - want.row
	for row, cells := range y.vt.cells {
		for column, c := range cells {
			if c.style == "39;49" { // the default colors, with which go-prompt ends the menu
				c.style = ""
			}
			var w cell
			if row-shift >= 0 && row-shift < len(want.cells) {
				w = want.cells[row-shift][column]
			} else if row-shift < 0 {
				continue // a line before the newest steps
			}
			below := row-shift > end && strings.Count(c.style, ";") > 0 // the menu of completions
			if strings.TrimSpace(c.text) == "" && strings.TrimSpace(w.text) == "" || below || c == w {
				continue
			}
			return fmt.Sprintf("row %d, column %d has %+q, not %+q", row, column, c, w)
		}
	}
	return ""
}

// settle waits until the latest step satisfies a condition and is on the screen.
func (y *typist) settle(what string, done func(drawn) bool) {
	y.t.Helper()
	zktest.Eventually(y.t, what, func() bool { now, _ := y.last(); return now.Kind == "view" && done(now) })
	why := ""
	defer func() {
		if why != "" {
			y.t.Log(why)
		}
	}()
	zktest.Eventually(y.t, "the screen is a plain one", func() bool {
		why = y.differs()
		return why == ""
	})
}

// resize changes the width of the window. A terminal wraps its text again, so the emulated one gets
// the text in the new width.
func (y *typist) resize(columns int) {
	screen, end := y.plain(columns, y.columns)
	y.mu.Lock()
	steps := len(y.steps)
	y.mu.Unlock()
	top := max(0, end-typistRows+1, screen.row-typistRows+1)
	y.vt.mu.Lock()
	y.vt.columns, y.vt.cells = columns, screen.cells[top:top+typistRows]
	y.vt.row, y.vt.column = screen.row-top, screen.column
	y.vt.mu.Unlock()
	y.columns = columns
	if err := pty.Setsize(y.keyboard, &pty.Winsize{Cols: uint16(columns), Rows: typistRows}); err != nil {
		y.t.Fatal(err)
	}
	zktest.Eventually(y.t, "a new frame", func() bool { y.mu.Lock(); defer y.mu.Unlock(); return len(y.steps) > steps })
	y.settle("a frame", func(drawn) bool { return true })
}

// TestRandomKeys types random keys while suggestions, colors, menus, events and resizes change the
// screen. After every few keys, the screen shows the same as if each step had been drawn only once.
func TestRandomKeys(t *testing.T) {
	seed := *randomSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-keys %d -seed %d", *randomKeys, seed)
	editors := 4
	if *randomKeys > 2000 {
		editors = 16
	}
	for i := range editors {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			typeRandomKeys(t, rand.New(rand.NewPCG(seed, uint64(i))), *randomKeys/editors)
		})
	}
}

var keyChoices = []string{
	"a", "al", "alpha ", "be", "beta ", "get ", "get /alpha", "se", "x ", "中", "文文", "é", " ", "/", "-s", strings.Repeat("long ", 9),
	"\t", "\t", "\t", "\x1b[Z", "\x1b[A", "\x1b[B", "\x1b[D", "\x1b[D\x1b[D", "\x1b[C", "\x1b[C", "\x1b[H", "\x1b[F", "\x05", "\x1bf", "\x1bf", "\x1bb",
	"\x1b[1;5D", "\x1b[1;5C", "\x7f", "\x7f\x7f\x7f", "\x1b[3~", "\x17", "\x15", "\x0b", "\x19", "\x12", "\x0c", "\x07", "\x03",
	"\x1b[200~a 中\tb\x1b[201~",
}

func typeRandomKeys(t *testing.T, rng *rand.Rand, keys int) {
	y := &typist{columns: 40}
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	y.person = openEditorWith(t, []*os.File{writer}, y.columns, typistRows, editorVariable+"=steps", "COLORTERM=")
	zktest.Check(t, writer.Close())
	go func() { // ends when the editor has exited
		d := json.NewDecoder(reader)
		for {
			var step drawn
			if d.Decode(&step) != nil {
				return
			}
			y.mu.Lock()
			y.steps = append(y.steps, step)
			y.mu.Unlock()
		}
	}()
	zktest.Eventually(t, "the first frame", func() bool { y.mu.Lock(); defer y.mu.Unlock(); return len(y.steps) > 0 })
	var did []string
	defer func() {
		if t.Failed() {
			t.Logf("the last steps were %s", strings.Join(did[max(0, len(did)-4):], ", "))
		}
	}()
	line := 0
	for typed, n := 0, 0; typed < keys; n++ {
		switch rng.IntN(8) {
		case 0: // a line, or two lines at once
			ahead := rng.IntN(2)
			did = append(did, "Enter")
			y.types(strings.Repeat("\x07\x15ahead 中文\r", ahead) + "\r")
			line += 1 + ahead
			typed += 1 + ahead*2
			y.settle("the next prompt", func(d drawn) bool { return strings.Contains(d.Prompt, fmt.Sprint(line, "#")) })
		case 1:
			did = append(did, "event")
			y.signals(syscall.SIGUSR2)
			y.settle("the event", func(d drawn) bool { return strings.Contains(d.Above, "event") })
		case 2:
			columns := 20 + rng.IntN(90)
			if columns == y.columns { // there would be no signal
				columns++
			}
			did = append(did, fmt.Sprint(columns, " columns"))
			y.resize(columns)
		}
		var b strings.Builder
		for range 1 + rng.IntN(15) {
			b.WriteString(keyChoices[rng.IntN(len(keyChoices))])
			typed++
		}
		mark := fmt.Sprintf("z%dz", n)
		did = append(did, fmt.Sprintf("%q", b.String()))
		y.types(b.String() + mark)
		y.settle(mark, func(d drawn) bool { return strings.Contains(d.Text+d.Prompt, mark) })
	}
}
