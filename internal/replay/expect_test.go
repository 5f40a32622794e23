package replay

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// An answer is the output and the exit status of zksh for one step.
type answer struct {
	out, err []string
	status   int
}

func (a answer) equal(b answer) bool {
	return slices.Equal(a.out, b.out) && slices.Equal(a.err, b.err) && a.status == b.status
}

// normal returns the normalized answer, as in the table.
func (a answer) normal() answer {
	return answer{split(normal(joined(a.out))), split(normal(joined(a.err))), a.status}
}

// Mechanical rules: predict and expect derive their effects from the recording alone.
const (
	createdToStdout    = "created-to-stdout"
	errorPrefix        = "error-prefix"
	softFailure        = "soft-failure"
	unknownCommand     = "unknown-command"
	statusNoServer     = "status-69"
	statBlock          = "stat-block"
	firstFailureStatus = "first-failure-status"
)

var (
	// A notice on standard error is not an error. zksh prints it unchanged.
	notice              = regexp.MustCompile(`^('.*' has been deprecated|The command '.*' has been deprecated|absolute path is )`)
	unknownCommandError = regexp.MustCompile(`^Command not found: Command not found (.*)$`)
	statLine            = regexp.MustCompile(`^([cmp]Zxid|[cm]time|(c|data|acl)[vV]ersion|ephemeralOwner|dataLength|numChildren) = `)
	connectionLost      = regexp.MustCompile(`ConnectionLoss|Session expired|^Not connected$`)
	softError           = regexp.MustCompile(`^(quota for .* does not exist\.|Quota does not exist for .*|Not connected)$`)
)

// predict returns the answer that zksh should give to a step, from the recording and the
// mechanical rules, and the names of the rules that made a difference.
func predict(r *recording, i int) (answer, []string) {
	var a answer
	var used, errs []string
	rec := r.steps[i]
	if r.isVersion34() {
		rec, used = r.asNewerVersion(i)
	}
	for _, line := range rec.out {
		if softError.MatchString(line) {
			used, errs = append(used, softFailure), append(errs, line)
		} else {
			a.out = append(a.out, line)
		}
	}
	for _, line := range rec.err {
		switch {
		case strings.HasPrefix(line, "Created "):
			used, a.out = append(used, createdToStdout), append(a.out, line)
		case notice.MatchString(line):
			a.err = append(a.err, line)
		default:
			if softError.MatchString(line) {
				used = append(used, softFailure)
			}
			errs = append(errs, line)
		}
	}
	if len(errs) == 0 {
		return a, used
	}
	a.status = 1
	cmd := r.command(i)
	if m := unknownCommandError.FindStringSubmatch(errs[len(errs)-1]); m != nil && m[1] == cmd {
		used, a.status = append(used, unknownCommand), 127
		errs = []string{fmt.Sprintf("unknown command %q (to list all commands, run: help all)", cmd)}
	}
	if connectionLost.MatchString(errs[0]) {
		a.status = 69
		if !slices.Contains(used, softFailure) {
			used = append(used, statusNoServer)
		}
	}
	for _, line := range errs {
		if !r.oneShot() {
			used = append(used, errorPrefix)
			line = fmt.Sprintf("stdin:%d: %s: %s", i+1, cmd, line)
		}
		a.err = append(a.err, line)
	}
	return a, used
}

// isVersion34 reports whether the recording is of zkCli 3.4.
func (r *recording) isVersion34() bool { return strings.HasPrefix(r.name, "v34/") }

// asNewerVersion returns a step of 3.4 with the output of later versions. zkCli 3.4 prints
// stats on standard error, even for commands that need not print one.
func (r *recording) asNewerVersion(i int) (step, []string) {
	s, cmd := r.steps[i], r.command(i)
	var used, errs []string
	for _, line := range s.err {
		if !statLine.MatchString(line) {
			errs = append(errs, line)
			continue
		}
		used = append(used, statBlock)
		if cmd == "stat" || cmd == "ls2" {
			s.out = append(slices.Clip(s.out), line)
		}
	}
	s.err = errs
	if slices.Equal(s.out, []string{"Sync returned 0"}) {
		s.out = []string{"Sync is OK"}
	}
	return s, used
}

