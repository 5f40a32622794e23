package shell

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/history"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/userfile"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/shell/line"
	"github.com/zksh/zksh/shell/syntax"
)

// A completer proposes completions of a line. It knows the commands, their flags and parameters
// from the registry.
type completer struct {
	registry *commands.Registry
	clusters []Cluster
	lines    *history.List
	nodes    *nodeCache
	folder   *folder
	locks    Locks // locks that commands hold, or nil if no command takes locks
}

// maxProposals is the maximum number of proposals in a menu.
const maxProposals = 100

// complete returns the completions of the text before the cursor. It is the Complete function of
// the line.Assistant.
func (c *completer) complete(before string) line.Proposals {
	p, ok := parsePartial(before)
	if !ok {
		return line.Proposals{}
	}
	found := c.propose(&p)
	proposals := line.Proposals{From: p.from, Pending: found.pending}
	for _, x := range found.list {
		proposals.List = append(proposals.List, line.Proposal{
			Text: p.spell(x.word), Label: cmp.Or(x.label, x.word), About: x.about, Complete: !x.extendable,
		})
	}
	begin := found.commonPrefix()
	// the word is already complete
	if p.closed || len(proposals.List) == 1 && proposals.List[0].Text == before[p.from:] {
		proposals.List, begin = nil, found.withSlash
	}
	if len(begin) > len(p.text) {
		proposals.CommonPrefix = p.spellOpen(begin)
	}
	return proposals
}

// choices contains the possible completions of the word that is being typed.
type choices struct {
	list      []choice
	last      string // last choice in sorted order if list is truncated; empty if list is complete
	pending   bool   // whether a request to the server for more choices is in flight
	files     bool   // whether the choices are names of files
	withSlash string // the word followed by a slash, if it is the only choice and has children; empty otherwise
}

// A choice is one possible completion.
type choice struct {
	word       string
	label      string // text in the menu, or empty if that is the word itself
	about      string // one-line description, or empty if there is none
	extendable bool   // whether the user may extend the word, so that no space follows it
}

// propose returns the completions of the last word of p, which is the word being typed.
func (c *completer) propose(p *partial) choices {
	if at := slices.IndexFunc(p.words, syntax.IsRedirection); at >= 0 { // the name of a file or a program follows
		if at == len(p.words)-1 && p.words[at].Text != "|" {
			return files(p)
		}
		return choices{}
	}
	return c.words(p)
}

// words proposes names of commands. If p already contains a command's name, it proposes arguments
// of that command instead.
func (c *completer) words(p *partial) choices {
	if len(p.words) == 0 {
		return c.commandNames(p)
	}
	if cmd := c.registry.Find(p.words[0].Text); cmd != nil {
		return c.arguments(cmd, p)
	}
	return choices{}
}

// arguments proposes arguments of cmd. The first word of p is the name of the command.
func (c *completer) arguments(cmd *commands.Command, p *partial) choices {
	at, flag, flagsEnded := cmd.Position(p.words[1:])
	name, value, joined := strings.Cut(p.text, "=")
	switch {
	case flag != nil:
		return c.values(commands.FlagParam(flag), p)
	case p.quote == "" && strings.HasPrefix(p.text, "-") && joined && !flagsEnded:
		p.isFlag = true
		return c.joinedValues(cmd, name, value, p)
	case p.quote == "" && strings.HasPrefix(p.text, "-") && !flagsEnded:
		p.isFlag = true
		return flagNames(cmd, p)
	case at >= len(cmd.Params):
		return choices{}
	}
	return c.values(cmd.Params[at], p)
}

// joinedValues proposes values for a flag that is typed as --name=value. value is the part of the
// value that has been typed.
func (c *completer) joinedValues(cmd *commands.Command, name, value string, p *partial) choices {
	_, flag, _ := cmd.Position(append(slices.Clone(p.words[1:]), commands.Word{Text: name}))
	if flag == nil {
		return choices{}
	}
	found := c.values(commands.FlagParam(flag), &partial{text: value})
	for i, x := range found.list {
		found.list[i].label, found.list[i].word = cmp.Or(x.label, x.word), name+"="+x.word
	}
	// Drop values with spaces, because a word of the form --name=value cannot be quoted.
	found.list = slices.DeleteFunc(found.list,
		func(x choice) bool { return strings.ContainsAny(x.word, commands.Blanks) })
	return found
}

