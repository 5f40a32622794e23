package demo

import (
	"fmt"
	"strings"
	"time"

	"github.com/zksh/zksh/internal/render"
)

// A timeline is the history of one scene, with one lane for each contender.
type timeline struct {
	scene  *scene
	lanes  [][]laneEvent
	last   event
	total  map[state]int
	result *result // nil until the scene is over
}

// A laneEvent is an entry in a contender's lane: the beginning of a lasting state, or a single
// occurrence.
type laneEvent struct {
	at    time.Duration
	state state
}

func newTimeline(sc *scene) *timeline {
	return &timeline{scene: sc, lanes: make([][]laneEvent, sc.n+1), total: map[state]int{}}
}

func (b *timeline) add(e event) {
	b.lanes[e.Contender] = append(b.lanes[e.Contender], laneEvent{e.at, e.Event})
	b.total[e.Event]++
	// The measurement begins when the starter, contender 0, releases the lock. Do not count
	// contenders that were woken in vain before.
	if e.Contender == 0 && e.Event == releases {
		b.total[vain] = 0
	}
	b.last = e
}

// styles contains the symbols and descriptions of all states. If several states fall into one
// column of a lane, the one that comes last in this list is drawn. Each visible state has its own
// symbol.
var styles = []struct {
	is     state
	symbol string
	lasts  bool // whether the state lasts until the next lasting one
	legend string
	words  string
}{
	{"", " ", true, "", ""},
	{left, " ", true, "", "is done"},
	{releases, " ", true, "", "releases the lock"},
	{waits, "·", true, "waits", "waits"},
	{woken, "*", false, "woken", "is woken: is it first?"},
	{vain, "!", false, "in vain", "was woken needlessly and waits again"},
	{refused, "x", false, "refused", "tries to create the znode and is rejected"},
	{holds, "█", true, "holds", "holds the lock"},
	{gaveUp, "?", true, "gave up", "gives up: its predecessor vanished between list and watch"},
	{killed, "†", true, "killed", "is killed: its znode stays until the session times out"},
}

// styleIndex returns the index of the given state in styles.
func styleIndex(s state) int {
	for i, l := range styles {
		if l.is == s {
			return i
		}
	}
	return 0
}

// drawLane returns a contender's lane as text of at most the given number of columns. The text
// covers the time from the beginning of the scene to the last event.
func (b *timeline) drawLane(lane []laneEvent, columns int) string {
	const minStep = 2 * time.Millisecond // shortest time that one column represents
	step := max(minStep, b.last.at/time.Duration(columns)+1)
	var s strings.Builder
	state, i := 0, 0
	for c := range columns {
		end := step * time.Duration(c+1)
		shown := state
		for ; i < len(lane) && lane[i].at < end; i++ {
			l := styleIndex(lane[i].state)
			shown = max(shown, l)
			if styles[l].lasts {
				state = l
			}
		}
		if end-step > b.last.at {
			break
		}
		s.WriteString(styles[shown].symbol)
	}
	return s.String()
}

// lastEventText describes the latest event of the scene in words.
func (b *timeline) lastEventText() string {
	if b.last.scene == nil {
		return ""
	}
	who := fmt.Sprintf("Contender %d", b.last.Contender)
	if b.last.Contender == 0 {
		who = "The starter"
	}
	return fmt.Sprintf("%.1f ms  %s %s", ms(b.last.at), who, styles[styleIndex(b.last.Event)].words)
}

// legend explains the symbols of those states that have occurred in the scene.
func (b *timeline) legend() string {
	var parts []string
	for _, l := range styles {
		if l.legend != "" && (b.total[l.is] > 0 || l.is == waits || l.is == holds) {
			parts = append(parts, l.symbol+" "+l.legend)
		}
	}
	return strings.Join(parts, "  ")
}

// picture returns the current state of the scene as lines for a terminal of the given size.
func (b *timeline) picture(columns, rows int) []string {
	const otherLines = 5 // number of lines above and below the lanes
	t := b.scene.trafficSoFar()
	lines := []string{
		fmt.Sprintf("%s, %d contenders", b.scene.scheme.name, b.scene.n),
		fmt.Sprintf("%d requests, %d notified, %d in vain, %d refused", t.requests, t.notifications, b.total[vain], t.refused),
	}
	lines = append(lines, b.rows(columns-1, max(1, rows-1-otherLines))...)
	return append(lines, "", render.Cut(b.lastEventText(), columns-1), render.Cut(b.legend(), columns-1))
}

// rows returns the lanes of all contenders, side by side if that is necessary to fit maxRows. If
// there are still too many lanes, it shows only the current state of each contender.
func (b *timeline) rows(columns, maxRows int) (rows []string) {
	// Space between two lanes, and minimum width of a lane, in columns.
	const gap, minLaneWidth = 2, 4
	digits := len(fmt.Sprint(b.scene.n))
	lanesPerRow := (len(b.lanes)-1)/maxRows + 1
	rowCount := (len(b.lanes)-1)/lanesPerRow + 1
	laneWidth := (columns+gap)/lanesPerRow - gap - digits - 1
	if laneWidth < minLaneWidth {
		return b.compactRows(columns-digits-1, digits)
	}
	for row := range rowCount {
		var line strings.Builder
		for i := row; i < len(b.lanes); i += rowCount {
			strip := b.drawLane(b.lanes[i], laneWidth)
			fmt.Fprintf(&line, "%*d %s%s", digits, i, strip, strings.Repeat(" ", laneWidth-render.Width(strip)+gap))
		}
		rows = append(rows, strings.TrimRight(line.String(), " "))
	}
	return rows
}

// compactRows shows the current state of each contender as one symbol. Each row begins with the
// number of its first contender.
func (b *timeline) compactRows(columns, digits int) (rows []string) {
	var line strings.Builder
	for i, lane := range b.lanes {
		if i%columns == 0 {
			fmt.Fprintf(&line, "\n%*d ", digits, i)
		}
		sign := " "
		if len(lane) > 0 {
			sign = styles[styleIndex(lane[len(lane)-1].state)].symbol
		}
		line.WriteString(sign)
	}
	return strings.Split(line.String(), "\n")[1:]
}
