package commands

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// Reorder rearranges the words of a command line for pflag: first the flags with their values, then
// "--", then all other words. In words, flags may appear anywhere.
//
// Reorder accepts all forms of flags that zkCli accepts: -x, -xVALUE, -x=VALUE, -x VALUE, joined
// flags (-se), and long names with one dash or two. Words after "--" and quoted words are not
// flags. A negative number such as -1 is a flag only if fs has a flag named by its first digit.
//
// If stopAtFirst is true, flags end at the first word that is not a flag, and Reorder leaves that
// word and all later ones unchanged. The command line of the program zksh itself requires this.
func Reorder(fs *pflag.FlagSet, words []Word, stopAtFirst bool) ([]string, error) {
	var flags, rest []string
	for i := 0; i < len(words); i++ {
		w := words[i].Text
		if w == "--" && !words[i].Quoted {
			rest = append(rest, texts(words[i+1:])...)
			break
		}
		if isData(fs, words[i]) {
			if stopAtFirst {
				rest = append(rest, texts(words[i:])...)
				break
			}
			rest = append(rest, w)
			continue
		}
		out, needsValue, err := canonical(fs, w)
		if err != nil {
			return nil, err
		}
		if needsValue {
			if i++; i == len(words) {
				return nil, fmt.Errorf("flag %s needs a value", w)
			}
			out[len(out)-1] += "=" + words[i].Text
		}
		if err := checkEmpty(fs, w, out); err != nil {
			return nil, err
		}
		flags = append(flags, out...)
	}
	return append(append(flags, "--"), rest...), nil
}

// Position determines what the next word of a command line can be. words are the words after the
// command's name. If flag is not nil, the next word is the value of that flag. Otherwise, the next
// word is a flag or the positional argument with the given index. If flagsEnded is true, words
// contain "--", so the next word cannot be a flag.
func (c *Command) Position(words []Word) (index int, flag *pflag.Flag, flagsEnded bool) {
	fs := c.FlagSet()
	for i := 0; i < len(words); i++ {
		w := words[i]
		switch {
		case flagsEnded:
			index++
		case w.Text == "--" && !w.Quoted:
			flagsEnded = true
		case isData(fs, w):
			index++
		default:
			out, needsValue, err := canonical(fs, w.Text)
			if err != nil || !needsValue {
				continue
			}
			if i++; i == len(words) {
				return index, fs.Lookup(strings.TrimPrefix(out[len(out)-1], "--")), false
			}
		}
	}
	return index, nil, flagsEnded
}

// SplitProgram splits the words of zksh's own command line. options are the options of the program,
// and line is the command line that follows them. The receiver describes the program as a command.
func (c *Command) SplitProgram(words []Word) (options, line []Word) {
	fs := c.FlagSet()
	for i := 0; i < len(words); i++ {
		switch {
		case words[i].Text == "--" && !words[i].Quoted:
			return words[:i], words[i+1:]
		case isData(fs, words[i]):
			return words[:i], words[i:]
		}
		if _, wants, err := canonical(fs, words[i].Text); err == nil && wants {
			i++
		}
	}
	return words, nil
}

// isData reports whether a word is a positional argument rather than a flag.
func isData(fs *pflag.FlagSet, w Word) bool {
	return w.Quoted || len(w.Text) < 2 || w.Text[0] != '-' || isNumber(w.Text) && fs.ShorthandLookup(w.Text[1:2]) == nil
}

func isNumber(w string) bool {
	_, err := strconv.ParseFloat(w, 64)
	return err == nil
}

// checkEmpty returns an error if the last flag in out, in the form --name=value, has an empty value
// that has no meaning. A variable of a script that is not set must not turn a setting off. word is
// what the user typed.
func checkEmpty(fs *pflag.FlagSet, word string, out []string) error {
	name, value, hasValue := strings.Cut(strings.TrimPrefix(out[len(out)-1], "--"), "=")
	if !hasValue || value != "" {
		return nil
	}
	f := fs.Lookup(name)
	if _, meant := f.Annotations[flagEmpty]; meant {
		return nil
	}
	if word, _, _ = strings.Cut(word, "="); strings.TrimLeft(word, "-") != f.Name {
		word = "-" + f.Shorthand // word can contain several short flags
	}
	return fmt.Errorf("the value of %s is empty; give it a value, or leave %[1]s out", word)
}

