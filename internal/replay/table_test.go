package replay

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// tableFile is the table of all differences between zkCli and zksh in the recordings. It has
// these lines:
//
//	== recording: mechanical rules
//	-- number rule | input line
//	O| line of zksh's standard output
//	E| line of zksh's standard error
//	=  exit status, if not 0
const tableFile = recordings + "/differences.txt"

// A row is the entry of the table for one recording.
type row struct {
	rules []string
	steps []tableStep
}

// A tableStep is an input line to which zksh gives another answer than predicted.
type tableStep struct {
	number int
	rule   string
	line   string
	answer answer
}

func (r *row) step(number int) *tableStep {
	for i := range r.steps {
		if r.steps[i].number == number {
			return &r.steps[i]
		}
	}
	return nil
}

// readTable reads the table.
func readTable() (map[string]*row, error) {
	data, err := os.ReadFile(tableFile)
	if err != nil {
		return nil, err
	}
	rows := map[string]*row{}
	var cur *row
	n := 0
	for line := range strings.Lines(string(data)) {
		n++
		line = strings.TrimSuffix(line, "\n")
		kind, rest, _ := strings.Cut(line, " ")
		var step *tableStep
		if cur != nil && len(cur.steps) > 0 {
			step = &cur.steps[len(cur.steps)-1]
		}
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case kind == "==":
			name, rules, ok := strings.Cut(rest, ":")
			if !ok || rows[name] != nil {
				return nil, fmt.Errorf("%s:%d: %q", tableFile, n, line)
			}
			cur = &row{rules: strings.Fields(rules)}
			rows[name] = cur
		case kind == "--" && cur != nil:
			head, shown, ok := strings.Cut(rest, " | ")
			number, rule, _ := strings.Cut(head, " ")
			at, err := strconv.Atoi(number)
			if !ok || err != nil {
				return nil, fmt.Errorf("%s:%d: %q", tableFile, n, line)
			}
			cur.steps = append(cur.steps, tableStep{number: at, rule: rule, line: shown})
		case kind == "O|" && step != nil:
			step.answer.out = append(step.answer.out, rest)
		case kind == "E|" && step != nil:
			step.answer.err = append(step.answer.err, rest)
		case kind == "=" && step != nil:
			if step.answer.status, err = strconv.Atoi(strings.TrimSpace(rest)); err != nil {
				return nil, fmt.Errorf("%s:%d: %w", tableFile, n, err)
			}
		default:
			return nil, fmt.Errorf("%s:%d: what is %q?", tableFile, n, line)
		}
	}
	return rows, nil
}

// writeTable writes the table. It keeps the comment at its beginning.
func writeTable(rows map[string]*row) error {
	old, err := os.ReadFile(tableFile)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	for line := range strings.Lines(string(old)) {
		if line != "\n" && !strings.HasPrefix(line, "#") {
			break
		}
		b.WriteString(line)
	}
	names := make([]string, 0, len(rows))
	for name := range rows {
		names = append(names, name)
	}
	slices.Sort(names)
	for i, name := range names {
		r := rows[name]
		if i > 0 {
			b.WriteString("\n")
		}
		b.WriteString(strings.TrimRight("== "+name+": "+strings.Join(r.rules, " "), " ") + "\n")
		for _, s := range r.steps {
			fmt.Fprintf(&b, "-- %d %s | %s\n", s.number, s.rule, s.line)
			for _, l := range s.answer.out {
				b.WriteString("O| " + l + "\n")
			}
			for _, l := range s.answer.err {
				b.WriteString("E| " + l + "\n")
			}
			if s.answer.status != 0 {
				fmt.Fprintf(&b, "= %d\n", s.answer.status)
			}
		}
	}
	return os.WriteFile(tableFile, b.Bytes(), 0o644)
}
