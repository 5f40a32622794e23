package demo

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/commands/commandtest"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zktest"
)

// checkSVG checks that a picture is valid XML with these titles and this number of lanes.
func checkSVG(t *testing.T, text []byte, titles []string, lanes int) {
	t.Helper()
	for d := xml.NewDecoder(bytes.NewReader(text)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for _, title := range titles {
		if !bytes.Contains(text, []byte(">"+title)) {
			t.Errorf("no %q", title)
		}
	}
	if n := bytes.Count(text, []byte(`<text class="n"`)); n != lanes {
		t.Errorf("%d lanes, want %d", n, lanes)
	}
	if bytes.Contains(text, []byte("NaN")) {
		t.Error("no numbers")
	}
}

// The lanes fit windows of all sizes.
func TestLanes(t *testing.T) {
	box := zktest.Sandbox(t, sandbox.Options{}).Addr()
	for _, window := range [][2]int{{60, 20}, {100, 30}, {200, 60}} {
		b := newFixture(t, box)
		b.screen = &commandtest.Screen{Columns: window[0], Rows: window[1]}
		b.env.Screen = b.screen
		b.runScenes(t, "parent", "-n", "4,50", "--hold", "1ms", "--fast")
		b.runScenes(t, "curator", "-n", "200", "--hold", "0", "--fast")
		sizes := map[string]bool{}
		for _, picture := range b.screen.Drawn() {
			widest := slices.MaxFunc(picture, func(a, b string) int { return render.Width(a) - render.Width(b) })
			if len(picture) >= window[1] || render.Width(widest) >= window[0] {
				t.Fatalf("%d lines and %d columns in %v: %q", len(picture), render.Width(widest), window, widest)
			}
			title, _, _ := strings.Cut(picture[0], "  ") // the time comes after it
			sizes[title] = true
		}
		if len(sizes) != 3 {
			t.Errorf("shown: %v", sizes)
		}
		if out := b.screen.Printed(); strings.Contains(out, "woken\n") {
			t.Errorf("events are printed beside the lanes: %s", out)
		}
	}
}

// Each column of a lane shows the most important state in it.
func TestStrip(t *testing.T) {
	const end = 19 * time.Millisecond
	at := func(ms int, s state) laneEvent { return laneEvent{time.Duration(ms) * time.Millisecond, s} }
	for want, lane := range map[string][]laneEvent{
		"··········": {at(0, waits)},
		"··*!··*███": {at(0, waits), at(4, woken), at(6, vain), at(12, woken), at(14, holds)},
		"·x··██    ": {at(0, waits), at(3, refused), at(8, holds), at(11, releases), at(11, left)},
		"··††††††††": {at(0, waits), at(5, killed)},
		"          ": nil,
	} {
		b := &timeline{scene: &scene{}, lanes: [][]laneEvent{lane}}
		if got := b.drawLane(0, 10, end, end).Terminal(10, false); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	seen := map[string]bool{}
	for _, l := range styles[3:] { // visible states
		if seen[l.symbol] {
			t.Errorf("%q has the sign of another", l.is)
		}
		seen[l.symbol] = true
	}
}

// The summary lists the cheapest scheme first and names failures.
func TestSummary(t *testing.T) {
	good := func(scheme string, n, requests int) *result {
		return &result{Scheme: scheme, N: n, Requests: requests, P50: 1, P99: 2, Exclusion: true, Agree: true, formulaFits: true,
			audit: audit{wire: requests, server: requests, reported: true}}
	}
	s := &summary{[]*result{good("naive", 5, 30), good("naive", 50, 2500), good("curator", 5, 11), good("curator", 50, 101)}}
	s.sort()
	var wide, narrow strings.Builder
	if err := errors.Join(s.Text(&wide), s.FitText(&narrow, 60)); err != nil {
		t.Fatal(err)
	}
	if err := s.verdict(); err != nil {
		t.Error(err)
	}
	for _, want := range []string{
		`\ncurator +101 +×1 `, `\nnaive +2500 +×24.8 `, `\ncurator +▏ 11 +.{3,} 101\n`, `\nIn every scene, the lock was exclusive`,
	} {
		if !regexp.MustCompile(want).MatchString(wide.String()) {
			t.Errorf("no %q in\n%s", want, wide.String())
		}
	}
	for line := range strings.Lines(narrow.String()) {
		if n := render.Width(strings.TrimSuffix(line, "\n")); n > 60 {
			t.Errorf("%d columns: %q", n, line)
		}
	}
	s.Results[0].Exclusion, s.Results[1].Agree = false, false
	if err := s.verdict(); err == nil || !strings.Contains(err.Error(), "curator n=50: mutual exclusion failed") || !strings.Contains(err.Error(), "naive n=50: the counts") {
		t.Errorf("%v", err)
	}
	b, err := json.Marshal(&summary{[]*result{good("parent", 20, 231)}})
	want := `{"summary":[{"scheme":"parent","n":20,"requests":231,"notifications":0,"vain":0,"refused":0,"overtakes":0,` +
		`"handoff_p50_ms":1,"handoff_p99_ms":2,"exclusion":true,"agree":true}]}`
	if err != nil || string(b) != want {
		t.Errorf("%s, %v", b, err)
	}
}

// The referee detects two holders that exclude each other, and counts overtaking.
func TestReferee(t *testing.T) {
	sc := &scene{runner: &runner{display: &display{wake: make(chan struct{}, 1)}}}
	for i, reader := range []bool{false, true, true} {
		sc.contenders = append(sc.contenders, &contender{scene: sc, sessionSlot: &sessionSlot{}, number: i, reader: reader, arrived: make(chan struct{}), refereeState: refereeState{ticket: i}})
		sc.contenders[i].beginWait()
	}
	writer, first, second := sc.contenders[0], sc.contenders[1], sc.contenders[2]
	second.lockAcquired()
	first.lockAcquired()
	if sc.exclusionBroken || sc.overtakes != 2 { // both readers overtook the writer; readers among themselves do not count
		t.Errorf("two readers: broken %v, overtook %d", sc.exclusionBroken, sc.overtakes)
	}
	writer.lockAcquired()
	if !sc.exclusionBroken {
		t.Error("a writer beside readers is not noticed")
	}
}

// The framer finds the frames of a stream in pieces of any size.
func TestFramer(t *testing.T) {
	long := strings.Repeat("x", 3*headSize)
	stream := "\x00\x00\x00\x03abc\x00\x00\x03\x00" + long + "\x00\x00\x00\x01z"
	for _, size := range []int{1, 2, 3, 5, 7, 100, len(stream)} {
		var f framer
		var got []string
		total := 0
		for rest := stream; rest != ""; rest = rest[min(size, len(rest)):] {
			f.feed([]byte(rest[:min(size, len(rest))]), func(head []byte, n int) {
				got = append(got, string(head))
				total += n
			})
		}
		if len(got) != 3 || got[0] != "abc" || got[1] != long[:headSize] || got[2] != "z" || total != len(stream) {
			t.Errorf("in pieces of %d: %q, %d bytes", size, got, total)
		}
	}
}

// Invalid arguments are rejected before anything happens.
func TestInvalidFlags(t *testing.T) {
	b := newFixture(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
	for _, line := range []string{"-n 0", "-n 5,x", "-n 5000", "--slow 0", "--poll 0s", "--hold -1s", "--step", "nobody", "parent --bogus"} {
		err := commandtest.Run(zktest.Within(t), Command(), b.env, strings.Fields(line)...)
		if bad := (*commands.UsageError)(nil); !errors.As(err, &bad) {
			t.Errorf("%s: %v", line, err)
		}
	}
	if out := b.screen.Printed(); out != "" {
		t.Error(out)
	}
}

// The sentence about the latest event is wrapped in a narrow window.
func TestStatusFits(t *testing.T) {
	for _, e := range []event{{Contender: 42, Event: vain}, {Contender: 1, Event: killed}} {
		b := newTimeline(&scene{runner: &runner{rules: rules{timeout: 4 * time.Second}}, scheme: schemes[0], n: 50})
		e.scene, e.at = b.scene, 98765*time.Millisecond
		b.add(e)
		for _, line := range b.picture(60, 20, e.at+time.Second, e.at+time.Second) {
			if line.Width() >= 60 {
				t.Errorf("%d columns: %q", line.Width(), line.Text())
			}
		}
	}
}
