package replay

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

const recordings = "../../testdata/zkcli"

// A recording is a recorded run of the real zkCli.
type recording struct {
	name   string
	args   []string // arguments of the command line
	input  string   // standard input, byte for byte; "" for a one-shot run
	steps  []step
	status string // exit status
}

// A step is a line of input, or a whole one-shot run, and the output of zkCli for it.
type step struct {
	line     string
	out, err []string // lines of standard output and standard error
}

func (r *recording) oneShot() bool { return r.input == "" }

// load reads a recording. The log contains standard input, output and error in the order of
// steps. The file .in contains the input with exact bytes, which the log cannot show.
func load(name string) (*recording, error) {
	r := &recording{name: name}
	var text [3]string
	for i, kind := range []string{".args", ".in", ".log"} {
		data, err := os.ReadFile(filepath.Join(recordings, name+kind))
		if err != nil {
			return nil, err
		}
		text[i] = string(data)
	}
	r.args, r.input = splitArgs(text[0]), text[1]
	if r.oneShot() {
		r.steps = []step{{}}
	}
	var start []string
	for line := range strings.Lines(text[2]) {
		kind, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "|")
		rest = strings.TrimPrefix(rest, " ")
		switch kind {
		case "I":
			r.steps = append(r.steps, step{line: rest})
		case "O", "E":
			if len(r.steps) == 0 {
				start = append(start, rest)
				break
			}
			s := &r.steps[len(r.steps)-1]
			if kind == "O" {
				s.out = append(s.out, rest)
			} else {
				s.err = append(s.err, rest)
			}
		case "#":
			if status, ok := strings.CutPrefix(rest, "exit status "); ok {
				r.status = status
			}
		default:
			return nil, fmt.Errorf("%s.log: what is %q?", name, line)
		}
	}
	if left := withoutBanner(start); len(left) > 0 {
		return nil, fmt.Errorf("%s.log: output before the first line: %q", name, left)
	}
	for i := range r.steps {
		r.steps[i].out = withoutBanner(r.steps[i].out)
	}
	if n := len(strings.SplitAfter(strings.TrimSuffix(r.input, "\n"), "\n")); !r.oneShot() && n != len(r.steps) {
		return nil, fmt.Errorf("%s: %d lines of input, %d in the log", name, n, len(r.steps))
	}
	return r, nil
}

// withoutBanner removes the lines that zksh does not print in pipes and one-shot runs: the
// banner at the start and the events about the session's state.
func withoutBanner(lines []string) []string {
	var kept []string
	for i := 0; i < len(lines); i++ {
		switch {
		case regexp.MustCompile(`^(Connecting to |Welcome to ZooKeeper!$|JLine support is |Quitting\.\.\.$)`).MatchString(lines[i]):
		case i+3 < len(lines) && slices.Equal(lines[i:i+3], []string{"", "WATCHER::", ""}) &&
			strings.HasSuffix(lines[i+3], " type:None path:null"):
			i += 3
		default:
			kept = append(kept, lines[i])
		}
	}
	return kept
}

// splitArgs splits recorded arguments. They contain single quotes only.
func splitArgs(line string) []string {
	var all []string
	for _, m := range regexp.MustCompile(`'([^']*)'|([^\s']+)`).FindAllStringSubmatch(line, -1) {
		all = append(all, m[1]+m[2])
	}
	return all
}

var (
	zoneDate  = regexp.MustCompile(`(?m)^([cm]time = )(\w{3} \w{3} \d\d \d\d:\d\d:\d\d) (\w+) (\d{4})$`)
	zxidTrio  = regexp.MustCompile(`cZxid = (0x[0-9a-f]+)\n(ctime = .*\n)mZxid = (0x[0-9a-f]+)\n(mtime = .*\n)pZxid = (0x[0-9a-f]+)\n`)
	ownerLine = regexp.MustCompile(`(?m)^ephemeralOwner = 0x[0-9a-f]{2,}$`)
	// helpScreen is removed because other tests check it. Long lists are compared by digest.
	helpScreen = regexp.MustCompile(`(?s)Everyday commands\n  ls .*?\n  help WORD [^\n]*\n`)
	longList   = regexp.MustCompile(`(?:/x05v38/child-name-\d{5}\n){2,}|(?:child-name-\d{5}, ){2,}`)
	confLine   = regexp.MustCompile(`(?m)^version=[0-9a-f]+$`)
	confError  = regexp.MustCompile(`(\(expected version \w+, is) [0-9a-f]+\)`)
)

// normal replaces text that differs between two runs: times except those in 1970, zxids,
// and session ids. It keeps the name of the time zone and the order of the zxids in a stat.
func normal(text string) string {
	text = zoneDate.ReplaceAllStringFunc(text, func(s string) string {
		if strings.HasSuffix(s, " 1970") {
			return s
		}
		return zoneDate.ReplaceAllString(s, "$1<time> $3")
	})
	text = zxidTrio.ReplaceAllStringFunc(text, func(s string) string {
		m := zxidTrio.FindStringSubmatch(s)
		ids := []string{m[1], m[3], m[5]}
		// Numbers without leading zeros: the longer one is larger.
		order := slices.Compact(slices.SortedFunc(slices.Values(ids), func(a, b string) int {
			if len(a) != len(b) {
				return len(a) - len(b)
			}
			return strings.Compare(a, b)
		}))
		order = slices.DeleteFunc(order, func(id string) bool { return id == "0x0" })
		for i, id := range ids {
			if id != "0x0" {
				ids[i] = fmt.Sprintf("<zxid %d>", 1+slices.Index(order, id))
			}
		}
		return fmt.Sprintf("cZxid = %s\n%smZxid = %s\n%spZxid = %s\n", ids[0], m[2], ids[1], m[4], ids[2])
	})
	text = ownerLine.ReplaceAllString(text, "ephemeralOwner = <session>")
	text = helpScreen.ReplaceAllString(text, "<help>\n")
	text = longList.ReplaceAllStringFunc(text, digest)
	text = confLine.ReplaceAllString(text, "version=<zxid>")
	text = confError.ReplaceAllString(text, "$1 <zxid>)")
	return printable(text)
}

func digest(list string) string {
	return fmt.Sprintf("<%d bytes, %x>\n", len(list), sha256.Sum256([]byte(list)))
}

// printable escapes invalid UTF-8 and control characters like the logs of the recordings.
func printable(text string) string {
	var b strings.Builder
	for text != "" {
		r, n := utf8.DecodeRuneInString(text)
		if r == utf8.RuneError && n == 1 || r < ' ' && r != '\n' && r != '\t' {
			fmt.Fprintf(&b, `\x%02x`, text[0])
		} else {
			b.WriteString(text[:n])
		}
		text = text[n:]
	}
	return b.String()
}
