package shell

import (
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/shell/exit"
)

// testScreen is a screen on a terminal of 10 columns and 4 rows. term records its output.
type testScreen struct {
	*screen
	t    *testing.T
	term strings.Builder
}

func newTestScreen(t *testing.T) *testScreen {
	p := &testScreen{t: t}
	terminal := Output{W: &p.term, TTY: true, Size: func() (int, int) { return 10, 4 }}
	p.screen = &screen{out: terminal, err: terminal, printer: render.Printer{W: &p.term, Format: render.Text, Safe: true}}
	return p
}

// plain returns an answer with the given text.
func plain(text string) render.Answer { return render.Answer{Words: text, JSON: text} }

// writes checks that do writes want to the terminal.
func (p *testScreen) writes(want string, do func() error) {
	p.t.Helper()
	p.term.Reset()
	err := do()
	// Updates begin and end with the output of the call.
	got := strings.NewReplacer(beginUpdate, "", endUpdate, "").Replace(p.term.String())
	if err != nil || got != want {
		p.t.Errorf("%q, %v; want %q", got, err, want)
	}
	if updates := strings.Count(p.term.String(), beginUpdate); updates != strings.Count(p.term.String(), endUpdate) ||
		updates > 0 && (!strings.HasPrefix(p.term.String(), beginUpdate) || !strings.HasSuffix(p.term.String(), endUpdate)) {
		p.t.Errorf("updates in %q", p.term.String())
	}
}

func draw(r *region, lines ...string) func() error {
	return func() error { return r.Draw(lines...) }
}

func closed(r *region, keep bool) func() error {
	return func() error { return r.Close(keep) }
}

// A block is redrawn in place, is cut to the size of the window, and stays below other output.
func TestRedraw(t *testing.T) {
	s := newTestScreen(t)
	r := s.region(commands.Answers)
	s.writes("one\ntwo\\x1b[…\n", draw(r, "one", "two\x1b[2J"))
	s.writes("\r\x1b[2Aa\x1b[K\nb\x1b[K\nc\x1b[K\n\x1b[J", draw(r, "a", "b", "c", "d", "e"))
	s.writes("\r\x1b[3A\x1b[Joh\na\nb\nc\n", func() error { s.complain("oh"); return nil })
	s.writes("\r\x1b[3A\x1b[J\nWATCHER\na\nb\nc\n", func() error { return s.event(plain("\nWATCHER\n")) })
	s.writes("", closed(r, true))
	r = s.region(commands.Answers)
	s.writes("new\n", draw(r, "new"))
	s.writes("\r\x1b[1A\x1b[Janswer\nnew\n", func() error { return s.answer(plain("answer\n")) })
	s.writes("\r\x1b[1A\x1b[J", draw(r))
	s.writes("again\n", draw(r, "again"))
	s.writes("\r\x1b[1A\x1b[J", closed(r, false))
	s.writes("", closed(r, false))
}

// A region on standard error leaves the cursor at the end of its text.
func TestLiveLine(t *testing.T) {
	s := newTestScreen(t)
	r := s.region(commands.Remarks)
	s.writes("12345…", draw(r, "1234567890"))
	s.writes("\rx\x1b[K\x1b[J", draw(r, "x"))
	s.writes("\r\x1b[Joh\nx", func() error { s.complain("oh"); return nil })
	s.writes("\r\x1b[J", closed(r, false))
	s.writes("kept", draw(r, "kept"))
	s.writes("\r\x1b[Jkept\n", closed(r, true))
}

