package replay

import "testing"

// TestUndeclared sees to it that the table cannot explain away what no rule allows.
func TestUndeclared(t *testing.T) {
	r := &recording{name: "x", input: "get /a\n", steps: []step{{line: "get /a", out: []string{"data"}}}}
	wrong := []answer{
		{},
		{out: []string{"dada"}},
		{out: []string{"data", ""}},
		{err: []string{"stdin:1: get: Node does not exist: /a"}, status: 1},
		{err: []string{"stdin:1: get: missing path (usage: get path)"}, status: 2},
		{out: []string{"data"}, err: []string{"panic"}, status: 2},
	}
	for _, got := range wrong {
		d := difference{r: r, got: got}
		if name := guess(d); name != "?" {
			t.Errorf("%s explains %q", name, got.out)
		}
		for _, rule := range append(mechanicalRules, "?", "") {
			if rule != softFailure && rule != unknownCommand && explain(rule, d) == "" {
				t.Errorf("%q explains %q", rule, got.out)
			}
		}
	}
}

// TestStale sees to it that a row outlives its difference only as a failure.
func TestStale(t *testing.T) {
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
