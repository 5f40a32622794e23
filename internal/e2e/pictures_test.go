//go:build unix

package e2e

import (
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mattn/go-runewidth"

	"github.com/zksh/zksh/internal/zktest"
)

// pictures lists the screens that testdata/pictures.md shows, by file name.
var pictures = []struct {
	name    string
	columns int
	play    func(s *screen)
}{
	{"prompt", 104, func(s *screen) {
		s.lines("create -p /app/config threads=4", "cd /app", "get -w config", "set config threads=8")
		s.want(`NodeDataChanged path:/app/config`)
		s.line("gte config")
		s.want(` 5\]$`)
		s.line("lock -m 'Ann deploys' /locks/deploy")
		s.want(`1 lock\) /app 6\]$`)
	}},
	{"typing", 84, playTyping},
	{"typing-light", 84, playTyping},
	{"completion", 84, func(s *screen) {
		s.lines("create /app", "create /app/worker-1 x", "create /app/worker-2 x", "create /app/配置 x", "create /app/config x")
		s.text("get /app/")
		s.want(`配置$`)
		s.keys("Tab")
		s.want(`\] get /app/config$`)
	}},
	{"locks", 120, func(s *screen) {
		for i, note := range []string{"Ann deploys", "Ben deploys", "the nightly run"} {
			s.contender("lock", "-m", note, "/locks/deploy", "--", "sleep", "600")
			s.until("no contender", func(string) bool { return s.waiting() > i })
		}
		s.line("locks -f /locks/deploy")
		s.want(`(?s)Ann deploys.*Ben deploys.*nightly run`)
	}},
}

// playTyping shows suggestions and colours.
func playTyping(s *screen) {
	s.lines("create /app", `create /app/config "hello world"`, "get -s /app/config", "printwatches off")
	s.text(`set /app/config "it is`)
	s.want(`it is$`)
	s.keys("C-c")
	s.text("gte /app")
	s.want(`gte /app$`)
	s.keys("C-c")
	s.text("get -")
	s.until("no suggestion", func(string) bool { return strings.Contains(s.tmux("capture-pane", "-p"), "] get -s /app/config\n") })
}

// lines types each line when the line before has finished, because text typed earlier would be
// echoed before the prompt.
func (s *screen) lines(lines ...string) {
	s.t.Helper()
	for i, line := range lines {
		s.line(line)
		s.want(fmt.Sprintf(` %d\]$`, i+1))
	}
}

// contender runs another zksh in the background until the test ends.
func (s *screen) contender(args ...string) {
	s.t.Helper()
	cmd := exec.Command("zksh", append([]string{"-q", "-server", s.server}, args...)...)
	cmd.Env = homeEnv(s.home)
	zktest.Must(s.t, cmd.Start())
	s.t.Cleanup(func() {
		zktest.Check(s.t, cmd.Process.Signal(os.Interrupt))
		_ = cmd.Wait() // reports the signal
	})
}

// waiting returns the number of znodes of the lock.
func (s *screen) waiting() int {
	s.t.Helper()
	out, err := exec.Command("zksh", "-server", s.server, "getAllChildrenNumber", "/locks/deploy").Output()
	n, numberErr := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil || numberErr != nil {
		return 0 // the lock does not exist yet
	}
	return n
}

// The pictures show the current output of zksh.
func TestPictures(t *testing.T) {
	t.Parallel()
	for _, p := range pictures {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			s := openScreen(t, p.columns, 18)
			s.keys("C-l")
			s.wantEnd(s.prompt(0))
			p.play(s)
			have := drawing(s.tmux("capture-pane", "-e", "-p"), p.columns, strings.HasSuffix(p.name, "-light"))
			path := filepath.Join("../../testdata", p.name+".svg")
			if *update {
				zktest.Must(t, os.WriteFile(path, []byte(have), 0o644))
				return
			}
			if diff := cmp.Diff(words(have), words(readFile(t, path))); diff != "" {
				t.Errorf("run make docs; %s differs (-want +have):\n%s", path, diff)
			}
		})
	}
}

var drawn = regexp.MustCompile(`<text [^>]*y="(\d+)"[^>]*>([^<]*)</text>`)

// shortened matches a znode's name that was shortened to fit its column.
var shortened = regexp.MustCompile(`\S*…\S*`)

// words returns the text of a picture, with the parts that differ from run to run replaced.
func words(svg string) string {
	var b strings.Builder
	last := ""
	for _, m := range drawn.FindAllStringSubmatch(svg, -1) {
		if m[1] != last {
			b.WriteString("\n")
		}
		last = m[1]
		b.WriteString(" " + html.UnescapeString(m[2]))
	}
	return shortened.ReplaceAllString(normalize(b.String()), "NODE")
}

// The size of a cell and the margin, in pixels, and the default colours.
const (
	cellWidth, cellHeight = 8.4, 18
	margin                = 12
	paper, ink            = "#1d2026", "#d8dbe1"
	lightPaper, lightInk  = "#fafafa", "#2b2f36"
)

