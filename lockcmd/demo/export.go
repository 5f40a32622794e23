package demo

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/userfile"
)

// Sizes in the SVG picture, in pixels.
const (
	svgWidth  = 960
	svgLabel  = 30 // width of the labels to the left of the lanes
	svgLane   = 9
	svgHead   = 34 // height of a scene's title
	svgLegend = 30
)

// drawSVG draws scenes as lanes, one scene below the other. All scenes have the same time scale,
// so a faster scene has a shorter picture.
func drawSVG(w io.Writer, timelines []*timeline) error {
	var longest time.Duration
	height := svgLegend
	for _, b := range timelines {
		longest = max(longest, b.last.at)
		height += svgHead + len(b.lanes)*svgLane
	}
	var s strings.Builder
	fmt.Fprintf(&s, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n",
		svgWidth, height, svgWidth, height)
	s.WriteString(`<style>
rect.paper{fill:#fff} text{fill:#222} text.n{font-size:8px;fill:#666;text-anchor:end}
path.waits{stroke:#9aa5b1;stroke-width:1;stroke-dasharray:2 2} path.holds{stroke:#1a7f4b;stroke-width:7}
path.woken{stroke:#1f6feb;stroke-width:1.5} path.vain{stroke:#d1242f;stroke-width:1} path.refused{stroke:#b35900;stroke-width:1;fill:none}
path.ends{stroke:#111;stroke-width:2}
</style>
`)
	fmt.Fprintf(&s, `<rect class="paper" width="%d" height="%d"/>`+"\n", svgWidth, height)
	scale := float64(svgWidth-svgLabel-10) / float64(max(longest, 1))
	y := 0
	for _, b := range timelines {
		b.svg(&s, y, scale)
		y += svgHead + len(b.lanes)*svgLane
	}
	x := svgLabel
	for _, l := range legends {
		path := shapePath(l.class, float64(x), float64(x+24), float64(y+16))
		fmt.Fprintf(&s, `<path class="%s" d="%s"/><text x="%d" y="%d">%s</text>`+"\n", l.class, path, x+30, y+20, l.text)
		x += 40 + 8*len(l.text)
	}
	s.WriteString("</svg>\n")
	_, err := io.WriteString(w, s.String())
	return err
}

// legends contains the entries of the picture's legend. Each state has its own shape, so that
// people can distinguish the states without colors.
var legends = []struct{ class, text string }{
	{"waits", "waits"}, {"holds", "holds the lock"}, {"woken", "is woken"}, {"vain", "woken in vain"},
	{"refused", "refused by the server"}, {"ends", "killed, or gave up"},
}

// svgClass maps each state to its CSS class in the picture. States that are not listed are not
// drawn.
var svgClass = map[state]string{waits: "waits", holds: "holds", woken: "woken", vain: "vain", refused: "refused",
	killed: "ends", gaveUp: "ends"}

// shapePath returns the SVG path for a state with the given class, at the vertical position y. A
// lasting state is a line from start to end; any other state is a mark at start.
func shapePath(class string, start, end, y float64) string {
	switch class {
	case "waits", "holds":
		return fmt.Sprintf("M%.1f %.1fH%.1f", start, y, max(end, start+0.5))
	case "woken":
		return fmt.Sprintf("M%.1f %.1fv4", start, y-4)
	case "vain":
		return fmt.Sprintf("M%.1f %.1fv4", start, y)
	case "refused":
		return fmt.Sprintf("M%.1f %.1fl3 3m0 -3l-3 3", start-1.5, y-1.5)
	}
	return fmt.Sprintf("M%.1f %.1fl6 6m0 -6l-6 6", start-3, y-3)
}

