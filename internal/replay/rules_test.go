package replay

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// A difference is a step to which zksh gives another answer than predicted.
type difference struct {
	r       *recording
	i       int // index of the step
	got     answer
	earlier []string // rules of the preceding differences in the recording
}

func (d difference) recordedStep() step { return d.r.steps[d.i] }
func (d difference) command() string    { return d.r.command(d.i) }

// recErr and gotErr return the recorded and the actual error messages: standard error
// without notices and without "Created" lines, which zkCli prints there.
func (d difference) recErr() string { return errorText(d.recordedStep().err) }
func (d difference) gotErr() string { return errorText(d.got.err) }

func errorText(lines []string) string {
	var kept []string
	for _, l := range lines {
		if !notice.MatchString(l) && !strings.HasPrefix(l, "Created ") {
			kept = append(kept, l)
		}
	}
	return strings.Join(kept, "\n")
}

// onlyError reports whether zksh printed one error message and no output, with one of the
// given statuses.
func (d difference) onlyError(status ...int) bool {
	return len(d.got.out) == 0 && d.gotErr() != "" && !strings.Contains(d.gotErr(), "\n") &&
		slices.Contains(status, d.got.status)
}

// chrooted reports whether the connect string, which is the last argument, has a path.
func (d difference) chrooted() bool {
	return len(d.r.args) > 0 && strings.Contains(d.r.args[len(d.r.args)-1], "/")
}

func (d difference) recCrashed() bool {
	return strings.HasPrefix(d.recErr(), `Exception in thread "main"`)
}

// mechanicalRules lists the rules that predict and expect apply. The other rules are in
// rules.
var mechanicalRules = []string{
	createdToStdout,    // answers such as "Created /p" go to standard output
	errorPrefix,        // in a pipe or file errors read FILE:LINE: command: message
	softFailure,        // errors that zkCli prints on standard output are errors
	unknownCommand,     // an unknown command is an error of one line with status 127
	statBlock,          // for 3.4: stats go to standard output, and only if requested
	statusNoServer,     // status 69: no server, or the session is lost
	firstFailureStatus, // a batch exits with the status of its first failure
}

// A rule is a kind of deliberate difference; the manual lists them in differences.md.
type rule struct {
	name   string
	why    string                // description
	covers func(difference) bool // reports whether the difference is of this kind
}

var (
	commonsCLI = regexp.MustCompile(`^org\.apache\.commons\.cli\.\w+Exception: `)
	// otherVersionCommand matches errors about commands and flags of other versions of zkCli,
	// and of zksh.
	otherVersionCommand = regexp.MustCompile(`Unrecognized option: -[bxpr]$|Command not found: Command not found (ls2|rmr|exit|help)$`)
	badValue            = regexp.MustCompile(`^NumberFormatException happens|^the (num|bytes) quota must be`)
	badACL              = regexp.MustCompile(`does not have the form scheme:id:perm|Unknown perm type: `)
	explanation         = regexp.MustCompile(`^ \((expected (data|acl)?[vV]ersion \w+(, is (\w+|<zxid>))?|its parent \S+ does not exist(; -p creates missing parents)?)\)$`)
	offlineCommand      = regexp.MustCompile(`^(history|printwatches|version|redo)$`)
	serverSays          = regexp.MustCompile(`: (Node does not exist: |Insufficient permission : |version No is not valid : |cannot connect: )`)
)

const usageScreen = "ZooKeeper -server host:port "

