package shell

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/history"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/shell/line"
)

// completer proposes what a line may become. All it knows of commands comes from
// their table.
type completer struct {
	registry *commands.Registry
	lines    *history.List
	nodes    *nodeCache
}

// maxProposals is how many proposals a menu offers.
const maxProposals = 100

// complete is a line.Assistant's Complete.
func (c *completer) complete(before string) line.Proposals {
	p, ok := partialLine(before)
	if !ok {
		return line.Proposals{}
	}
	list := c.propose(&p)
	if len(list) == 1 && list[0].Text == before[p.from:] { // there is nothing to add
		list = nil
	}
	return line.Proposals{From: p.from, List: list}
}

func (c *completer) propose(p *partial) []line.Proposal {
	if len(p.words) == 0 {
		return c.commandNames(p)
	}
	cmd := c.registry.Find(p.words[0].Text)
	if cmd == nil {
		return nil
	}
	at, flag, flagsEnded := cmd.Position(p.words[1:])
	switch {
	case flag != nil:
		return nil
	case p.quote == "" && strings.HasPrefix(p.text, "-") && !flagsEnded:
		return flagNames(cmd, p)
	case at >= len(cmd.Params):
		return nil
	}
	return c.values(cmd.Params[at].Kind, p)
}

// values proposes positional words.
func (c *completer) values(kind commands.Kind, p *partial) []line.Proposal {
	switch kind {
	case commands.Path:
		return c.paths(p)
	case commands.CommandName:
		return c.commandNames(p)
	case commands.Switch:
		return fixed(p, true, "on", "", "off", "")
	case commands.Scheme:
		return fixed(p, true, "digest", "a user and a password, as user:password", "sasl", "", "x509", "")
	case commands.ACL:
		return aclEntries(p)
	case commands.LineNumber:
		return c.lineNumbers(p)
	}
	return nil
}

// fixed proposes words out of pairs of a word and what it is about.
func fixed(p *partial, last bool, pairs ...string) []line.Proposal {
	var list []line.Proposal
	for i := 0; i < len(pairs); i += 2 {
		if strings.HasPrefix(pairs[i], p.text) {
			list = append(list, line.Proposal{Text: p.spell(pairs[i]), Label: pairs[i], About: pairs[i+1], Last: last})
		}
	}
	return list
}

func (c *completer) commandNames(p *partial) []line.Proposal {
	var pairs []string
	for _, cmd := range c.registry.All() {
		pairs = append(pairs, cmd.Name, cmd.Summary)
		for _, a := range cmd.Aliases {
			pairs = append(pairs, a, "the same as "+cmd.Name)
		}
	}
	return fixed(p, true, pairs...)
}

// flagNames proposes the flags that the line does not have yet.
func flagNames(cmd *commands.Command, p *partial) []line.Proposal {
	var list []line.Proposal
	cmd.FlagSet().VisitAll(func(f *pflag.Flag) {
		name := "-" + f.Shorthand
		if f.Shorthand == "" || strings.HasPrefix(p.text, "--") {
			name = "--" + f.Name
		}
		given := slices.ContainsFunc(p.words, func(w commands.Word) bool {
			return !w.Quoted && (w.Text == "-"+f.Shorthand || strings.TrimLeft(w.Text, "-") == f.Name && w.Text[0] == '-')
		})
		if strings.HasPrefix(name, p.text) && !given {
			_, usage := pflag.UnquoteUsage(f)
			list = append(list, line.Proposal{Text: name, Label: name, About: usage, Last: true})
		}
	})
	return list
}

// aclEntries proposes the parts of an access control list.
func aclEntries(p *partial) []line.Proposal {
	at := strings.LastIndexByte(p.text, ',') + 1
	head, entry := p.text[:at], p.text[at:]
	pairs := []string{
		"world:anyone:", "everybody",
		"auth::", "whoever this session is authenticated as",
		"digest:", "user:hash, the hash as getAcl shows it",
		"ip:", "an address, or a network as 10.0.0.0/8",
		"sasl:", "a Kerberos principal", "x509:", "the subject of a certificate",
	}
	if i := strings.LastIndexByte(entry, ':'); i >= 0 && strings.Count(entry, ":") > 1 {
		id := entry[:i+1]
		pairs = []string{id + "cdrwa", "create, delete, read, write, admin", id + "r", "read", id + "rw", "read and write"}
	}
	var list []line.Proposal
	for i := 0; i < len(pairs); i += 2 {
		if strings.HasPrefix(pairs[i], entry) {
			list = append(list, line.Proposal{Text: p.spell(head + pairs[i]), Label: pairs[i], About: pairs[i+1]})
		}
	}
	return list
}

// lineNumbers proposes the lines of the history, the newest first.
func (c *completer) lineNumbers(p *partial) []line.Proposal {
	var list []line.Proposal
	for _, e := range slices.Backward(c.lines.Last(maxProposals)) {
		n := strconv.Itoa(e.Number)
		if strings.HasPrefix(n, p.text) {
			list = append(list, line.Proposal{Text: n, Label: n, About: render.Safe(history.Redacted(e.Line)), Last: true})
		}
	}
	return list
}

// paths proposes the children of the znode that the path leads to so far. No
// blank follows a path: it may go on.
func (c *completer) paths(p *partial) []line.Proposal {
	text := p.text
	if text == "" {
		text = "/"
	}
	at := strings.LastIndexByte(text, '/')
	if at < 0 || text[0] != '/' {
		return nil
	}
	parent, prefix := text[:max(at, 1)], text[at+1:]
	names, all := c.nodes.children(parent, prefix)
	list := make([]line.Proposal, len(names))
	for i, name := range names {
		list[i] = line.Proposal{Text: p.spell(text[:at+1] + name), Label: render.Safe(name)}
	}
	if more := all - len(names); more > 0 {
		list[0].About = fmt.Sprintf("and %d more", more)
	}
	return list
}