// canonical rewrites a word with one or more flags as long flags. If needsValue is true, the next
// word of the line is the value of the last flag. A value can be empty only in the form
// --name=value.
func canonical(fs *pflag.FlagSet, w string) (out []string, needsValue bool, err error) {
	name, value, hasValue := strings.Cut(strings.TrimLeft(w, "-"), "=")
	if f := fs.Lookup(name); f != nil && len(name) > 1 {
		switch {
		case isSwitch(f) && hasValue:
			return nil, false, fmt.Errorf("flag %s takes no value", w[:strings.IndexByte(w, '=')])
		case hasValue:
			return []string{"--" + name + "=" + value}, false, nil
		}
		return []string{"--" + name}, !isSwitch(f), nil
	}
	if w == "--help" || w == "-h" && fs.ShorthandLookup("h") == nil {
		return nil, false, pflag.ErrHelp
	}
	if strings.HasPrefix(w, "--") {
		return nil, false, newUnknownFlag(fs, w)
	}
	for j := 1; j < len(w); j++ { // short flags joined in one word, such as -se
		f := fs.ShorthandLookup(w[j : j+1])
		switch {
		case f == nil && w[j] == '=':
			return nil, false, fmt.Errorf("flag %s takes no value", w[:j])
		case f == nil:
			return nil, false, newUnknownFlag(fs, w)
		case isSwitch(f):
			out = append(out, "--"+f.Name)
			continue
		case j == len(w)-1:
			return append(out, "--"+f.Name), true, nil
		}
		return append(out, "--"+f.Name+"="+strings.TrimPrefix(w[j+1:], "=")), false, nil
	}
	return out, false, nil
}

// unknownFlag is the error for a word that looks like a flag but is not a flag of the command.
// word does not include a value after =, because the value may be secret, such as that of --proxy.
// nearest is a flag with a similar name, or empty if there is none.
type unknownFlag struct{ word, nearest string }

func newUnknownFlag(fs *pflag.FlagSet, word string) unknownFlag {
	name, _, _ := strings.Cut(word, "=")
	return unknownFlag{name, nearestFlag(fs, word)}
}

func (e unknownFlag) Error() string {
	s := "unknown flag " + e.word
	if e.nearest != "" {
		s += "; did you mean " + e.nearest + "?"
	}
	return s
}

// nearestFlag returns the flag most similar to a mistyped one, or an empty string if none is
// similar. A short flag is similar to the same letter in the other case. A long flag is similar
// to a name that differs in only a few characters.
func nearestFlag(fs *pflag.FlagSet, word string) string {
	name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
	best, at := "", 1+min(2, len(name)/2)
	fs.VisitAll(func(f *pflag.Flag) {
		switch {
		case len(name) == 1 && strings.EqualFold(name, f.Shorthand):
			best = "-" + f.Shorthand
		case len(name) > 1:
			if d := distance(strings.ToLower(name), f.Name); d < at {
				best, at = "--"+f.Name, d
			}
		}
	})
	return best
}

func isSwitch(f *pflag.Flag) bool { return f.NoOptDefVal != "" }

// DryRun is the name of the flag that makes a command only print the changes that it would make.
const DryRun = "dry-run"

// versionArg returns the znode version that a command line requires. The version is the positional
// argument with the given index, as in ZooKeeper 3.4, or else the value of the flag -v.
func versionArg(fs *pflag.FlagSet, args []string, index int, flag *int64) (int32, error) {
	if index >= len(args) {
		return int32(*flag), nil
	}
	if fs.Changed("version") {
		return 0, Misuse("unexpected word %q: the version is already given with -v", args[index])
	}
	v, err := strconv.ParseInt(args[index], 10, 32)
	if err != nil {
		return 0, Misuse("unexpected word %q: a version must be a whole number; quote a value that contains spaces", args[index])
	}
	return int32(v), nil
}

// watchArg reports whether a command line asks for a watch. The line can do so with a flag or, as
// in ZooKeeper 3.4, with a word after the path. For that word, watchArg prints a reminder to use the
// flag.
func watchArg(env *Env, args []string, flag bool, old, now string) (bool, error) {
	if len(args) < 2 {
		return flag, nil
	}
	switch args[1] {
	case "watch", "true", "1":
		env.Screen.Note("'" + old + "' has been deprecated. Please use '" + now + "' instead.")
		return true, nil
	}
	if strings.HasPrefix(args[1], ">") || strings.HasPrefix(args[1], "|") {
		return false, Misuse("unexpected word %q after the path", args[1]) // the shell adds to the error why the word is unexpected
	}
	return false, Misuse("unexpected word %q after the path; to set a watch, use -w", args[1])
}
