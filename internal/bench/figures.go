package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// figure is a row of a table: what was measured, beside its goals.
type figure struct {
	what, got, goals string
	missed           bool
}

func table(figures []*figure) string {
	var b strings.Builder
	b.WriteString("| what | measured | goal | met |\n| --- | --: | --: | --- |\n")
	for _, f := range figures {
		goals, met := f.goals, "yes"
		switch {
		case f.missed:
			met = "**no**"
		case goals == "":
			goals, met = "–", "–"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", f.what, f.got, goals, met)
	}
	return b.String()
}

// also adds a measured text to the row.
func (f *figure) also(format string, args ...any) *figure {
	f.got = strings.TrimPrefix(f.got+"; "+fmt.Sprintf(format, args...), "; ")
	return f
}

// goal adds one of the row's goals.
func (f *figure) goal(text string, met bool) *figure {
	f.goals = strings.TrimPrefix(f.goals+"; "+text, "; ")
	f.missed = f.missed || !met
	return f
}

// time adds a time, with a goal unless that is 0.
func (f *figure) time(got, goal time.Duration) *figure {
	if f.also("%s", duration(got)); goal > 0 {
		f.goal("≤ "+duration(goal), got <= goal)
	}
	return f
}

// atMost and atLeast add a ratio, with a goal unless that is 0.
func (f *figure) atMost(got, goal float64, of string) *figure {
	if f.also("%.2f × %s", got, of); goal > 0 {
		f.goal(fmt.Sprintf("≤ %.1f ×", goal), got <= goal)
	}
	return f
}

func (f *figure) atLeast(got, goal float64, of string) *figure {
	if f.also("%.1f × as fast as %s", got, of); goal > 0 {
		f.goal(fmt.Sprintf("≥ %.1f ×", goal), got >= goal)
	}
	return f
}

// rate adds how many a second there were, with a goal unless that is 0.
func (f *figure) rate(n int, took time.Duration, goal int) *figure {
	got := int(float64(n) / took.Seconds())
	if f.also("%s/s", thousands(got)); goal > 0 {
		f.goal("≥ "+thousands(goal)+"/s", got >= goal)
	}
	return f
}

// memory adds the peak memory of runs.
func (f *figure) memory(runs []sample, goalMB int64) *figure {
	var got int64
	for _, s := range runs {
		got = max(got, s.memory)
	}
	f.also("%.1f MiB", float64(got)/(1<<20))
	return f.goal(fmt.Sprintf("≤ %d MiB", goalMB), got <= goalMB<<20)
}

func median[T int64 | float64 | time.Duration](v []T) T {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// hundredth returns the value that so many of a hundred are not above.
func hundredth(v []time.Duration, n int) time.Duration {
	return slices.Sorted(slices.Values(v))[len(v)*n/100]
}

// times returns the times until exit of the runs that took place.
func times(runs []sample) (v []time.Duration) {
	for _, s := range runs {
		if s.total > 0 {
			v = append(v, s.total)
		}
	}
	return v
}

// over returns the median of one time over the other, of the rounds in which both had a turn.
func over(above, below []sample) float64 {
	var v []float64
	for i := range above {
		if above[i].total > 0 && below[i].total > 0 {
			v = append(v, float64(above[i].total)/float64(below[i].total))
		}
	}
	return median(v)
}

func duration(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", d.Seconds()*1e3)
	case d < time.Second:
		return fmt.Sprintf("%.0f ms", d.Seconds()*1e3)
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}

// thousands writes n with commas.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
