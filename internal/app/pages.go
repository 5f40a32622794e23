package app

import (
	"fmt"
	"slices"
	"strings"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/shell"
)

// A page is a text that zksh can print without connecting to a server, such as the man page. The
// user types the name of the page in place of a command.
type page struct {
	name  string
	words []string // allowed values of the argument, or empty if the page has no argument
	about string
}

// pages lists the texts that the program prints for other programs, such as the man page. They are
// not in the table of commands, because they are of no use inside the shell.
var pages = []page{
	{"completion", []string{"bash", "zsh", "fish"}, "print the completion script for a shell"},
	{"man", nil, "write the manual page zksh(1)"},
}

func findPage(name string) *page {
	for i := range pages {
		if pages[i].name == name {
			return &pages[i]
		}
	}
	return nil
}

func (p *page) usage() string {
	return strings.TrimRight(p.name+" "+strings.Join(p.words, "|"), " ")
}

// Page returns the text of a page. words contains the name of the page and its arguments. If there
// is no such page, found is false. table returns the program's commands, without those that are
// built into the shell.
func Page(words []string, version string, table func() [][]*commands.Command) (text string, found bool, err error) {
	if len(words) == 0 || findPage(words[0]) == nil {
		return "", false, nil
	}
	p, args := findPage(words[0]), words[1:]
	if len(args) > 0 && slices.Contains([]string{"-h", "--help"}, args[0]) {
		return fmt.Sprintf("zksh %s\n  %s\n", p.usage(), p.about), true, nil
	}
	wanted := min(len(p.words), 1)
	switch {
	case len(args) < wanted:
		return "", true, p.usageError("missing " + strings.Join(p.words, "|"))
	case len(args) > wanted:
		return "", true, p.usageError(fmt.Sprintf("unexpected word %q", args[wanted]))
	case wanted == 0:
		return manPage(version, shell.New(shell.Config{Commands: table()}).Registry()), true, nil
	case !slices.Contains(p.words, args[0]):
		return "", true, p.usageError(fmt.Sprintf("invalid argument %q: must be one of %s", args[0],
			strings.Join(p.words, ", ")))
	}
	return completions[args[0]], true, nil
}

func (p *page) usageError(problem string) error {
	return &commands.UsageError{Problem: fmt.Sprintf("%s: %s (usage: zksh %s)", p.name, problem, p.usage())}
}

// pagesAsCommands returns the pages as commands, so that their names can be completed. These
// commands cannot be run.
func pagesAsCommands() (list []*commands.Command) {
	for _, p := range pages {
		c := &commands.Command{Name: p.name, Args: strings.Join(p.words, "|"), Summary: p.about,
			Flags: commands.NoFlags(nil)}
		if len(p.words) > 0 {
			c.Params = []commands.Param{{Name: c.Args, Kind: commands.Choice, Words: p.words}}
		}
		list = append(list, c)
	}
	return list
}

// completions maps the name of a shell to its completion script. The scripts call zksh for each
// completion, so that they are never out of date. They pass the typed line in the environment,
// because other users could see the arguments of a process.
var completions = map[string]string{
	"bash": `# bash completion for zksh, written by: zksh completion bash
_zksh() {
	local kind word about
	COMPREPLY=()
	{
		read -r kind
		while IFS=$'\t' read -r word about; do COMPREPLY+=("$word"); done
	} < <(COMP_LINE=${COMP_LINE:0:COMP_POINT} zksh __complete bash "$COMP_WORDBREAKS" 2>/dev/null)
	case $kind in
	files) compopt -o default ;;
	more) compopt -o nospace ;;
	esac
}
complete -F _zksh zksh
`,
	"zsh": `#compdef zksh
# zsh completion for zksh, written by: zksh completion zsh
_zksh() {
	local kind word about
	local -a found shown how
	{
		read -r kind
		while IFS=$'\t' read -r word about; do
			found+=("$word") shown+=("$word${about:+  -- $about}")
			[[ -n $about ]] && how=(-l)
		done
	} < <(COMP_LINE="${(j: :)words[1,CURRENT-1]} $QIPREFIX$PREFIX" zksh __complete zsh 2>/dev/null)
	case $kind in
	files)
		compset -P '-*='
		_files
		return
		;;
	more) how+=(-S '') ;;
	esac
	compadd "${(@)how}" -d shown -a found
}
if [[ ${zsh_eval_context[-1]} == loadautofunc ]]; then
	_zksh "$@"
else
	compdef _zksh zksh
fi
`,
	"fish": `# fish completion for zksh, written by: zksh completion fish
function __zksh_complete
	set -l answer (COMP_LINE=(commandline -cp | string collect) zksh __complete fish 2>/dev/null)
	test (count $answer) -gt 0; or return
	set -l kind $answer[1]
	set -e answer[1]
	if test $kind = files
		set -l option (string match -r '^-[^=]*=' -- (commandline -ct))
		string join \n -- "$option"(__fish_complete_path (string replace -- "$option" '' (commandline -ct)))
	else if test (count $answer) -gt 0
		printf '%s\n' $answer
	end
end
complete -c zksh -f -a '(__zksh_complete)'
`,
}
