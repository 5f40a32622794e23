package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A figure is a row in a table of results: the name of a measurement, the measured values, and
// the goals for these values.
type figure struct {
	name, measured, goals string
	missed                bool
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
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", f.name, f.measured, goals, met)
	}
	return b.String()
}

// add appends a formatted value to the row, and returns the row.
func (f *figure) add(format string, args ...any) *figure {
	f.measured = strings.TrimPrefix(f.measured+"; "+fmt.Sprintf(format, args...), "; ")
	return f
}

// goal appends a goal to the row. met is true if the goal was reached.
func (f *figure) goal(text string, met bool) *figure {
	f.goals = strings.TrimPrefix(f.goals+"; "+text, "; ")
	f.missed = f.missed || !met
	return f
}

// time appends a measured time to the row. goal is the maximum time, or 0 if there is no goal.
func (f *figure) time(got, goal time.Duration) *figure {
	if f.add("%s", duration(got)); goal > 0 {
		f.goal("≤ "+duration(goal), got <= goal)
	}
	return f
}

// atMost appends to the row the ratio of a measured time to that of a reference, such as "`ls -R`".
// goal is the maximum ratio, or 0 if there is no goal.
func (f *figure) atMost(got, goal float64, reference string) *figure {
	if f.add("%.2f × %s", got, reference); goal > 0 {
		f.goal(fmt.Sprintf("≤ %.1f ×", goal), got <= goal)
	}
	return f
}

// atLeast appends to the row the ratio of a measured speed to that of a reference, such as
// "`zkCli.sh`". goal is the minimum ratio, or 0 if there is no goal.
func (f *figure) atLeast(got, goal float64, reference string) *figure {
	if f.add("%.1f × as fast as %s", got, reference); goal > 0 {
		f.goal(fmt.Sprintf("≥ %.1f ×", goal), got >= goal)
	}
	return f
}

// rate appends to the row the number of operations per second, for n operations in the given time.
// goal is the minimum rate, or 0 if there is no goal.
func (f *figure) rate(n int, took time.Duration, goal int) *figure {
	got := int(float64(n) / took.Seconds())
	if f.add("%s/s", thousands(got)); goal > 0 {
		f.goal("≥ "+thousands(goal)+"/s", got >= goal)
	}
	return f
}

// memory appends to the row the highest peak memory of all runs. The goal is at most goalMiB.
func (f *figure) memory(runs []sample, goalMiB int64) *figure {
	var got int64
	for _, s := range runs {
		got = max(got, s.memory)
	}
	f.add("%.1f MiB", float64(got)/(1<<20))
	return f.goal(fmt.Sprintf("≤ %d MiB", goalMiB), got <= goalMiB<<20)
}

func median[T int64 | float64 | time.Duration](v []T) T {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// percentile returns the n-th percentile of the durations in v, where n is from 0 to 99.
func percentile(v []time.Duration, n int) time.Duration {
	return slices.Sorted(slices.Values(v))[len(v)*n/100]
}

// times returns the total time of each run. It omits rounds in which the job was skipped.
func times(runs []sample) (v []time.Duration) {
	for _, s := range runs {
		if s.total > 0 {
			v = append(v, s.total)
		}
	}
	return v
}

// medianRatio returns the median, over all rounds in which both jobs were run, of the time of the
// first job divided by that of the second.
func medianRatio(above, below []sample) float64 {
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

// thousands formats n with commas between groups of three digits.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
