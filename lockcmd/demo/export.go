package demo

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/zksh/zksh/internal/userfile"
)

// Sizes in the SVG picture, in pixels.
const (
	svgWidth  = 960
	svgLabel  = 30 // width of the labels to the left of the lanes
	svgLane   = 9
	svgHead   = 34 // height of a scene's title
	svgLegend = 30
	svgAxis   = 24
)

// drawSVG draws scenes as lanes, one scene below the other. All scenes have the same time scale,
// so a faster scene has a shorter picture.
func drawSVG(w io.Writer, timelines []*timeline) error {
	var longest time.Duration
	height := svgAxis + svgLegend
	for _, b := range timelines {
		longest = max(longest, b.last().at)
		height += svgHead + len(b.lanes)*svgLane
	}
	var s strings.Builder
	fmt.Fprintf(&s, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n",
		svgWidth, height, svgWidth, height)
	s.WriteString(`<style>
rect.paper{fill:#fff} text{fill:#222} text.n{font-size:8px;fill:#666;text-anchor:end}
path.waits{stroke:#9aa5b1;stroke-width:1;stroke-dasharray:2 2} path.holds{stroke:#1a7f4b;stroke-width:7} path.reads{stroke:#1b7c83;stroke-width:3}
path.woken{stroke:#1f6feb;stroke-width:1.5} path.vain{stroke:#d1242f;stroke-width:1} path.refused{stroke:#b35900;stroke-width:1;fill:none}
path.ends{stroke:#111;stroke-width:2} path.axis{stroke:#666;stroke-width:1} text.t{font-size:10px;fill:#666;text-anchor:middle}
</style>
`)
	fmt.Fprintf(&s, `<rect class="paper" width="%d" height="%d"/>`+"\n", svgWidth, height)
	scale := float64(svgWidth-svgLabel-10) / float64(max(longest, 1))
	y := 0
	for _, b := range timelines {
		b.svg(&s, y, scale)
		y += svgHead + len(b.lanes)*svgLane
	}
	drawAxis(&s, y, longest, scale)
	y += svgAxis
	x := svgLabel
	for _, l := range legends {
		symbol := 6 // width of a mark; a lasting state is a longer line
		if styles[styleIndex(l.is)].lasts && l.class != "ends" {
			symbol = 24
		}
		path := shapePath(l.class, float64(x), float64(x+symbol), float64(y+16))
		fmt.Fprintf(&s, `<path class="%s" d="%s"/><text x="%d" y="%d">%s</text>`+"\n", l.class, path, x+symbol+4, y+20, l.text)
		x += symbol + 24 + 6*len(l.text)
	}
	s.WriteString("</svg>\n")
	_, err := io.WriteString(w, s.String())
	return err
}

// drawAxis draws the time axis of all scenes, with about ten labels.
func drawAxis(s *strings.Builder, y int, longest time.Duration, scale float64) {
	step := time.Millisecond / 10
	for i := 0; longest/step > 10; i++ { // 0.1, 0.2, 0.5, 1, 2, 5 …
		step = []time.Duration{step * 2, step / 2 * 5, step * 2}[i%3]
	}
	fmt.Fprintf(s, `<path class="axis" d="M%d %dH%.1f"/>`+"\n", svgLabel, y+6, svgLabel+float64(longest)*scale)
	for at := time.Duration(0); at <= longest; at += step {
		x := svgLabel + float64(at)*scale
		fmt.Fprintf(s, `<path class="axis" d="M%.1f %dv4"/><text class="t" x="%.1f" y="%d">%g ms</text>`+"\n", x, y+4, x, y+20, ms(at))
	}
}

// legends contains the entries of the picture's legend. Each state has its own shape, so that
// people can distinguish the states without colors.
var legends = []struct {
	is          state
	class, text string
}{
	{waits, "waits", "waits"}, {holds, "holds", "holds the lock"}, {reads, "reads", "holds it together with readers"},
	{woken, "woken", "is woken"}, {vain, "vain", "woken in vain"}, {refused, "refused", "refused by the server"},
	{killed, "ends", "killed, or gave up"},
}

// svgClass maps each state to its CSS class in the picture. States that are not listed are not
// drawn.
var svgClass = map[state]string{waits: "waits", holds: "holds", reads: "reads", woken: "woken", vain: "vain", refused: "refused",
	killed: "ends", gaveUp: "ends"}

// shapePath returns the SVG path for a state with the given class, at the vertical position y. A
// lasting state is a line from start to end; any other state is a mark at start.
func shapePath(class string, start, end, y float64) string {
	switch class {
	case "waits", "holds", "reads":
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
	title := b.title()
	if r := b.result; r != nil {
		title += fmt.Sprintf(": %d requests, %d notifications, %d in vain, %d refused", r.Requests, r.Notifications, r.Vain, r.Refused)
	}
	fmt.Fprintf(s, `<text x="%d" y="%d" font-weight="bold">%s</text>`+"\n", svgLabel, y+20, title)
	x := func(at time.Duration) float64 { return svgLabel + float64(at)*scale }
	for i, lane := range b.lanes {
		at := float64(y + svgHead + i*svgLane)
		fmt.Fprintf(s, `<text class="n" x="%d" y="%.1f">%s</text>`+"\n", svgLabel-6, at+3, b.label(i))
		// Use a single path for each class, because browsers are slow with thousands of separate
		// shapes.
		paths := map[string]string{}
		for j, m := range lane {
			until := b.last().at
			for _, next := range lane[j+1:] {
				if styles[styleIndex(next.state)].lasts {
					until = next.at
					break
				}
			}
			if class := svgClass[b.drawnState(i, m.state)]; class != "" {
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