// values proposes values of a parameter or of a flag.
func (c *completer) values(param commands.Param, p *partial) choices {
	switch param.Kind {
	case commands.Path, commands.SessionID:
		here, moved := c.folder.here()
		return c.paths(p, here, moved && param.Kind == commands.Path)
	case commands.PlaceWord:
		switch place := commands.ParsePlace(p.text); {
		case strings.HasPrefix(p.text, ".") || place.File != "":
			return files(p)
		case strings.HasPrefix(p.text, zkconn.ClusterMark):
			return c.values(commands.Param{Kind: commands.Server}, p)
		}
		return c.values(commands.Param{Kind: commands.Path}, p)
	case commands.Folder:
		here, _ := c.folder.here()
		return c.paths(p, here, true)
	case commands.HeldLock:
		if c.locks != nil {
			var list []choice
			for _, path := range c.locks.Paths() {
				list = append(list, choice{word: path, label: render.Safe(path)})
			}
			if held := withPrefix(p.text, list); len(held.list) > 0 {
				return held
			}
		}
		return c.values(commands.Param{Kind: commands.Path}, p)
	case commands.File:
		return files(p)
	case commands.WholeLine:
		return c.wholeLines(p.text)
	case commands.CommandName:
		return c.commandNames(p)
	case commands.HelpName:
		return c.helpNames(p)
	case commands.Choice:
		var list []choice
		for _, w := range param.Words {
			list = append(list, choice{word: w})
		}
		return withPrefix(p.text, list)
	case commands.Server:
		var list []choice
		for _, cluster := range c.clusters {
			list = append(list, choice{word: cluster.Name})
		}
		return withPrefix(p.text, list)
	case commands.Scheme:
		return withPrefix(p.text, []choice{
			{word: "digest", about: "a user and a password, as user:password"}, {word: "sasl"}, {word: "x509"}})
	case commands.ACL:
		return aclEntries(p)
	case commands.LineNumber: // numbers of lines in the history, newest first
		var list []choice
		for _, e := range slices.Backward(c.lines.Last(maxProposals)) {
			list = append(list, choice{word: strconv.Itoa(e.Number), about: render.Safe(history.Redacted(e.Line))})
		}
		return withPrefix(p.text, list)
	}
	return choices{}
}

// wholeLines proposes completions for the word text, which itself contains a complete command line.
func (c *completer) wholeLines(text string) choices {
	inner := c.complete(text)
	found := choices{pending: inner.Pending}
	for _, x := range inner.List {
		found.list = append(found.list, choice{word: text[:inner.From] + x.Text, about: x.About, extendable: true})
	}
	return found
}

// withPrefix returns the choices in list whose words begin with prefix.
func withPrefix(prefix string, list []choice) choices {
	return choices{list: slices.DeleteFunc(list, func(x choice) bool { return !strings.HasPrefix(x.word, prefix) })}
}

func (c *completer) commandNames(p *partial) choices {
	var list []choice
	for _, cmd := range c.registry.All() {
		list = append(list, choice{word: cmd.Name, about: cmd.Summary})
		for _, a := range cmd.Aliases {
			list = append(list, choice{word: a, about: "the same as " + cmd.Name})
		}
	}
	return withPrefix(p.text, list)
}

// flagNames proposes the flags of cmd that are not on the line yet.
func flagNames(cmd *commands.Command, p *partial) choices {
	var list []choice
	cmd.FlagSet().VisitAll(func(f *pflag.Flag) {
		name := "-" + f.Shorthand
		switch {
		case strings.HasPrefix(p.text, "--"), f.Shorthand == "" && len(p.text) < 2:
			name = "--" + f.Name
		case f.Shorthand == "":
			name = "-" + f.Name
		}
		given := slices.ContainsFunc(p.words, func(w commands.Word) bool {
			return !w.Quoted && (w.Text == "-"+f.Shorthand ||
				strings.TrimLeft(w.Text, "-") == f.Name && w.Text[0] == '-')
		})
		if !given {
			_, usage := pflag.UnquoteUsage(f)
			list = append(list, choice{word: name, about: usage})
		}
	})
	return withPrefix(p.text, list)
}

// aclEntries proposes the next part of an ACL: a scheme, or the permissions after an identity.
func aclEntries(p *partial) choices {
	at := strings.LastIndexByte(p.text, ',') + 1
	head, entry := p.text[:at], p.text[at:]
	pairs := []string{
		"world:anyone:", "everybody",
		"auth::", "all users that this session is authenticated as",
		"digest:", "user:hash, which the command digest prints",
		"ip:", "an address, or a network such as 10.0.0.0/8",
		"sasl:", "a Kerberos principal", "x509:", "the subject of a certificate",
	}
	if i := strings.LastIndexByte(entry, ':'); i >= 0 && strings.Count(entry, ":") > 1 {
		id := entry[:i+1]
		pairs = []string{id + "cdrwa", "create, delete, read, write, admin", id + "r", "read", id + "rw",
			"read and write"}
	}
	var list []choice
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, choice{word: head + pairs[i], label: pairs[i], about: pairs[i+1], extendable: true})
	}
	return withPrefix(p.text, list)
}