// Two regions on one terminal never share a line, whichever was drawn first.
func TestTwoRegions(t *testing.T) {
	s := newTestScreen(t)
	live, block := s.region(commands.Remarks), s.region(commands.Answers)
	s.writes("1 of 3", draw(live, "1 of 3"))
	s.writes("\r1 of 3\x1b[K\na\x1b[K\nb\x1b[K\n\x1b[J", draw(block, "a", "b"))
	s.writes("\r\x1b[3A2 of 3\x1b[K\na\x1b[K\nb\x1b[K\n\x1b[J", draw(live, "2 of 3"))
	s.writes("\r\x1b[3A\x1b[Joh\n2 of 3\na\nb\n", func() error { s.complain("oh"); return nil })
	// Together they would be higher than the window, so the topmost line is omitted.
	s.writes("\r\x1b[3Aa\x1b[K\nb\x1b[K\nc\x1b[K\n\x1b[J", draw(block, "a", "b", "c"))
	s.writes("\r\x1b[3Aa\x1b[K\nb\x1b[K\nc\x1b[K\n\x1b[J", closed(live, false))
	s.writes("\r\x1b[3Aa\x1b[K\n\x1b[J", draw(block, "a"))
	s.writes("", closed(block, true))

	s = newTestScreen(t)
	block, live = s.region(commands.Answers), s.region(commands.Remarks)
	s.writes("a\n", draw(block, "a"))
	s.writes("\r\x1b[1Aa\x1b[K\n1 of 3\x1b[K\x1b[J", draw(live, "1 of 3"))
	s.writes("\r\x1b[1A\x1b[Janswer\na\n1 of 3", func() error { return s.answer(plain("answer\n")) })
	s.writes("\r\x1b[1A\x1b[Ja\n1 of 3", closed(block, true))
	s.writes("\r\x1b[J", closed(live, false))
}

// Output to a stream that is not the terminal does not redraw the regions.
func TestStreamsApart(t *testing.T) {
	s := newTestScreen(t)
	var file strings.Builder
	s.err = Output{W: &file}
	block, live := s.region(commands.Answers), s.region(commands.Remarks)
	if columns, rows := block.Size(); columns != 10 || rows != 4 {
		t.Errorf("on standard output: %d by %d", columns, rows)
	}
	if columns, rows := live.Size(); columns != 0 || rows != 0 {
		t.Errorf("on standard error: %d by %d", columns, rows)
	}
	s.writes("a\n", draw(block, "a"))
	s.writes("", draw(live, "1 of 3"))
	s.writes("", func() error { s.complain("oh\x1b[2J"); return nil })
	if file.String() != "oh\x1b[2J\n" {
		t.Errorf("standard error: %q", file.String())
	}

	s = newTestScreen(t)
	file.Reset()
	s.out, s.printer = Output{W: &file}, render.Printer{W: &file, Format: render.Text}
	block, live = s.region(commands.Answers), s.region(commands.Remarks)
	s.writes("1 of 3", draw(live, "1 of 3"))
	s.writes("", func() error { return errors.Join(s.answer(plain("answer\n")), block.Draw("a"), block.Close(true)) })
	if file.String() != "answer\n" {
		t.Errorf("standard output: %q", file.String())
	}
	s.writes("\r\x1b[J", closed(live, false))
}

func TestRedrawNeedsATerminal(t *testing.T) {
	var out strings.Builder
	for _, p := range []render.Printer{{Format: render.Text}, {Format: render.JSON, Safe: true}} {
		p.W = &out
		s := &screen{out: Output{W: &out, TTY: p.Safe}, err: Output{W: &out}, printer: p}
		r := s.region(commands.Answers)
		if columns, rows := r.Size(); columns != 0 || rows != 0 || r.Draw("x") != nil || out.Len() > 0 {
			t.Errorf("%d by %d, printed %q", columns, rows, out.String())
		}
	}
}

// A terminal of unknown size is treated as 80 by 24.
func TestSizeUnknown(t *testing.T) {
	for _, size := range []func() (int, int){nil, func() (int, int) { return 0, 0 }, func() (int, int) { return 70, 0 }} {
		s := &screen{err: Output{W: io.Discard, TTY: true, Size: size}}
		if columns, rows := s.region(commands.Remarks).Size(); columns != 80 || rows != 24 {
			t.Errorf("%d by %d", columns, rows)
		}
	}
}

// Draw returns the error of its write.
func TestDrawTellsAFailedWrite(t *testing.T) {
	broken := errors.New("broken")
	s := &screen{err: Output{W: reportingWriter{failing{broken}}, TTY: true}}
	r := s.region(commands.Remarks)
	if err := r.Draw("x"); !errors.Is(err, broken) || !errors.As(err, new(*exit.WriteError)) {
		t.Errorf("%v", err)
	}
}

