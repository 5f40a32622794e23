package replay

import (
	"bytes"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zksh/zksh/internal/zktest"
)

const (
	hundredScript = "../../testdata/hundred.txt"
	zkCli         = "/usr/share/zookeeper/bin/zkCli.sh" // path in the Debian package zookeeper, which also contains the server
)

// TestHundred pipes a hundred mixed commands into the real zkCli and into zksh, on one
// server, and compares answers, errors and events.
func TestHundred(t *testing.T) {
	script, err := os.ReadFile(hundredScript)
	zktest.Must(t, err)
	if n := bytes.Count(script, []byte("\n")); n != 100 {
		t.Errorf("%d commands, want 100", n)
	}
	t.Parallel()
	server := zktest.Start(t)
	run := func(name string) (out, errs string) {
		cmd := zktest.Command(zktest.Within(t), t, name, "-server", server.Addr())
		cmd.Stdin = bytes.NewReader(script)
		var o, e bytes.Buffer
		cmd.Stdout, cmd.Stderr = &o, &e
		_ = cmd.Run() // some commands fail on purpose
		return o.String(), e.String()
	}
	cliOut, cliErr := run(zkCli)
	out, errs := run("zksh")
	want, have := classify(cliOut, cliErr), classify(out, errs)
	if len(want["answers"]) < 100 {
		t.Fatalf("zkCli answered with %d lines only:\n%s\n%s", len(want["answers"]), cliOut, cliErr)
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("-zkCli +zksh:\n%s", diff)
	}
}

var (
	banner             = regexp.MustCompile(`^(Connecting to .*|Welcome to ZooKeeper!|JLine support is .*)$`)
	varying            = regexp.MustCompile(`0x[0-9a-f]+|^[cm]time = .*`)
	errorPrefixPattern = regexp.MustCompile(`^stdin:\d+: \w+: `)
	// event matches each of the two lines that zkCli prints for an event. A separate thread of
	// zkCli prints them, so they can occur in the middle of a line of an answer.
	event = regexp.MustCompile(`\n(WATCHER::|WatchedEvent .*)\n`)
)

// withoutReason removes the reason that zksh adds to some of zkCli's errors. Any other text stays.
func withoutReason(line string) string {
	if i := strings.LastIndex(line, " ("); i >= 0 && explanation.MatchString(line[i:]) {
		return line[:i]
	}
	return line
}

// classify returns the lines that a shell printed, grouped into answers, created znodes and
// events, without prefixes and banners. It removes these differences: zkCli prints events at
// any time, and "Created" on standard error; zksh prints a prefix before errors, and a reason after
// some (the rule "explained").
func classify(out, errs string) map[string][]string {
	m := map[string][]string{}
	out = event.ReplaceAllStringFunc(out, func(text string) string {
		if l := strings.TrimSpace(text); l != "WATCHER::" && !strings.Contains(l, "type:None") {
			m["events"] = append(m["events"], l)
		}
		return ""
	})
	for _, l := range strings.Split(out+errs, "\n") {
		l = withoutReason(errorPrefixPattern.ReplaceAllString(l, ""))
		l = varying.ReplaceAllString(l, "…")
		switch {
		case l == "" || banner.MatchString(l) || strings.HasPrefix(l, "SLF4J:"):
		case strings.HasPrefix(l, "Created "):
			m["created"] = append(m["created"], l)
		default:
			m["answers"] = append(m["answers"], l)
		}
	}
	// The order of the lines of whoami depends on a hash table.
	if i := slices.Index(m["answers"], "Auth scheme: User"); i >= 0 {
		slices.Sort(m["answers"][i+1 : i+3])
	}
	return m
}
