//go:build unix

package e2e

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The demonstration in the manual works as it stands. The test types its lines into two terminals
// that share a sandbox, and the answers on the page are all that the terminals show.
func TestDocStage(t *testing.T) {
	t.Parallel()
	stage := map[string]*stageTerminal{}
	for _, number := range []string{"1", "2"} {
		// The longest answer fits into this width. In narrower windows, zksh folds lines.
		s := &stageTerminal{screen: openBash(t, 250, 50)}
		stage[number] = s
		s.line("export XDG_STATE_HOME=" + stage["1"].dir + "/state; cd " + stage["1"].dir + "; clear")
		s.want(`\A\$\z`)
	}
	for _, b := range fences(t, "../../shell/manual/stage.md", `stage \d`) {
		s := stage[strings.TrimPrefix(b.info, "stage ")]
		end := "" // last line of the here-document that is being typed
		for line := range strings.Lines(b.text) {
			line = strings.TrimSuffix(line, "\n")
			prompt := stagePrompt.FindString(line)
			switch {
			case end != "":
				s.line(line)
				if line == end {
					end, s.typed = "", line
				}
			case prompt == "":
				s.answer = append(s.answer, line)
			default:
				s.await(prompt)
				s.line(strings.TrimPrefix(line, prompt))
				s.typed, s.answer = line, nil
				if _, word, found := strings.Cut(line, "<<"); found {
					end = strings.Trim(word, "'")
				}
			}
		}
		s.await("")
	}
}

// A stageTerminal is a terminal of the demonstration.
type stageTerminal struct {
	*screen
	typed  string   // the line typed last, with its prompt; empty at first
	answer []string // what the page shows after that line so far
}

var (
	stagePrompt  = regexp.MustCompile(`^(\[zk: .*?\] |\$ )`)
	stageServer  = regexp.MustCompile(`\[zk: \S+\(`)
	stageOmitted = regexp.MustCompile(`(^| )…( …)*( |$)`)
)

// await waits until the terminal shows the answer after the typed line, and behind it nothing but
// the prompt. Without a prompt, anything may follow the answer. The prompt of bash may come before
// the answer, which can be that of a job in the background.
func (s *stageTerminal) await(prompt string) {
	s.t.Helper()
	bash := prompt == "$ "
	if bash {
		prompt = ""
	}
	answer := stageText(strings.Join(s.answer, " ") + " " + prompt)
	pattern := `\A(` + stagePattern(answer)
	if late := stageText(strings.Join(lateNotice(s.answer), " ") + " " + prompt); late != answer {
		pattern += "|" + stagePattern(late)
	}
	pattern += ")"
	if prompt != "" {
		pattern += `\z`
	}
	re := regexp.MustCompile(pattern)
	s.until("after "+strconv.Quote(s.typed)+" the terminal does not show "+strconv.Quote(answer), func(string) bool {
		shown := stageText(s.tmux("capture-pane", "-p", "-J", "-S", "-"))
		// The prompt of bash is above the output of a job in the background.
		for _, typed := range []string{stageText(s.typed), strings.TrimPrefix(s.typed, "$ ")} {
			if at := strings.LastIndex(shown, typed); at >= 0 && typed != "" {
				shown = strings.TrimSpace(shown[at+len(typed):])
				break
			}
		}
		return re.MatchString(shown) && (!bash || strings.Contains(shown, "$"))
	})
}

// stagePattern returns a pattern for an answer, in which … stands for any text.
func stagePattern(answer string) string {
	return stageOmitted.ReplaceAllString(strings.ReplaceAll(regexp.QuoteMeta(answer), "\\ ", " "), ".*")
}

// lateNotice returns the answer of lock -b that shows if zksh does not find a deadlock within a
// second, which happens on a busy machine: the notice then comes after the line that says what the
// lock waits for.
func lateNotice(answer []string) []string {
	waits := slices.IndexFunc(answer, func(line string) bool { return strings.HasPrefix(line, "waiting ") })
	if waits < 1 || !strings.Contains(answer[0], "would wait for") {
		return answer
	}
	late := []string{answer[waits], strings.Replace(answer[0], "would wait for", "waits for", 1)}
	return slices.Concat(late, answer[1:waits], answer[waits+1:])
}

// stageText returns text without the parts that vary, as words with one space between them.
func stageText(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	return stageServer.ReplaceAllString(normalize(text), "[zk: SERVER(")
}
