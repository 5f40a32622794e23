package difftest

import (
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strings"
	"time"
)

// comparedKeys lists the keys of mntr whose values must be equal. The number of outstanding requests
// is not one of them, and neither is it compared in the output of srvr: after some malformed
// requests, ZooKeeper 3.8 reports -1.
var comparedKeys = []string{
	"zk_server_state", "zk_ephemerals_count", "zk_znode_count", "zk_global_sessions", "zk_watch_count",
}

// compareFourLetterCommands compares the output of four-letter commands on both servers.
func (p *pair) compareFourLetterCommands() {
	for _, word := range []string{"ruok", "isro", "srvr", "wchp", "dump", "mntr", "abcd"} {
		var seen [2][]string
		var all [2]string
		for i, side := range p.sides {
			text, err := ask(side.addr, word)
			if err != nil {
				text = errorText(err)
			}
			all[i], seen[i] = text, side.normalize(word, text)
		}
		if !slices.Equal(seen[0], seen[1]) {
			p.t.Errorf("%s differs:\nreal:\n%s\nsandbox:\n%s", word, strings.Join(seen[0], "\n"), strings.Join(seen[1], "\n"))
		}
	}
}

func ask(addr, word string) (string, error) {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		return "", err
	}
	defer nc.Close()
	_ = nc.SetDeadline(time.Now().Add(ioTimeout))
	if _, err := io.WriteString(nc, word); err != nil {
		return "", err
	}
	b, err := io.ReadAll(nc)
	return string(b), err
}

var (
	sessionID = regexp.MustCompile(`0x1[0-9a-f]{15}\b|0x[0-9a-f]{15,16}\b`)
	block     = regexp.MustCompile(`\n(\S)`)
)

// normalize sorts the output of a four-letter command, and removes the parts that differ
// between servers.
func (v *side) normalize(word, text string) []string {
	text = sessionID.ReplaceAllStringFunc(text, func(s string) string {
		var id int64
		_, _ = fmt.Sscanf(s, "0x%x", &id)
		return v.owner(id)
	})
	switch word {
	case "srvr":
		return pickLines(text, "Mode: ", "Node count: ", "Outstanding", "Latency min/avg/max", "Received", "Sent", "Connections: ")
	case "mntr":
		return pickLines(text, comparedKeys...)
	case "dump":
		// The times at which sessions expire depend on each server's ticks.
		from, to := strings.Index(text, "ephemeral nodes dump:"), strings.Index(text, "Connections dump:")
		if from < 0 || to < from {
			return []string{text}
		}
		text = text[from:to]
	}
	text = strings.ReplaceAll(text, "\x00", `\0`) // some paths contain NUL
	// A block is a line and the indented lines after it. Blocks, and the lines in them,
	// come in any order.
	blocks := strings.Split(block.ReplaceAllString(text, "\n\x00$1"), "\x00")
	for i, b := range blocks {
		lines := strings.Split(strings.TrimRight(b, "\n"), "\n")
		slices.Sort(lines[1:])
		blocks[i] = strings.Join(lines, "\n")
	}
	slices.Sort(blocks)
	return blocks
}

// pickLines returns the lines that start with one of the given prefixes. For counters that
// depend on more than the sequence of operations, it returns only the prefix.
func pickLines(text string, starts ...string) []string {
	var list []string
	for line := range strings.Lines(text) {
		for _, start := range starts {
			if strings.HasPrefix(line, start) {
				if !strings.HasSuffix(start, ": ") && !strings.HasPrefix(start, "zk_") {
					line = start
				}
				list = append(list, strings.TrimSpace(line))
			}
		}
	}
	slices.Sort(list)
	return list
}
