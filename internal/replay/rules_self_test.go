package replay

import "testing"

// No rule covers an arbitrary wrong answer, so the table cannot declare one.
func TestWrongAnswersAreNotCovered(t *testing.T) {
	r := &recording{name: "x", input: "get /a\n", steps: []step{{line: "get /a", out: []string{"data"}}}}
	wrong := []answer{
		{},
		{out: []string{"dada"}},
		{out: []string{"data", ""}},
		{err: []string{"stdin:1: get: Node does not exist: /a"}, status: 1},
		{err: []string{"stdin:1: get: missing path (see: zksh help get)"}, status: 2},
		{out: []string{"data"}, err: []string{"panic"}, status: 2},
		{err: []string{" (expected dataVersion 1, is 2)"}, status: 1},
	}
	for _, got := range wrong {
		d := difference{r: r, got: got}
		if name := coveringRule(d); name != "?" {
			t.Errorf("%s explains %q", name, got.out)
		}
		for _, rule := range append(mechanicalRules, "?", "") {
			if rule != softFailure && rule != unknownCommand && whyNotCovered(rule, d) == "" {
				t.Errorf("%q explains %q", rule, got.out)
			}
		}
	}
}

// A row of the table is an error if zksh's answer no longer differs from the prediction, or
// if the recording has no such step.
func TestStaleRows(t *testing.T) {
	r := &recording{name: "x", status: "0", input: "create /a\n", steps: []step{{line: "create /a", err: []string{"Created /a"}}}}
	stale := &row{steps: []tableStep{{number: 1, rule: "usage", line: `"create /a"`, answer: answer{out: []string{"Created /a"}}}}}
	if e := expect(r, stale); len(e.problems) == 0 {
		t.Error("a step that differs no more is accepted")
	}
	beyond := &row{steps: []tableStep{{number: 2, rule: "usage"}}}
	if e := expect(r, beyond); len(e.problems) == 0 {
		t.Error("a step that is not there is accepted")
	}
	if e := expect(r, &row{}); len(e.problems) != 0 || len(e.rules) != 1 || e.rules[0] != createdToStdout {
		t.Errorf("rules %v, problems %v", e.rules, e.problems)
	}
}
