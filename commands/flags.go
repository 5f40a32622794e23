package commands

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// Reorder turns words with flags anywhere among them into what pflag parses
// without surprises: flags and their values first, then "--", then the rest. It
// takes zkCli's forms: -x, -xVALUE, -x=VALUE, -x VALUE, joined flags (-se), long
// names with one dash or two, and "--" before words that are no flags. A quoted
// word is never a flag, and a number is none unless the set has a flag of that
// digit. With stopAtFirst everything from the first plain word on is kept
// together, as program options need.
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
		out, wants, err := canonical(fs, w)
		if err != nil {
			return nil, err
		}
		if wants {
			if i++; i == len(words) {
				return nil, fmt.Errorf("flag %s needs a value", w)
			}
			out[len(out)-1] += "=" + words[i].Text
		}
		flags = append(flags, out...)
	}
	return append(append(flags, "--"), rest...), nil
}

// Position says what the next word of a line would be, after the words that follow
// the command's name: the positional word of that index, or the value of a flag.
// After "--" no word is a flag any more.
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
			out, wants, err := canonical(fs, w.Text)
			if err != nil || !wants {
				continue
			}
			if i++; i == len(words) {
				return index, fs.Lookup(strings.TrimPrefix(out[len(out)-1], "--")), false
			}
		}
	}
	return index, nil, flagsEnded
}

// isData tells that a word is no flag.
func isData(fs *pflag.FlagSet, w Word) bool {
	return w.Quoted || len(w.Text) < 2 || w.Text[0] != '-' || isNumber(w.Text) && fs.ShorthandLookup(w.Text[1:2]) == nil
}

func isNumber(w string) bool {
	_, err := strconv.ParseFloat(w, 64)
	return err == nil
}

// canonical rewrites one flag word as long flags; the value of the last of them
// is the next word if it wants one. The long form alone keeps an empty value.
func canonical(fs *pflag.FlagSet, w string) (out []string, wants bool, err error) {
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
		return nil, false, unknownFlag{w, nearestFlag(fs, w)}
	}
	for j := 1; j < len(w); j++ { // a run of short flags
		f := fs.ShorthandLookup(w[j : j+1])
		switch {
		case f == nil && w[j] == '=':
			return nil, false, fmt.Errorf("flag %s takes no value", w[:j])
		case f == nil:
			return nil, false, unknownFlag{w, nearestFlag(fs, w)}
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

// unknownFlag is the error of a word that looks like a flag and is none.
type unknownFlag struct{ word, nearest string }

func (e unknownFlag) Error() string {
	s := "unknown flag " + e.word
	if e.nearest != "" {
		s += "; did you mean " + e.nearest + "?"
	}
	return s
}

// nearestFlag is the flag that a mistyped one is close to: the same letter in the
// other case, or a long name with few edits. It is empty when none is close.
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

// DryRun is the flag of commands that write, with which they write nothing.
const DryRun = "dry-run"
