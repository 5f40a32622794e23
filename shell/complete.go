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

// completer proposes what a line may become. All it knows of commands comes from
// their table.
type completer struct {
	registry *commands.Registry
	clusters []Cluster
	lines    *history.List
	nodes    *nodeCache
	folder   *folder
	locks    Locks // may be nil
}

// maxProposals is how many proposals a menu offers.
const maxProposals = 100

// complete is a line.Assistant's Complete.
func (c *completer) complete(before string) line.Proposals {
	p, ok := partialLine(before)
	if !ok {
		return line.Proposals{}
	}
	found := c.propose(&p)
	proposals := line.Proposals{From: p.from, Pending: found.pending}
	for _, x := range found.list {
		proposals.List = append(proposals.List, line.Proposal{
			Text: p.spell(x.word), Label: cmp.Or(x.label, x.word), About: x.about, Last: !x.goesOn,
		})
	}
	begin := found.begin()
	if p.closed || len(proposals.List) == 1 && proposals.List[0].Text == before[p.from:] { // there is nothing to add
		proposals.List, begin = nil, found.deeper
	}
	if len(begin) > len(p.text) {
		proposals.Begin = p.spellOpen(begin)
	}
	return proposals
}

// choices are what the word under way may become.
type choices struct {
	list    []choice
	last    string // one more, which is not offered; may be empty
	pending bool   // the server has not answered yet
	files   bool   // they are names of files
	deeper  string // the only one, which is complete, with a slash if it has children
}

type choice struct {
	word   string
	label  string // in the menu, if that is not the word
	about  string
	goesOn bool // more may be added to the word later
}

func (c *completer) propose(p *partial) choices {
	if at := slices.IndexFunc(p.words, syntax.IsRedirection); at >= 0 { // behind it are a file, or another shell's words
		if at == len(p.words)-1 && p.words[at].Text != "|" {
			return files(p)
		}
		return choices{}
	}
	return c.words(p)
}

// words proposes words of a command, or its name.
func (c *completer) words(p *partial) choices {
	if len(p.words) == 0 {
		return c.commandNames(p)
	}
	if cmd := c.registry.Find(p.words[0].Text); cmd != nil {
		return c.behind(cmd, p)
	}
	return choices{}
}

// behind proposes words of this command, whose name is the first one.
func (c *completer) behind(cmd *commands.Command, p *partial) choices {
	if cmd.Wrap != nil {
		if _, inner := cmd.SplitWrapper(p.words[1:]); len(inner) > 0 {
			p.words = inner
			return c.words(p)
		}
	}
	at, flag, flagsEnded := cmd.Position(p.words[1:])
	name, value, joined := strings.Cut(p.text, "=")
	switch {
	case flag != nil:
		return c.values(commands.FlagParam(flag), p)
	case p.quote == "" && strings.HasPrefix(p.text, "-") && joined && !flagsEnded:
		p.flag = true
		return c.joinedValues(cmd, name, value, p)
	case p.quote == "" && strings.HasPrefix(p.text, "-") && !flagsEnded:
		p.flag = true
		return flagNames(cmd, p)
	case at >= len(cmd.Params):
		return choices{}
	}
	return c.values(cmd.Params[at], p)
}

// joinedValues proposes values of a flag that stand in one word with its name.
func (c *completer) joinedValues(cmd *commands.Command, name, value string, p *partial) choices {
	_, flag, _ := cmd.Position(append(slices.Clone(p.words[1:]), commands.Word{Text: name}))
	if flag == nil {
		return choices{}
	}
	found := c.values(commands.FlagParam(flag), &partial{text: value})
	for i, x := range found.list {
		found.list[i].label, found.list[i].word = cmp.Or(x.label, x.word), name+"="+x.word
	}
	found.list = slices.DeleteFunc(found.list, func(x choice) bool { return strings.ContainsAny(x.word, commands.Blanks) }) // no quotes help there
	return found
}

// values proposes positional words.
func (c *completer) values(param commands.Param, p *partial) choices {
	switch param.Kind {
	case commands.Path, commands.ClientID:
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
			if held := fitting(p.text, list); len(held.list) > 0 {
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
		return fitting(p.text, list)
	case commands.Server:
		var list []choice
		for _, cluster := range c.clusters {
			list = append(list, choice{word: cluster.Name})
		}
		return fitting(p.text, list)
	case commands.Scheme:
		return fitting(p.text, []choice{
			{word: "digest", about: "a user and a password, as user:password"}, {word: "sasl"}, {word: "x509"}})
	case commands.ACL:
		return aclEntries(p)
	case commands.LineNumber: // the newest first
		var list []choice
		for _, e := range slices.Backward(c.lines.Last(maxProposals)) {
			list = append(list, choice{word: strconv.Itoa(e.Number), about: render.Safe(history.Redacted(e.Line))})
		}
		return fitting(p.text, list)
	}
	return choices{}
}

// wholeLines proposes a line of the shell that is one word elsewhere.
func (c *completer) wholeLines(text string) choices {
	inner := c.complete(text)
	found := choices{pending: inner.Pending}
	for _, x := range inner.List {
		found.list = append(found.list, choice{word: text[:inner.From] + x.Text, about: x.About, goesOn: true})
	}
	return found
}

// fitting is those whose words begin with a text.
func fitting(text string, list []choice) choices {
	return choices{list: slices.DeleteFunc(list, func(x choice) bool { return !strings.HasPrefix(x.word, text) })}
}

func (c *completer) commandNames(p *partial) choices {
	var list []choice
	for _, cmd := range c.registry.All() {
		list = append(list, choice{word: cmd.Name, about: cmd.Summary})
		for _, a := range cmd.Aliases {
			list = append(list, choice{word: a, about: "the same as " + cmd.Name})
		}
	}
	return fitting(p.text, list)
}

// flagNames proposes the flags that the line does not have yet.
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
			return !w.Quoted && (w.Text == "-"+f.Shorthand || strings.TrimLeft(w.Text, "-") == f.Name && w.Text[0] == '-')
		})
		if !given {
			_, usage := pflag.UnquoteUsage(f)
			list = append(list, choice{word: name, about: usage})
		}
	})
	return fitting(p.text, list)
}