// rules lists the rules in the order in which -update tries them.
var rules = []rule{
	{"crash-input", "every input that crashes zkCli gets a clear error and changes nothing", func(d difference) bool {
		return d.recCrashed() && d.onlyError(1, 2)
	}},
	{"version-string", "version is zksh's own", func(d difference) bool {
		return d.command() == "version" && len(d.recordedStep().out) == 1 && d.gotErr() == "" &&
			slices.Equal(d.got.out, []string{"zksh version: <version>"})
	}},
	{"extra-words", "extra words are a usage error instead of silently dropped", func(d difference) bool {
		return d.onlyError(2) && strings.Contains(d.gotErr(), "unexpected word ") && !d.recCrashed()
	}},
	{"positional-version", "the positional version of set, delete, setAcl is honoured instead of silently ignored", func(d difference) bool {
		return slices.Contains([]string{"set", "delete", "setAcl"}, d.command()) && d.recErr() == "" &&
			d.onlyError(1) && strings.Contains(d.gotErr(), "version No is not valid : ")
	}},
	{"silent-wrong", "every input that silently does the wrong thing gets a clear error and changes nothing", func(d difference) bool {
		text := d.gotErr()
		return d.onlyError(2) && (badACL.MatchString(d.recErr()) && badACL.MatchString(text) ||
			strings.Contains(text, ": unclosed ") ||
			d.command() == "printwatches" && d.recErr() == "" ||
			d.command() == "addauth" && d.recErr() == "" && strings.Contains(text, "missing auth"))
	}},
	{"open-quote", "an open quote goes on in the next line, which is data", func(d difference) bool {
		begins, ends := openQuotes(d.r.steps[:d.i]), openQuotes(d.r.steps[:d.i+1])
		quiet := len(d.got.out)+len(d.got.err) == 0
		return ends && quiet || begins && d.onlyError(2, 127)
	}},
	{"usage", "exit status 2: usage", func(d difference) bool {
		rec := d.recErr()
		wrong := strings.HasPrefix(rec, d.command()+" ") || commonsCLI.MatchString(rec) ||
			rec != "" && strings.Contains(d.gotErr(), rec)
		answered := d // ls -? prints its answer and then reports the missing path
		if slices.Equal(d.got.out, d.recordedStep().out) {
			answered.got.out = nil
		}
		return answered.onlyError(2) && wrong && strings.Contains(d.gotErr(), "(see: zksh help "+d.command())
	}},
	{"bad-option", "the options of the program; status 2: usage", func(d difference) bool {
		return d.onlyError(2) && d.i == 0 && strings.HasPrefix(d.gotErr(), "zksh: ")
	}},
	{"both-dashes", "single-dash and double-dash forms both work", func(d difference) bool {
		return strings.Contains(d.recErr(), "Unrecognized option: --") && d.got.status != 2
	}},
	{"flags-anywhere", "both syntaxes, flags anywhere", func(d difference) bool {
		return len(d.recordedStep().err) == 2 && notice.MatchString(d.recordedStep().err[0]) && strings.Contains(d.recordedStep().line, " -") &&
			d.recErr() == "Path must start with / character" && d.gotErr() == "" && len(d.got.out) > 0
	}},
	{"all-versions", "commands in both the 3.4 and the 3.5–3.9 syntax, and help", func(d difference) bool {
		return otherVersionCommand.MatchString(d.recErr()) && !strings.Contains(d.gotErr(), "unknown ")
	}},
	{"unknown-command", "an unknown command is one line with the nearest name, status 127", func(d difference) bool {
		return strings.HasPrefix(d.recErr(), usageScreen) && d.onlyError(127) &&
			strings.Contains(d.gotErr(), fmt.Sprintf("unknown command %q", d.command()))
	}},
	{"comments", "blank lines and # comments are skipped", func(d difference) bool {
		line := strings.TrimSpace(d.recordedStep().line)
		return (line == "" || line[0] == '#') && len(d.got.out)+len(d.got.err) == 0
	}},
	{"soft-failure", "soft failures are failures", func(d difference) bool {
		return d.onlyError(1, 2) && badValue.MatchString(d.recErr()) ||
			d.onlyError(69) && d.command() == "addauth" && strings.Contains(d.gotErr(), "AuthFailed") && d.recErr() == ""
	}},
	{"offline", "soft failures are failures; here nothing failed: the command did its work without a session", func(d difference) bool {
		out := d.recordedStep().out
		return offlineCommand.MatchString(d.command()) && len(out) > 0 && out[len(out)-1] == "Not connected" && d.got.status == 0 &&
			(slices.Equal(d.got.out, out[:len(out)-1]) || d.command() == "version")
	}},
	{"unreachable", "a refused port, an unknown name: a one-line message naming the address", func(d difference) bool {
		return d.onlyError(69) && strings.Contains(d.gotErr(), "cannot connect: ") &&
			(strings.Contains(d.recErr(), "ConnectionLoss") || d.command() == "connect" && d.recErr() == "")
	}},
	{"script-ends", "a script whose server is gone ends; the lines behind are not run", func(d difference) bool {
		return slices.Contains(d.earlier, "unreachable") && len(d.got.out)+len(d.got.err) == 0 && d.got.status == 0
	}},
	{"one-message", "errors as FILE:LINE: command: message", func(d difference) bool {
		return d.onlyError(1) && len(d.recordedStep().err) == 2 && strings.HasSuffix(d.gotErr(), ": "+d.recordedStep().err[1])
	}},
	{"raw-bytes", "invalid UTF-8 passed through untouched in a pipe, whatever the locale", func(d difference) bool {
		return d.command() == "get" && strings.ContainsAny(strings.Join(d.recordedStep().out, ""), "?\uFFFD") && d.got.status == 0
	}},
	{"quota-chroot", "quotas in the node layout that real servers read, also under a chroot", func(d difference) bool {
		return strings.HasSuffix(d.command(), "quota") && d.chrooted() && d.got.status == 0
	}},
	{"large-reply", "replies over 1 MB included", func(d difference) bool {
		return strings.Contains(d.recErr(), "ConnectionLoss") && d.got.status == 0 && (len(d.got.out) > 0 || d.command() == "deleteall")
	}},
	{"newer-form", "both syntaxes; the text is that of 3.5–3.9 where 3.4 has another", func(d difference) bool {
		predicted, _ := predict(d.r, d.i)
		silent := d.recErr() == "" || strings.HasPrefix(d.recErr(), "Command failed: java.lang.")
		return d.r.isVersion34() && (slices.Equal(split(normal(joined(predicted.out))), d.got.out) &&
			errorText(predicted.err) == d.gotErr() || silent && d.onlyError(2))
	}},
	{"clear-error", "a bad path is refused in the same words by every command; zkCli looks for another znode", func(d difference) bool {
		quota := strings.HasSuffix(d.command(), "quota") && (strings.Contains(d.gotErr(), "Path must ") ||
			strings.Contains(d.gotErr(), ": / cannot have a quota"))
		file := strings.HasPrefix(d.recErr(), "Error processing ") && strings.Contains(d.gotErr(), ": Error processing /nonexistent (")
		return d.onlyError(1) && (quota || file)
	}},
	{"slash-at-end", "a slash at the end of a path is ignored", func(d difference) bool {
		return d.recErr() != "" && slices.ContainsFunc(strings.Fields(d.recordedStep().line), func(word string) bool {
			return len(word) > 1 && strings.HasSuffix(word, "/")
		})
	}},
	{"current-znode", "without a path, ls lists the current znode", func(d difference) bool {
		return d.got.status == 0 && strings.HasSuffix(d.recErr(), " path") && d.command() == "ls"
	}},
	{"chroot-paths", "below a chroot every path is taken and printed without it", func(d difference) bool {
		root := len(d.recordedStep().err) == 1 && d.recordedStep().err[0] == "Created " && slices.Equal(d.got.out, []string{"Created /"})
		return d.chrooted() && (root || d.command() == "getEphemerals" && d.got.status == 0)
	}},
	{"missing-chroot", "where the chroot itself does not exist, the error says so", func(d difference) bool {
		if !d.chrooted() {
			return false
		}
		_, chroot, _ := strings.Cut(d.r.args[len(d.r.args)-1], "/")
		predicted, _ := predict(d.r, d.i)
		return d.onlyError(1) && strings.HasPrefix(d.recErr(), "Node does not exist: ") &&
			d.gotErr() == errorText(predicted.err)+" (the chroot /"+chroot+" does not exist)"
	}},
	{"explained", "zkCli's words, followed by the reason: both versions, or the missing parent", func(d difference) bool {
		predicted, _ := predict(d.r, d.i)
		reason, ok := strings.CutPrefix(d.gotErr(), errorText(predicted.err))
		return d.onlyError(1) && d.recErr() != "" && ok && explanation.MatchString(reason)
	}},
	{"no-hash", "a digest in an ACL that is no password hash is named", func(d difference) bool {
		return len(d.got.out) == 0 && strings.Contains(d.gotErr(), ":… contains no password hash, ") && d.got.status == 0
	}},
	{"one-shot-watch", "a single command says that its watch ended with it", func(d difference) bool {
		return slices.Equal(d.got.out, d.recordedStep().out) && d.got.status == 0 &&
			d.gotErr() == "the watch ended with this command; to wait for a change, use the command wait or watch"
	}},
	{"one-shot-history", "the history of a single command is that command", func(d difference) bool {
		return slices.Equal(d.recordedStep().out, []string{"0 - null"}) && slices.Equal(d.got.out, []string{"0 - history"})
	}},
	{"consequence", "follows from a differing line before it", func(d difference) bool {
		plain := d.gotErr() == "" || serverSays.MatchString(d.gotErr()) && d.onlyError(1, 69)
		return plain && slices.ContainsFunc(d.earlier, func(rule string) bool { return slices.Contains(stateChangingRules, rule) })
	}},
}

