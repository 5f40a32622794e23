package demo

import (
	"fmt"
	"strings"
	"time"

	"github.com/zksh/zksh/internal/render"
)

// board is the history of one scene: a lane for each contender.
type board struct {
	scene  *scene
	lanes  [][]mark
	last   event
	total  map[state]int
	result *result // once it is over
}

// mark is the beginning of a state, or a moment, in a lane.
type mark struct {
	at time.Duration
	is state
}

func newBoard(sc *scene) *board {
	return &board{scene: sc, lanes: make([][]mark, sc.n+1), total: map[state]int{}}
}

func (b *board) add(e event) {
	b.lanes[e.Contender] = append(b.lanes[e.Contender], mark{e.at, e.Event})
	b.total[e.Event]++
	b.last = e
}

// looks are how states are drawn, and described. Of those that fall into one place
// the last of this list is drawn. Each has a sign of its own.
var looks = []struct {
	is     state
	sign   string
	lasts  bool // until another one that lasts
	legend string
	words  string
}{
	{"", " ", true, "", ""},
	{left, " ", true, "", "is through"},
	{releases, " ", true, "", "lets go"},
	{waits, "·", true, "waits", "waits"},
	{woken, "*", false, "woken", "is woken: is it the first?"},
	{vain, "!", false, "in vain", "was woken in vain, and waits again"},
	{refused, "x", false, "refused", "wants to create the znode, and is refused"},
	{holds, "█", true, "holds", "holds the lock"},
	{lostTurn, "?", true, "gave up", "gives up: the one before it had vanished between list and watch"},
	{killed, "†", true, "killed", "is killed: its znode stays until the session times out"},
}

// look is the place of a state in looks.
func look(s state) int {
	for i, l := range looks {
		if l.is == s {
			return i
		}
	}
	return 0
}

// strip draws a lane from the beginning to the last event, in so many columns.
func (b *board) strip(lane []mark, columns int) string {
	const least = 2 * time.Millisecond // of a column
	step := max(least, b.last.at/time.Duration(columns)+1)
	var s strings.Builder
	state, i := 0, 0
	for c := range columns {
		end := step * time.Duration(c+1)
		shown := state
		for ; i < len(lane) && lane[i].at < end; i++ {
			l := look(lane[i].is)
			shown = max(shown, l)
			if looks[l].lasts {
				state = l
			}
		}
		if end-step > b.last.at {
			break
		}
		s.WriteString(looks[shown].sign)
	}
	return s.String()
}

// words tells the last event.
func (b *board) words() string {
	if b.last.scene == nil {
		return ""
	}
	who := fmt.Sprintf("Contender %d", b.last.Contender)
	if b.last.Contender == 0 {
		who = "The starter"
	}
	return fmt.Sprintf("%.1f ms  %s %s", ms(b.last.at), who, looks[look(b.last.Event)].words)
}

// legend tells the signs that the scene has.
func (b *board) legend() string {
	var parts []string
	for _, l := range looks {
		if l.legend != "" && (b.total[l.is] > 0 || l.is == waits || l.is == holds) {
			parts = append(parts, l.sign+" "+l.legend)
		}
	}
	return strings.Join(parts, "  ")
}

// picture is the scene as it is now, in a window.
func (b *board) picture(columns, rows int) []string {
	const words, gap = 5, 2 // lines that are no lanes; between two lanes of a line
	t := b.scene.soFar()
	lines := []string{
		fmt.Sprintf("%s, %d contenders", b.scene.scheme.name, b.scene.n),
		fmt.Sprintf("%d requests, %d notified, %d in vain, %d refused", t.requests, t.notifications, b.total[vain], t.refused),
	}
	high := max(1, min(rows-1-words, len(b.lanes)))
	side := (len(b.lanes) + high - 1) / high
	high = (len(b.lanes) + side - 1) / side
	digits := len(fmt.Sprint(b.scene.n))
	wide := max(1, (columns-1+gap)/side-gap-digits-1)
	for row := range high {
		var line strings.Builder
		for i := row; i < len(b.lanes); i += high {
			strip := b.strip(b.lanes[i], wide)
			fmt.Fprintf(&line, "%*d %s%s", digits, i, strip, strings.Repeat(" ", wide-render.Width(strip)+gap))
		}
		lines = append(lines, strings.TrimRight(line.String(), " "))
	}
	return append(lines, "", b.words(), b.legend())
}