// aclEntries proposes the parts of an access control list.
func aclEntries(p *partial) choices {
	at := strings.LastIndexByte(p.text, ',') + 1
	head, entry := p.text[:at], p.text[at:]
	pairs := []string{
		"world:anyone:", "everybody",
		"auth::", "all users that this session is authenticated as",
		"digest:", "user:hash, with the hash that getAcl prints",
		"ip:", "an address, or a network such as 10.0.0.0/8",
		"sasl:", "a Kerberos principal", "x509:", "the subject of a certificate",
	}
	if i := strings.LastIndexByte(entry, ':'); i >= 0 && strings.Count(entry, ":") > 1 {
		id := entry[:i+1]
		pairs = []string{id + "cdrwa", "create, delete, read, write, admin", id + "r", "read", id + "rw", "read and write"}
	}
	var list []choice
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, choice{word: head + pairs[i], label: pairs[i], about: pairs[i+1], goesOn: true})
	}
	return fitting(p.text, list)
}

// paths proposes the children of the znode that the path leads to so far, from here if
// it is relative and may be. No blank follows a path: it may go on.
func (c *completer) paths(p *partial, here string, relative bool) choices {
	text := p.text
	switch {
	case text == "" && here == "/" || text == "" && !relative:
		text = "/"
	case relative && (text == "~" || text == ".." || text != "" && text[0] != '/' && strings.HasSuffix(text, "/..")):
		return choices{list: []choice{{word: text + "/", goesOn: true}}}
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
		parent = here
	default:
		parent = below(here, parent)
	}
	names, known := c.nodes.children(parent, prefix)
	found := choices{pending: !known}
	for _, name := range names[:min(len(names), maxProposals)] {
		word := head + name
		if word == "~" { // alone it is the root
			word = "./~"
		}
		found.list = append(found.list, choice{word: word, label: render.Safe(name), goesOn: true})
	}
	if more := len(names) - len(found.list); more > 0 {
		found.list[0].about = fmt.Sprintf("and %d more", more)
		found.last = head + names[len(names)-1] // they are sorted
	}
	if len(found.list) == 1 && found.list[0].word == text {
		yes, known := c.nodes.parent(strings.TrimSuffix(parent, "/") + "/" + names[0])
		found.pending = found.pending || !known
		if yes {
			found.deeper = text + "/"
		}
	}
	return found
}

// mostFiles is how many files of a folder are looked at.
const mostFiles = 5000

// files proposes the files of the folder that the word leads to so far. Hidden ones are
// proposed to who asks for them.
func files(p *partial) choices {
	found := choices{files: true}
	head, prefix := filepath.Split(p.text)
	dir, err := os.Open(cmp.Or(userfile.Home(head), "."))
	if err != nil {
		return found
	}
	defer dir.Close()
	entries, _ := dir.ReadDir(mostFiles) // what cannot be read is not proposed
	for _, e := range entries {
		name := e.Name()
		if !strings.HasPrefix(name, prefix) || strings.HasPrefix(name, ".") && prefix == "" {
			continue
		}
		x := choice{word: head + name, label: render.Safe(name)}
		if info, err := os.Stat(userfile.Home(x.word)); err == nil && info.IsDir() {
			x = choice{word: x.word + "/", label: x.label + "/", goesOn: true}
		}
		found.list = append(found.list, x)
		if len(found.list) == maxProposals {
			break
		}
	}
	slices.SortFunc(found.list, func(a, b choice) int { return strings.Compare(a.word, b.word) })
	return found
}

// Offer is a word that is proposed outside of the shell.
type Offer struct {
	Word, About string
	GoesOn      bool // more may be added to it
}

// Propose proposes what text, a word of a command line of zksh, may become behind the words
// that are finished; program is zksh as a command that is over another. names lists a znode.
// Of files it says no more than that they are what fits. It takes no longer than ctx.
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
	c.nodes = newNodeCache(namesOf(names), changed, func() {})
	defer c.nodes.close()
	for {
		found := c.behind(program, &partial{words: append([]commands.Word{{Text: program.Name}}, words...), text: text})
		if found.pending {
			select {
			case <-came:
				continue
			case <-ctx.Done():
				return nil, false
			}
		}
		for _, x := range found.list {
			if commands.Printable(x.word) { // else it can be typed in no shell's way
				list = append(list, Offer{x.word, x.about, x.goesOn})
			}
		}
		return list, found.files
	}
}