// openQuotes reports whether the last of these lines ends inside a quotation. A quote opens
// one only at the start of a word or directly after a closing quote.
func openQuotes(lines []step) bool {
	var open rune
	for _, l := range lines {
		before := ' '
		for _, c := range l.line + "\n" {
			switch {
			case c == open:
				open, c = 0, ' ' // another quote may follow directly
			case open == 0 && (c == '"' || c == '\'') && strings.ContainsRune(" \n", before):
				open = c
			}
			before = c
		}
	}
	return open != 0
}

// stateChangingRules lists the rules after which a session or a znode differs from the
// recording.
var stateChangingRules = []string{
	"crash-input", "extra-words", "positional-version", "silent-wrong", "all-versions", "quota-chroot", "large-reply", "unreachable", "open-quote",
}

// whyNotCovered returns the reason why a rule does not cover a difference, or "" if it does.
func whyNotCovered(name string, d difference) string {
	i := slices.IndexFunc(rules, func(r rule) bool { return r.name == name })
	switch {
	case i < 0:
		return fmt.Sprintf("no rule is named %q", name)
	case !rules[i].covers(d):
		return fmt.Sprintf("%s (%s) does not explain\nzkCli: %q %q\nzksh:  %q %q", name, rules[i].why, d.recordedStep().out, d.recordedStep().err, d.got.out, d.got.err)
	}
	return ""
}

// coveringRule returns the name of the first rule that covers a difference, or "?".
func coveringRule(d difference) string {
	for _, r := range rules {
		if r.covers(d) {
			return r.name
		}
	}
	return "?"
}