// paths proposes completions of a path: the children of the znode before its last slash. If
// relative is true, a path without a leading slash is relative to folder, the path of a znode. The
// user may extend a proposed path, so no space follows it.
func (c *completer) paths(p *partial, folder string, relative bool) choices {
	text := p.text
	switch {
	case text == "" && folder == "/" || text == "" && !relative:
		text = "/"
	case relative && (text == "~" || text == ".." || text != "" && text[0] != '/' && strings.HasSuffix(text, "/..")):
		return choices{list: []choice{{word: text + "/", extendable: true}}}
	}
	at := strings.LastIndexByte(text, '/')
	head, prefix := text[:at+1], text[at+1:]
	parent := strings.TrimSuffix(head, "/")
	switch {
	case text != "" && text[0] == '/':
		parent = text[:max(at, 1)]
	case !relative:
		return choices{}
	case at < 0:
		parent = folder
	default:
		parent = below(folder, parent)
	}
	names, known := c.nodes.children(parent, prefix)
	found := choices{pending: !known}
	for _, name := range names[:min(len(names), maxProposals)] {
		word := head + name
		if word == "~" { // a ~ alone means the root
			word = "./~"
		}
		found.list = append(found.list, choice{word: word, label: render.Safe(name), extendable: true})
	}
	if more := len(names) - len(found.list); more > 0 {
		found.list[0].about = fmt.Sprintf("and %d more", more)
		found.last = head + names[len(names)-1] // the names are sorted
	}
	if len(found.list) == 1 && found.list[0].word == text {
		yes, known := c.nodes.hasChildren(strings.TrimSuffix(parent, "/") + "/" + names[0])
		found.pending = found.pending || !known
		if yes {
			found.withSlash = text + "/"
		}
	}
	return found
}

// maxFilesRead is the maximum number of directory entries that completion reads.
const maxFilesRead = 5000

// files proposes the files in the directory part of the word. It proposes a hidden file only if
// the typed file name begins with a dot.
func files(p *partial) choices {
	found := choices{files: true}
	head, prefix := filepath.Split(p.text)
	dir, err := os.Open(cmp.Or(userfile.Home(head), "."))
	if err != nil {
		return found
	}
	defer dir.Close()
	entries, _ := dir.ReadDir(maxFilesRead) // after an error, use the entries read so far
	for _, e := range entries {
		name := e.Name()
		if !strings.HasPrefix(name, prefix) || strings.HasPrefix(name, ".") && prefix == "" {
			continue
		}
		x := choice{word: head + name, label: render.Safe(name)}
		if info, err := os.Stat(userfile.Home(x.word)); err == nil && info.IsDir() {
			x = choice{word: x.word + "/", label: x.label + "/", extendable: true}
		}
		found.list = append(found.list, x)
		if len(found.list) == maxProposals {
			break
		}
	}
	slices.SortFunc(found.list, func(a, b choice) int { return strings.Compare(a.word, b.word) })
	return found
}

// An Offer is a completion for another shell, such as bash.
type Offer struct {
	Word, About string
	Extendable  bool // whether the user may extend the word, so that no space follows it
}

// Propose returns the completions of text, the last word of a zksh command line that is typed in a
// shell such as bash. If files is true, the word is the name of a file, and the other shell
// completes it. Propose returns early when ctx is done.
//
// program describes the zksh program as a command. words contains the words between the program's
// name and text: options of the program, and then a zksh command line. names returns the sorted names of a znode's children.
func (s *Shell) Propose(ctx context.Context, program *commands.Command, words []commands.Word, text string,
	names func(ctx context.Context, path string) ([]string, error)) (list []Offer, files bool) {
	came := make(chan struct{}, 1)
	changed := func() {
		select {
		case came <- struct{}{}:
		default:
		}
	}
	c := *s.completer
	c.nodes = newNodeCache(listFunc(names), changed, func() {})
	defer c.nodes.close()
	_, typed := program.SplitProgram(words)
	propose := func() choices {
		if len(typed) > 0 {
			return c.words(&partial{words: typed, text: text})
		}
		all := append([]commands.Word{{Text: program.Name}}, words...)
		return c.arguments(program, &partial{words: all, text: text})
	}
	for {
		found := propose()
		if found.pending {
			select {
			case <-came:
				continue
			case <-ctx.Done():
				return nil, false
			}
		}
		for _, x := range found.list {
			if commands.Printable(x.word) { // other shells cannot quote unprintable characters
				list = append(list, Offer{x.word, x.about, x.extendable})
			}
		}
		return list, found.files
	}
}
