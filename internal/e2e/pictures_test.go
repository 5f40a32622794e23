//go:build unix

package e2e

import (
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zksh/zksh/internal/zktest"
)

// pictures lists the screens that testdata/pictures.md shows, by file name.
var pictures = []struct {
	name          string
	columns, rows int
	play          func(s *screen)
}{
	{"prompt", 104, 18, func(s *screen) {
		s.lines("create -p /app/config threads=4", "cd /app", "get -w config", "set config threads=8")
		s.want(`NodeDataChanged path:/app/config`)
		s.line("gte config")
		s.want(` 5\]$`)
		s.line("lock -m 'Ann deploys' /locks/deploy")
		s.want(`1 lock\) /app 6\]$`)
	}},
	{"typing", 84, 18, playTyping},
	{"typing-light", 84, 18, playTyping},
	{"completion", 84, 18, func(s *screen) {
		s.lines("create /app", "create /app/worker-1 x", "create /app/worker-2 x", "create /app/配置 x", "create /app/config x")
		s.text("get /app/")
		s.want(`配置$`)
		s.keys("Tab")
		s.want(`\] get /app/config$`)
	}},
	{"locks", 120, 18, func(s *screen) {
		for i, note := range []string{"Ann deploys", "Ben deploys", "the nightly run"} {
			s.contender("lock", "-m", note, "/locks/deploy", "--", "sleep", "600")
			s.until("no contender", func(string) bool { return s.waiting() > i })
		}
		s.line("locks -f /locks/deploy")
		s.want(`(?s)Ann deploys.*Ben deploys.*nightly run`)
	}},
	{"lockdemo", 80, 38, func(s *screen) {
		s.line("lockdemo parent predecessor -n 5")
		s.want(`agree\.\n\[zk: \S+ 1\]$`)
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
			s := openScreen(t, p.columns, p.rows)
			s.keys("C-l")
			s.wantEnd(s.prompt(0))
			p.play(s)
			screen := s.tmux("capture-pane", "-e", "-p")
			path := filepath.Join("../../testdata", p.name+".svg")
			if *update {
				draw(t, screen, path)
				return
			}
			shown := anyStyle.ReplaceAllString(screen, "")
			if diff := cmp.Diff(withoutVarying(shown), withoutVarying(pictureText(readFile(t, path)))); diff != "" {
				t.Errorf("run make docs; %s differs (-want +have):\n%s", path, diff)
			}
		})
	}
}

// freeze draws a screen as SVG. The fonts have characters of the same width, so that the
// backgrounds, which have fixed positions, are behind their text.
var freeze = []string{"run", "github.com/charmbracelet/freeze@v0.2.2", "--language", "ansi",
	"--padding", "12", "--border.radius", "6", "--font.family", "Menlo, DejaVu Sans Mono, Liberation Mono, Courier New, monospace"}

// light draws a screen on a light background.
var light = []string{"--theme", "github", "--background", "#fafafa"}

// draw saves a screen with its colors as SVG, with the names of the user and the machine replaced.
func draw(t *testing.T, screen, path string) {
	t.Helper()
	args := append(slices.Clone(freeze), "--output", path)
	if strings.HasSuffix(path, "-light.svg") {
		args = append(args, light...)
	}
	cmd := exec.Command("go", args...)
	screen = strings.TrimRight(person.ReplaceAllStringFunc(screen, anonymous), "\n")
	cmd.Stdin = strings.NewReader(spelled(screen))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("freeze: %v: %s", err, out)
	}
}

var person = regexp.MustCompile(`\S+@\S+ pid \d+`)

// anonymous returns the replacement for a person. It has the same length, so that the columns stay
// aligned.
func anonymous(who string) string {
	const user, process = "ann@adasmachine", " pid 4711"
	return fmt.Sprintf("%.*s", max(0, len(who)-len(process)), user) + process
}

// basicColor matches the sequences of tmux that select the default colors or one of the 16 basic
// backgrounds.
var basicColor = regexp.MustCompile("\x1b\\[(3|4|10)([0-79])m")

// spelled replaces the sequences of tmux that freeze ignores. In freeze, the sequence for bold text
// selects the default color, and a background ends with its line.
func spelled(screen string) string {
	return basicColor.ReplaceAllStringFunc(screen, func(sequence string) string {
		m := basicColor.FindStringSubmatch(sequence)
		switch kind, color := m[1], m[2]; {
		case kind == "3" && color == "9":
			return "\x1b[1m"
		case color == "9":
			return ""
		case kind == "4":
			return "\x1b[48;5;" + color + "m"
		case kind == "10":
			number, _ := strconv.Atoi(color) // cannot fail, because it is a digit
			return fmt.Sprintf("\x1b[48;5;%dm", number+8)
		}
		return sequence
	})
}

var (
	textLine = regexp.MustCompile(`(?s)<text [^>]*?(?:/>|>(.*?)</text>)`)
	tag      = regexp.MustCompile(`<[^>]*>`)
)

// pictureText returns the text of a picture.
func pictureText(svg string) string {
	var b strings.Builder
	for _, m := range textLine.FindAllStringSubmatch(svg, -1) {
		b.WriteString(html.UnescapeString(tag.ReplaceAllString(m[1], "")) + "\n")
	}
	return b.String()
}

// shortened matches a znode's name that was shortened to fit its column.
var shortened = regexp.MustCompile(`\S*…\S*`)

// lanes match the parts of a picture of lockdemo that differ from run to run.
var lanes = regexp.MustCompile(`(?m)^(\d) [ ·!*█]+$|^.*\d requests, .*$|^[0-9.]+ s .*$|^parent .*$|[0-9.]+ m?s$`)

// withoutVarying returns the text of a screen with the parts that differ from run to run replaced.
func withoutVarying(text string) string {
	text = lanes.ReplaceAllString(text, "$1 …")
	return shortened.ReplaceAllString(normalize(strings.TrimRight(text, "\n")), "NODE")
}
