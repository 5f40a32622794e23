package manual

import (
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// This file parses the part of Markdown that the manual pages use. A library for full Markdown
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

// A block is a block of Markdown on a page, such as a paragraph or a list. The kind of the block
// determines which fields are set.
type block struct {
	kind  blockKind
	text  string     // Markdown source of the text of a paragraph, heading or comment
	level int        // level of a heading; the title of a page has level 1
	lines []string   // lines of code
	rows  [][]string // Markdown source of the cells of a table; the first row is the header

	items   [][]block // items of a list
	ordered bool      // whether the items of the list are numbered
	start   int       // number of the first item, if the list is ordered
	tight   bool      // whether there are no empty lines between the items
}

// compiled returns a function that compiles a regular expression at its first call. This keeps the
// start of the program fast.
func compiled(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

var (
	headingLine = compiled(`^(#{1,6}) +(.*?)(?: +#+)? *$`)
	fenceLine   = compiled("^ {0,3}(```+)[^`]*$")
	itemLine    = compiled(`^( {0,3}(?:[-*+]|(\d{1,9})[.)]) +)(\S.*)$`)
	ruleLine    = compiled(`^ {0,3}\|(?: *:?-+:? *\|)+ *$`)
)

// A reader parses lines into blocks.
type reader struct {
	lines []string
	next  int // index of the next line
}

// readBlocks parses the lines of a page, or of an item of a list, into blocks.
func readBlocks(lines []string) (blocks []block) {
	r := &reader{lines: lines}
	for r.next < len(r.lines) {
		if line := r.lines[r.next]; strings.TrimSpace(line) == "" {
			r.next++
		} else {
			blocks = append(blocks, r.block(line))
		}
	}
	return blocks
}

// block parses the next block. line is the first line of the block.
func (r *reader) block(line string) block {
	switch {
	case headingLine().MatchString(line):
		m := headingLine().FindStringSubmatch(line)
		r.next++
		return block{kind: heading, level: len(m[1]), text: m[2]}
	case strings.HasPrefix(line, "<!--"):
		return r.comment()
	case fenceLine().MatchString(line):
		return r.code()
	case itemLine().MatchString(line):
		return r.list()
	case r.next+1 < len(r.lines) && strings.HasPrefix(line, "|") && ruleLine().MatchString(r.lines[r.next+1]):
		return r.table()
	}
	return r.paragraph()
}

// beginsBlock reports whether a line begins a block that can directly follow a paragraph, without an
// empty line.
func beginsBlock(line string) bool {
	return headingLine().MatchString(line) || fenceLine().MatchString(line) || itemLine().MatchString(line) ||
		strings.HasPrefix(line, "<!--")
}

func (r *reader) paragraph() block {
	first := r.next
	for r.next++; r.next < len(r.lines) && strings.TrimSpace(r.lines[r.next]) != "" &&
		!beginsBlock(r.lines[r.next]); r.next++ {
	}
	return block{kind: paragraph, text: strings.Join(r.lines[first:r.next], "\n")}
}

func (r *reader) comment() block {
	first := r.next
	for r.next++; r.next < len(r.lines) && !strings.Contains(r.lines[r.next-1], "-->"); r.next++ {
	}
	return block{kind: comment, text: strings.Join(r.lines[first:r.next], "\n")}
}

func (r *reader) code() block {
	mark := fenceLine().FindStringSubmatch(r.lines[r.next])[1]
	b := block{kind: code}
	for r.next++; r.next < len(r.lines); r.next++ {
		line := r.lines[r.next]
		if end := strings.TrimSpace(line); strings.HasPrefix(end, mark) && strings.Trim(end, "`") == "" {
			r.next++
			break
		}
		b.lines = append(b.lines, line)
	}
	return b
}

func (r *reader) table() block {
	b := block{kind: table}
	for first := r.next; r.next < len(r.lines) && strings.HasPrefix(r.lines[r.next], "|"); r.next++ {
		if r.next == first+1 { // skip the rule below the header
			continue
		}
		row := cellsOf(r.lines[r.next])
		if b.rows != nil { // pad or truncate the row to the number of cells in the header
			row = append(row, make([]string, len(b.rows[0]))...)[:len(b.rows[0])]
		}
		b.rows = append(b.rows, row)
	}
	return b
}

// cellsOf returns the cells of one line of a table. In the line, a | inside a cell is written as
// \|.
func cellsOf(line string) (cells []string) {
	const bar = "\x00"
	line = strings.Trim(strings.ReplaceAll(line, `\|`, bar), " ")
	for cell := range strings.SplitSeq(strings.Trim(line, "|"), "|") {
		cells = append(cells, strings.TrimSpace(strings.ReplaceAll(cell, bar, "|")))
	}
	return cells
}

func (r *reader) list() block {
	m := itemLine().FindStringSubmatch(r.lines[r.next])
	b := block{kind: list, ordered: m[2] != "", tight: true}
	b.start, _ = strconv.Atoi(m[2]) // m[2] is a number, or empty if the list is not ordered
	for r.next < len(r.lines) {
		m := itemLine().FindStringSubmatch(r.lines[r.next])
		if m == nil || (m[2] != "") != b.ordered {
			break
		}
		lines, loose := r.item(len(m[1]), m[3])
		b.items = append(b.items, readBlocks(lines))
		next := r.next < len(r.lines) && itemLine().MatchString(r.lines[r.next])
		b.tight = b.tight && (!loose || !next)
	}
	return b
}

// item reads the lines of a list item. first is the text of the first line, which begins at the
// given column. item returns the lines without their indentation, and reports in loose whether
// empty lines follow them.
func (r *reader) item(column int, first string) (lines []string, loose bool) {
	lines = []string{first}
	for r.next++; r.next < len(r.lines); r.next++ {
		line := r.lines[r.next]
		indent := len(line) - len(strings.TrimLeft(line, " "))
		switch {
		case strings.TrimSpace(line) == "":
			loose = true
			lines = append(lines, "")
			continue
		case indent >= column:
			line = line[column:]
		case loose || beginsBlock(line):
			return lines, loose
		}
		loose = false
		lines = append(lines, line)
	}
	return lines, loose
}