// svg writes the SVG elements of one scene to s. y is the vertical position of the scene's top
// edge, and scale is the number of pixels per unit of time.
func (b *timeline) svg(s *strings.Builder, y int, scale float64) {
	title := fmt.Sprintf("%s, %d contenders", b.scene.scheme.name, b.scene.n)
	if r := b.result; r != nil {
		title += fmt.Sprintf(": %d requests, %d notifications, %d in vain, %d refused", r.Requests, r.Notifications, r.Vain, r.Refused)
	}
	fmt.Fprintf(s, `<text x="%d" y="%d" font-weight="bold">%s</text>`+"\n", svgLabel, y+20, title)
	x := func(at time.Duration) float64 { return svgLabel + float64(at)*scale }
	for i, lane := range b.lanes {
		at := float64(y + svgHead + i*svgLane)
		fmt.Fprintf(s, `<text class="n" x="%d" y="%.1f">%d</text>`+"\n", svgLabel-6, at+3, i)
		// Use a single path for each class, because browsers are slow with thousands of separate
		// shapes.
		paths := map[string]string{}
		for j, m := range lane {
			until := b.last.at
			for _, next := range lane[j+1:] {
				if styles[styleIndex(next.state)].lasts {
					until = next.at
					break
				}
			}
			if class := svgClass[m.state]; class != "" {
				paths[class] += shapePath(class, x(m.at), x(until), at)
			}
		}
		for _, l := range legends {
			if d := paths[l.class]; d != "" {
				fmt.Fprintf(s, `<path class="%s" d="%s"/>`+"\n", l.class, d)
			}
		}
	}
}

// maxDrawnContenders is the maximum number of contenders that people can still tell apart in a
// picture.
const maxDrawnContenders = 20

// saveSVG writes an SVG file with one scene of each scheme. It chooses the largest scene with at
// most maxDrawnContenders contenders or, if there is none, the smallest scene.
func saveSVG(name string, timelines []*timeline) error {
	var chosen []*timeline
	for _, b := range timelines {
		n := b.scene.n
		at := slices.IndexFunc(chosen, func(o *timeline) bool { return o.scene.scheme.name == b.scene.scheme.name })
		switch {
		case at < 0:
			chosen = append(chosen, b)
		case n <= maxDrawnContenders && (chosen[at].scene.n > maxDrawnContenders || n > chosen[at].scene.n), n < chosen[at].scene.n && chosen[at].scene.n > maxDrawnContenders:
			chosen[at] = b
		}
	}
	f, err := userfile.OpenToWrite(userfile.Home(name), os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return err
	}
	return errors.Join(drawSVG(f, chosen), f.Close())
}

// A recording is a file with everything that the display draws on the terminal, in the format
// asciicast 2. The file contains a header line in JSON, and then one line for each write.
type recording struct {
	file      *os.File
	started   time.Time
	lastFrame []string
	err       error // first error from writing to the file
}

// Width and height of the recorded terminal, in characters.
const castColumns, castRows = 80, 24

func newRecording(name string) (*recording, error) {
	f, err := userfile.OpenToWrite(userfile.Home(name), os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return nil, err
	}
	c := &recording{file: f, started: time.Now()}
	c.write(map[string]any{"version": 2, "width": castColumns, "height": castRows, "timestamp": c.started.Unix(), "title": "zksh lockdemo"})
	return c, nil
}

func (c *recording) write(line any) {
	b, err := json.Marshal(line)
	if err == nil {
		_, err = c.file.Write(append(b, '\n'))
	}
	if c.err == nil {
		c.err = err
	}
}

// frame records a picture of the lanes, unless it is the same as the previous one.
func (c *recording) frame(lines []string) {
	if slices.Equal(lines, c.lastFrame) {
		return
	}
	c.lastFrame = lines
	var text strings.Builder
	text.WriteString("\x1b[H")
	for _, l := range lines {
		text.WriteString(render.Cut(l, castColumns) + "\x1b[K\r\n")
	}
	c.output(text.String() + "\x1b[J")
}

func (c *recording) output(text string) { c.write([]any{time.Since(c.started).Seconds(), "o", text}) }

// close calls end to write the final text, records that text, and closes the file.
func (c *recording) close(end func(w io.Writer) error) error {
	if c == nil {
		return nil
	}
	var text strings.Builder
	err := end(&text)
	c.output("\x1b[H\x1b[J" + strings.ReplaceAll(text.String(), "\n", "\r\n"))
	closing := c.file.Close()
	for _, e := range []error{c.err, err, closing} {
		if e != nil {
			return e
		}
	}
	return nil
}
