package demo

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/render"
)

// A pace determines when and how fast scenes are shown. The contenders themselves always run at
// full speed, so that no pause of the demonstration is part of a measured time.
type pace struct {
	live bool    // whether scenes are shown while they run
	slow float64 // factor by which scenes are slowed down when they are shown after their end; 0 for sceneLength
}

// sceneLength is the time for which a scene is shown on a terminal. A scene that takes longer is
// not slowed down.
const sceneLength = 8 * time.Second

// sideBySide is the minimum number of columns to draw two schemes beside each other.
const sideBySide = 160

// newPace returns the pace for a plan. terminal means that the output is drawn on a terminal or in a
// recording.
func newPace(p *plan, terminal bool) pace {
	// These scenes wait for a person, a server or a clock, so people can follow them as they run.
	long := time.Duration(p.sizes[0])*p.hold >= sceneLength/2
	switch {
	case p.slow > 0:
		return pace{slow: p.slow}
	case terminal && !p.fast && p.step == nil && !p.killHolder && !p.killMiddle && !p.classic && !long:
		return pace{}
	}
	return pace{live: true}
}

// factor returns by which factor a group of scenes is slowed down.
func (p pace) factor(longest time.Duration) float64 {
	if p.slow > 0 {
		return p.slow
	}
	return max(1, float64(sceneLength)/float64(max(longest, time.Millisecond)))
}

// show shows count scenes that have just ended, with the same time scale, and leaves their last
// picture on the screen. If they were shown while they ran, it shows only that picture.
func (s *display) show(ctx context.Context, count int) error {
	var group []*timeline
	s.do(func() error {
		group = s.timelines[len(s.timelines)-count:]
		return nil
	})
	var longest time.Duration
	for _, b := range group {
		longest = max(longest, b.length)
	}
	factor, begun, printed := s.pace.factor(longest), time.Now(), 0
	columns, _ := s.region.Size()
	for at := time.Duration(0); !s.pace.live && at <= longest; {
		s.do(func() (err error) {
			if columns > 0 {
				err = s.drawGroup(group, at, longest, factor)
			}
			for ; columns == 0 && err == nil && printed < len(group[0].events) && group[0].events[printed].at <= at; printed++ {
				err = s.screen.Print(group[0].events[printed])
			}
			return err
		})
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := pause(ctx, framePause); err != nil {
			return err
		}
		at = scale(time.Since(begun), 1/factor)
	}
	s.do(func() error {
		for _, e := range group[0].events[printed:] {
			if s.pace.live || columns > 0 {
				break
			}
			if err := s.screen.Print(e); err != nil {
				return err
			}
		}
		if err := s.drawGroup(group, longest, longest, factor); err != nil {
			return err
		}
		return s.region.Close(true)
	})
	return nil
}

// drawGroup draws scenes as they were at the given time after their beginning.
func (s *display) drawGroup(group []*timeline, at, longest time.Duration, factor float64) error {
	columns, rows := s.region.Size()
	if columns == 0 {
		return nil
	}
	var lines []render.Line
	if !s.pace.live && at < longest && factor > 1.05 {
		lines = append(lines, render.Line{{Text: fmt.Sprintf("slow motion: 1 s shows %.1f ms", 1000/factor), Style: render.Dim}})
		rows--
	}
	switch {
	case len(group) == 1:
		lines = append(lines, group[0].picture(columns, rows, at, longest)...)
	case columns >= sideBySide:
		half := (columns - 3) / 2
		left, right := group[0].picture(half, rows, at, longest), group[1].picture(half, rows, at, longest)
		for i := range max(len(left), len(right)) {
			l := lineAt(left, i)
			l = append(l, render.Span{Text: strings.Repeat(" ", max(0, half-l.Width())) + " │ ", Style: render.Dim})
			lines = append(lines, append(l, lineAt(right, i)...))
		}
	default: // the window has become narrower
		for _, b := range group {
			lines = append(lines, b.picture(columns, rows/len(group), at, longest)...)
		}
	}
	return s.region.Paint(lines...)
}

func lineAt(lines []render.Line, i int) render.Line {
	if i < len(lines) {
		return lines[i][:len(lines[i]):len(lines[i])]
	}
	return nil
}

// announce says in advance how long the demonstration will take, if it takes long.
func (p *plan) announce(env *commands.Env, pc pace) {
	var total time.Duration
	for _, n := range p.sizes {
		scene := time.Duration(n) * p.hold
		if p.classic {
			scene = time.Duration(n) * (p.hold + p.poll/2)
		}
		if p.killHolder || p.killMiddle {
			scene += p.timeout
		}
		if columns, _ := env.Screen.Region(commands.Answers).Size(); !pc.live && columns > 0 {
			scene = max(scene, sceneLength)
		}
		total += scene * time.Duration(len(p.schemes))
	}
	if total < 20*time.Second || p.step != nil {
		return
	}
	text := fmt.Sprintf("this takes about %s", total.Round(10*time.Second))
	if total >= time.Minute {
		text = fmt.Sprintf("this takes about %.0f minutes", total.Minutes()+0.5)
	}
	if scenes := len(p.schemes) * len(p.sizes); scenes > 1 {
		text = fmt.Sprintf("%d scenes: %s", scenes, text)
	}
	if !pc.live {
		text += "; --fast plays at full speed"
	}
	env.Screen.Note(text)
}