// command returns the name of the command in a step.
func (r *recording) command(i int) string {
	line := r.steps[i].line
	if r.oneShot() {
		return r.firstPlainArg()
	}
	line = strings.TrimSpace(line)
	if line == "" {
		return ""
	}
	for _, quote := range []string{`"`, "'"} {
		if rest, ok := strings.CutPrefix(line, quote); ok {
			if name, _, closed := strings.Cut(rest, quote); closed {
				return name
			}
		}
	}
	return strings.Fields(line)[0]
}

// firstPlainArg returns the first argument that zkCli does not treat as an option or the
// value of an option.
func (r *recording) firstPlainArg() string {
	for i := 0; i < len(r.args); i++ {
		switch arg := r.args[i]; {
		case arg == "-server" || arg == "-timeout":
			i++
		case !strings.HasPrefix(arg, "-"):
			return arg
		}
	}
	return ""
}

// An expectation is the expected behaviour of zksh for a recording.
type expectation struct {
	answers  []answer // one for each step
	rules    []string // mechanical rules that made a difference
	problems []string // errors in the table
}

// expect derives the expectation from the recording, the mechanical rules and the table. A
// step of the table that equals the prediction is stale, which is a problem.
func expect(r *recording, row *row) expectation {
	var e expectation
	rules := map[string]bool{}
	used := map[int]bool{}
	var earlier []string
	for i := range r.steps {
		a, mechanical := predict(r, i)
		if d := row.step(i + 1); d != nil {
			used[i+1] = true
			if d.line != r.tableLine(i) {
				e.problems = append(e.problems, fmt.Sprintf("line %d is %q, the table has %q", i+1, r.tableLine(i), d.line))
			}
			if d.answer.equal(a.normal()) {
				e.problems = append(e.problems, fmt.Sprintf("line %d: stale: %s makes no difference any more", i+1, d.rule))
			}
			if why := whyNotCovered(d.rule, difference{r: r, i: i, got: d.answer, earlier: earlier}); why != "" {
				e.problems = append(e.problems, fmt.Sprintf("line %d: %s", i+1, why))
			}
			earlier = append(earlier, d.rule)
			a = d.answer
		} else {
			for _, m := range mechanical {
				rules[m] = true
			}
		}
		e.answers = append(e.answers, a)
	}
	for _, d := range row.steps {
		if !used[d.number] {
			e.problems = append(e.problems, fmt.Sprintf("there is no line %d", d.number))
		}
	}
	if why := r.lastStatus(row, e.answers); why != "" {
		e.problems = append(e.problems, why)
	}
	if e.exitStatus() != e.answers[len(e.answers)-1].status {
		rules[firstFailureStatus] = true
	}
	for _, name := range mechanicalRules {
		if rules[name] {
			e.rules = append(e.rules, name)
		}
	}
	return e
}

// lastStatus compares the recorded exit status, which is that of the last command, with the
// status of the last answer. It returns a problem, or "" if they are equal or if a rule or
// the table changes the answer to the last command.
func (r *recording) lastStatus(row *row, answers []answer) string {
	last := len(r.steps) - 1
	for !r.oneShot() && last > 0 && (r.command(last) == "quit" || r.command(last) == "") {
		last--
	}
	_, rules := predict(r, last)
	ended := slices.ContainsFunc(row.steps, func(s tableStep) bool { return s.rule == "script-ends" })
	moved := ended || slices.Contains(rules, softFailure) || slices.Contains(rules, statusNoServer)
	if row.step(last+1) != nil || moved || r.isVersion34() || strconv.Itoa(answers[last].status) == r.status {
		return ""
	}
	return fmt.Sprintf("line %d: zkCli's status is %s, zksh's would be %d", last+1, r.status, answers[last].status)
}

// tableLine returns a step's line in the format of the table.
func (r *recording) tableLine(i int) string {
	if r.oneShot() {
		return strings.Join(r.args, " ")
	}
	return strconv.Quote(r.steps[i].line)
}

// exitStatus returns the status of the first failure, or 0.
func (e *expectation) exitStatus() int {
	for _, a := range e.answers {
		if a.status != 0 {
			return a.status
		}
	}
	return 0
}

// streams returns the normalized outputs of all steps.
func (e *expectation) streams() (out, errs string) {
	var o, x []string
	for _, a := range e.answers {
		o, x = append(o, a.out...), append(x, a.err...)
	}
	return normal(joined(o)), normal(joined(x))
}

func joined(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return strings.Join(lines, "\n") + "\n"
}
