package tutorial

import (
	"strings"
	"testing"

	"github.com/zksh/zksh/internal/render"
)

// The tasks are in the order of their steps, without a gap.
func TestSteps(t *testing.T) {
	step := 1
	for i, task := range tasks {
		if task.step != step && task.step != step+1 || i == 0 && task.step != 1 {
			t.Errorf("task %d, %s, is of step %d behind step %d", i, task.line, task.step, step)
		}
		step = task.step
		if task.done == nil || task.text == "" || task.hint == "" || task.line == "" {
			t.Errorf("task %d, %s, is not whole", i, task.line)
		}
	}
	if step != len(titles) || len(titles) != 10 {
		t.Errorf("%d steps, %d titles", step, len(titles))
	}
}

// The messages fit windows of all widths, and the lines to type fit the narrowest one.
func TestPagesFit(t *testing.T) {
	g := New("h:1")
	g.folder = "/tutorial-2"
	for _, columns := range []int{60, 80, 200} {
		for _, task := range tasks {
			for _, p := range []message{
				{event: "step", step: task.step, title: titles[task.step-1], text: g.expand(task.text), lines: []string{g.expand(task.line)}},
				{event: "hint", hint: g.expand(task.hint), lines: []string{g.expand(task.line)}},
				{event: "end", text: farewell},
			} {
				var b strings.Builder
				if err := p.FitText(&b, columns); err != nil {
					t.Fatal(err)
				}
				for line := range strings.Lines(b.String()) {
					if render.Width(strings.TrimSuffix(line, "\n")) >= columns {
						t.Errorf("%d columns: %q is too wide", columns, line)
					}
				}
				if strings.Contains(b.String(), "{}") {
					t.Errorf("the folder is missing: %s", b.String())
				}
			}
		}
	}
}