// failing is a writer whose writes fail.
type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// Progress appears when a task has taken long enough, is updated at intervals, and is removed at
// the end. A quiet shell shows no progress.
func TestProgress(t *testing.T) {
	for _, quiet := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var term strings.Builder
			stream := Output{W: &term, TTY: true}
			s := New(Config{Out: stream, Err: stream, Quiet: quiet})
			update, end := s.env.Screen.Progress("deleted")
			for done := range 8 {
				time.Sleep(90 * time.Millisecond)
				update(done, 10)
			}
			end()
			time.Sleep(time.Second)
			update(9, 10) // a late update draws nothing
			want := "deleted 5 of 10 (50 %), 9/s" + beginUpdate + "\rdeleted 7 of 10 (70 %), 10/s\x1b[K\x1b[J" + endUpdate + "\r\x1b[J"
			if quiet {
				want = ""
			}
			if term.String() != want {
				t.Errorf("quiet %v: %q, want %q", quiet, term.String(), want)
			}
		})
	}
}

// Colors and the bell can be turned off, and errors may go to a file.
func TestColorsAndBell(t *testing.T) {
	var term, file strings.Builder
	terminal := Output{W: &term, TTY: true, Size: func() (int, int) { return 80, 24 }}
	show := func(config Config) {
		term.Reset()
		s := New(config)
		r := s.env.Screen.Region(commands.Answers)
		if err := errors.Join(r.Paint(render.Line{{Text: "b", Style: render.Red}}), r.Close(true)); err != nil {
			t.Error(err)
		}
		s.env.Screen.Alert("remark")
		s.env.Screen.Bell()
	}
	show(Config{Out: terminal, Err: terminal})
	if text := term.String(); !strings.Contains(text, "\x1b[31mb\x1b[0m") || !strings.HasSuffix(text, "remark\n\a") {
		t.Errorf("%q", text)
	}
	show(Config{Out: terminal, Err: terminal, NoBell: true})
	if text := term.String(); !strings.HasSuffix(text, "remark\n") {
		t.Errorf("with NoBell: %q", text)
	}
	terminal.Plain = true
	show(Config{Out: terminal, Err: Output{W: &file}})
	if text := term.String(); strings.Contains(text, "[31m") || strings.Contains(text, "remark") || file.String() != "remark\n" {
		t.Errorf("with Plain: %q, in the file %q", text, file.String())
	}
}

// A muted screen drops what commands draw, but still prints errors.
func TestShutOut(t *testing.T) {
	s := newTestScreen(t)
	r := s.region(commands.Answers)
	s.writes("a\n", draw(r, "a"))
	s.writes("\r\x1b[1A\x1b[J", func() error { s.mute(); return nil })
	s.writes("", draw(r, "b"))
	s.writes("", closed(r, true))
	s.writes("left\n", func() error { s.complain("left"); return nil })
}

// The terminal does not echo keys while a region is drawn. A program that gets the terminal finds
// its echo on.
func TestKeysDoNotShowInPictures(t *testing.T) {
	p := newTestScreen(t)
	var log []string
	p.echo = keyEcho{in: os.Stdin, turnOff: func(*os.File) (func() error, error) {
		log = append(log, "hide")
		return func() error { log = append(log, "show"); return nil }, nil
	}}
	want := func(steps ...string) {
		t.Helper()
		if !slices.Equal(log, steps) {
			t.Errorf("%q, want %q", log, steps)
		}
		log = nil
	}
	ended := func(key string) {
		t.Helper()
		p.noteInterrupt()
		p.writes(key, func() error { p.complain("\nend"); return nil })
	}
	live, block := p.region(commands.Remarks), p.region(commands.Answers)
	ended("\nend\n")
	for range 2 {
		zktest.Must(t, errors.Join(live.Draw("wait"), p.answer(plain("x\n")), live.Draw("wait")))
	}
	want("hide")
	zktest.Must(t, errors.Join(block.Draw("block"), live.Close(false)))
	want()
	p.noteInterrupt()
	zktest.Must(t, block.Close(true))
	want("show")
	p.writes("end\n", func() error { p.complain("\nend"); return nil }) // the key was not echoed, so no newline is needed
	zktest.Must(t, live.Draw("wait"))
	p.restoreEcho()
	want("hide", "show")
}
