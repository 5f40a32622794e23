package replay

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zksh/zksh/internal/zktest"
)

const (
	hundred = "../../testdata/hundred.txt"
	zkCli   = "/usr/share/zookeeper/bin/zkCli.sh" // of Debian's package, which the server comes from too
)

// TestHundred pipes a hundred mixed commands into the real zkCli and into zksh,
// on one server, and compares answers, complaints and events.
func TestHundred(t *testing.T) {
	script, err := os.ReadFile(hundred)
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(script, []byte("\n")); n != 100 {
		t.Errorf("%d commands, want 100", n)
	}
	t.Parallel()
	server := zktest.Start(t)
	run := func(name string) (out, errs string) {
		cmd := exec.Command(name, "-server", server.Addr())
		cmd.Stdin = bytes.NewReader(script)
		var o, e bytes.Buffer
		cmd.Stdout, cmd.Stderr = &o, &e
		_ = cmd.Run() // some commands fail on purpose
		return o.String(), e.String()
	}
	cliOut, cliErr := run(zkCli)
	out, errs := run("zksh")
	want, have := told(cliOut, cliErr), told(out, errs)
	if len(want["answers"]) < 100 {
		t.Fatalf("zkCli answered with %d lines only:\n%s\n%s", len(want["answers"]), cliOut, cliErr)
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("-zkCli +zksh:\n%s", diff)
	}
}

var (
	banner  = regexp.MustCompile(`^(Connecting to .*|Welcome to ZooKeeper!|JLine support is .*)$`)
	varying = regexp.MustCompile(`0x[0-9a-f]+|^[cm]time = .*`)
	prefix  = regexp.MustCompile(`^stdin:\d+: \w+: `)
	// event is each of the two texts of one. zkCli has a thread for them, so that they can
	// stand in the middle of a line of an answer.
	event = regexp.MustCompile(`\n(WATCHER::|WatchedEvent .*)\n`)
)

// told sorts what a shell printed: zkCli prints events whenever they come and
// "Created" on standard error, zksh has a prefix on its errors and no banner.
func told(out, errs string) map[string][]string {
	m := map[string][]string{}
	out = event.ReplaceAllStringFunc(out, func(text string) string {
		if l := strings.TrimSpace(text); l != "WATCHER::" && !strings.Contains(l, "type:None") {
			m["events"] = append(m["events"], l)
		}
		return ""
	})
	for _, l := range strings.Split(out+errs, "\n") {
		l = varying.ReplaceAllString(prefix.ReplaceAllString(l, ""), "…")
		switch {
		case l == "" || banner.MatchString(l) || strings.HasPrefix(l, "SLF4J:"):
		case strings.HasPrefix(l, "Created "):
			m["created"] = append(m["created"], l)
		default:
			m["answers"] = append(m["answers"], l)
		}
	}
	// whoami lists in the order of a hash table.
	if i := slices.Index(m["answers"], "Auth scheme: User"); i >= 0 {
		slices.Sort(m["answers"][i+1 : i+3])
	}
	return m
}