var palette = strings.Fields(`#3b4048 #e06c75 #98c379 #e5c07b #61afef #c678dd #56b6c2 #d7dae0
	#5c6370 #ff7b86 #b5e890 #ffd787 #82c4ff #e39bf7 #7fdbe6 #ffffff`)

// A style is the appearance of a character on a terminal.
type style struct {
	fore, back      string
	bold, underline bool
	reverse         bool
}

// colours returns the colours of the text and of its background. An empty background is that of
// the picture.
func (s style) colours() (fore, back string) {
	fore, back = s.fore, s.back
	if fore == "" {
		fore = ink
	}
	if s.reverse {
		if back == "" {
			back = paper
		}
		return back, fore
	}
	return fore, back
}

// fixedColour returns one of the 216 colours, or of the 24 shades of grey, that are the same on all
// terminals.
func fixedColour(number string) string {
	n, _ := strconv.Atoi(number) // tmux writes only numbers
	if n >= 232 {
		return fmt.Sprintf("#%02[1]x%02[1]x%02[1]x", 8+10*(n-232))
	}
	level := func(v int) int { return []int{0, 95, 135, 175, 215, 255}[v%6] }
	return fmt.Sprintf("#%02x%02x%02x", level((n-16)/36), level((n-16)/6), level(n-16))
}

// apply updates the style with the numbers of one escape sequence.
func (s *style) apply(numbers string) {
	words := strings.Split(numbers, ";")
	for i, word := range words {
		n, _ := strconv.Atoi(word) // an empty word counts as 0
		switch {
		case n == 38 && i+2 < len(words) && words[i+1] == "5":
			s.fore = fixedColour(words[i+2])
			return // tmux begins a new sequence for each colour
		case n == 0:
			*s = style{}
		case n == 1:
			s.bold = true
		case n == 4:
			s.underline = true
		case n == 7:
			s.reverse = true
		case n >= 30 && n <= 37:
			s.fore = palette[n-30]
		case n == 39:
			s.fore = ""
		case n >= 40 && n <= 47:
			s.back = palette[n-40]
		case n == 49:
			s.back = ""
		case n >= 90 && n <= 97:
			s.fore = palette[n-90+8]
		case n >= 100 && n <= 107:
			s.back = palette[n-100+8]
		}
	}
}

var (
	escape = regexp.MustCompile("\x1b\\[([0-9;]*)m|\x0e|\x0f")
	person = regexp.MustCompile(`\S+@\S+ pid \d+`)
)

// drawing renders a screen with its colours as SVG, with the names of the user and the machine
// replaced.
func drawing(screen string, columns int, light bool) string {
	screen = person.ReplaceAllStringFunc(screen, func(who string) string { // a replacement of the same length keeps the columns aligned
		user := "ann@adasmachine"
		const process = " pid 4711"
		return fmt.Sprintf("%.*s", max(0, len(who)-len(process)), user) + process
	})
	lines := strings.Split(strings.TrimRight(screen, "\n"), "\n")
	width, height := float64(columns)*cellWidth+2*margin, len(lines)*cellHeight+2*margin
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%d" viewBox="0 0 %.0f %d" font-family="ui-monospace,Menlo,Consolas,monospace" font-size="14" xml:space="preserve">`+"\n", width, height, width, height)
	fmt.Fprintf(&b, `<rect width="%.0f" height="%d" rx="6" fill="%s"/>`+"\n", width, height, paper)
	now := style{}
	for row, line := range lines {
		column := 0
		for line != "" {
			at := escape.FindStringSubmatchIndex(line)
			text := line
			if at != nil {
				text = line[:at[0]]
			}
			now.draw(&b, text, column, row)
			column += runewidth.StringWidth(text)
			if at == nil {
				break
			}
			if at[2] >= 0 {
				now.apply(line[at[2]:at[3]])
			}
			line = line[at[1]:]
		}
	}
	b.WriteString("</svg>\n")
	if light {
		return strings.NewReplacer(paper, lightPaper, ink, lightInk).Replace(b.String())
	}
	return b.String()
}

// draw draws text, beginning at a cell. Each text has an explicit position and length, so that
// the reader's fonts do not shift columns.
func (s style) draw(b *strings.Builder, text string, column, row int) {
	fore, back := s.colours()
	cells := runewidth.StringWidth(text)
	x, y := margin+float64(column)*cellWidth, margin+row*cellHeight
	if back != "" && cells > 0 {
		fmt.Fprintf(b, `<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s"/>`+"\n", x, y, float64(cells)*cellWidth, cellHeight, back)
	}
	shown := strings.TrimRight(text, " ")
	if shown == "" {
		return
	}
	how := ""
	if s.bold {
		how += ` font-weight="bold"`
	}
	if s.underline {
		how += ` text-decoration="underline"`
	}
	fmt.Fprintf(b, `<text x="%.1f" y="%d" textLength="%.1f" fill="%s"%s>%s</text>`+"\n",
		x, y+13, float64(runewidth.StringWidth(shown))*cellWidth, fore, how, html.EscapeString(shown))
}
