package manual

import (
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// The pages use a part of Markdown, which this file reads. A library for all of Markdown
// would take longer to start than the rest of the program.

type blockKind int

const (
	paragraph blockKind = iota
	heading
	code
	list
	table
	comment
)

// A block is a part of a page. Its kind says which fields are set.
type block struct {
	kind  blockKind
	text  string     // of a paragraph, a heading or a comment, as it is in the source
	level int        // of a heading, from 1
	lines []string   // of code
	rows  [][]string // cells of a table as they are in the source, its header first

	items   [][]block // of a list
	ordered bool      // the items have numbers,
	start   int       // of which this is the first
	tight   bool      // there are no empty lines between the items
}

// compiled returns an expression that is compiled when a page is first read, not at the
// start of the program.
func compiled(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

var (
	headingLine = compiled(`^(#{1,6}) +(.*?)(?: +#+)? *$`)
	fenceLine   = compiled("^ {0,3}(```+)[^`]*$")
	itemLine    = compiled(`^( {0,3}(?:[-*+]|(\d{1,9})[.)]) +)(\S.*)$`)
	ruleLine    = compiled(`^ {0,3}\|(?: *:?-+:? *\|)+ *$`)
)

// reader reads lines as blocks.
type reader struct {
	lines []string
	at    int
}

// readBlocks returns the blocks of a text.
func readBlocks(lines []string) (blocks []block) {
	r := &reader{lines: lines}
	for r.at < len(r.lines) {
		if line := r.lines[r.at]; strings.TrimSpace(line) == "" {
			r.at++
		} else {
			blocks = append(blocks, r.block(line))
		}
	}
	return blocks
}

// block reads the block that begins with a line, which is the next one.
func (r *reader) block(line string) block {
	switch {
	case headingLine().MatchString(line):
		m := headingLine().FindStringSubmatch(line)
		r.at++
		return block{kind: heading, level: len(m[1]), text: m[2]}
	case strings.HasPrefix(line, "<!--"):
		return r.comment()
	case fenceLine().MatchString(line):
		return r.code()
	case itemLine().MatchString(line):
		return r.list()
	case r.at+1 < len(r.lines) && strings.HasPrefix(line, "|") && ruleLine().MatchString(r.lines[r.at+1]):
		return r.table()
	}
	return r.paragraph()
}

// begins reports whether a line begins a block that may follow a paragraph without an empty
// line between them.
func begins(line string) bool {
	return headingLine().MatchString(line) || fenceLine().MatchString(line) || itemLine().MatchString(line) || strings.HasPrefix(line, "<!--")
}

func (r *reader) paragraph() block {
	first := r.at
	for r.at++; r.at < len(r.lines) && strings.TrimSpace(r.lines[r.at]) != "" && !begins(r.lines[r.at]); r.at++ {
	}
	return block{kind: paragraph, text: strings.Join(r.lines[first:r.at], "\n")}
}

func (r *reader) comment() block {
	first := r.at
	for r.at++; r.at < len(r.lines) && !strings.Contains(r.lines[r.at-1], "-->"); r.at++ {
	}
	return block{kind: comment, text: strings.Join(r.lines[first:r.at], "\n")}
}

func (r *reader) code() block {
	mark := fenceLine().FindStringSubmatch(r.lines[r.at])[1]
	b := block{kind: code}
	for r.at++; r.at < len(r.lines); r.at++ {
		line := r.lines[r.at]
		if end := strings.TrimSpace(line); strings.HasPrefix(end, mark) && strings.Trim(end, "`") == "" {
			r.at++
			break
		}
		b.lines = append(b.lines, line)
	}
	return b
}

func (r *reader) table() block {
	b := block{kind: table}
	for first := r.at; r.at < len(r.lines) && strings.HasPrefix(r.lines[r.at], "|"); r.at++ {
		if r.at == first+1 { // the rule below the header
			continue
		}
		row := cellsOf(r.lines[r.at])
		if b.rows != nil { // as many cells as the header has
			row = append(row, make([]string, len(b.rows[0]))...)[:len(b.rows[0])]
		}
		b.rows = append(b.rows, row)
	}
	return b
}

// cellsOf returns the cells of a line of a table. A bar in a cell has a backslash before it.
func cellsOf(line string) (cells []string) {
	const bar = "\x00"
	line = strings.Trim(strings.ReplaceAll(line, `\|`, bar), " ")
	for cell := range strings.SplitSeq(strings.Trim(line, "|"), "|") {
		cells = append(cells, strings.TrimSpace(strings.ReplaceAll(cell, bar, "|")))
	}
	return cells
}

func (r *reader) list() block {
	m := itemLine().FindStringSubmatch(r.lines[r.at])
	b := block{kind: list, ordered: m[2] != "", tight: true}
	b.start, _ = strconv.Atoi(m[2]) // digits, or nothing in a list without numbers
	for r.at < len(r.lines) {
		m := itemLine().FindStringSubmatch(r.lines[r.at])
		if m == nil || (m[2] != "") != b.ordered {
			break
		}
		lines, loose := r.item(len(m[1]), m[3])
		b.items = append(b.items, readBlocks(lines))
		next := r.at < len(r.lines) && itemLine().MatchString(r.lines[r.at])
		b.tight = b.tight && (!loose || !next)
	}
	return b
}

// item reads an item of a list, whose text begins at a column. It returns the lines without
// what is before that column, and whether empty lines follow.
func (r *reader) item(column int, first string) (lines []string, loose bool) {
	lines = []string{first}
	for r.at++; r.at < len(r.lines); r.at++ {
		line := r.lines[r.at]
		indent := len(line) - len(strings.TrimLeft(line, " "))
		switch {
		case strings.TrimSpace(line) == "":
			loose = true
			lines = append(lines, "")
			continue
		case indent >= column:
			line = line[column:]
		case loose || begins(line):
			return lines, loose
		}
		loose = false
		lines = append(lines, line)
	}
	return lines, loose
}
