package commands

import (
	"github.com/spf13/pflag"
)

// Effect says what a line does, as a set. The batch decides by it which lines can be in
// flight together, the shell whether a line may run, and undo what it can save.
type Effect uint16

// The effects.
const (
	Offline    Effect = 1 << iota // works without a session
	Writes                        // may change the ensemble: rejected if writes are disabled
	Destroys                      // overwrites or deletes what undo can save
	Sweeps                        // deletes whole subtrees: never offered as a "did you mean" suggestion
	Asks                          // asks a person before it writes; its question includes Env.Confirm
	OneRequest                    // sends a single request, which every server knows, and changes nothing else but the screen: later lines can be sent before it is answered
	Joins                         // is a single write that can be part of a transaction
	Apart                         // can stand between begin and commit without being part of the transaction
	OneStream                     // answers with one render.Stream, or with nothing
	Quotas                        // can fail because of a quota, or may set one: servers apply a quota only to requests that they have completed
	RunsLine                      // the words after -- are a line of this shell, not a program
)

// inherited are the effects of a line that those of a line around it include.
const inherited = Writes | Asks

// Has reports whether an effect includes another.
func (e Effect) Has(other Effect) bool { return e&other != 0 }

// ByFlag returns the Except of a command: the effects that a line does not have if it sets a
// flag, by the flag's name. The function panics if the command has no such flag.
func ByFlag(without map[string]Effect) func(fs *pflag.FlagSet, args []string) Effect {
	return func(fs *pflag.FlagSet, _ []string) (e Effect) {
		for name, lacks := range without {
			f := fs.Lookup(name)
			if f == nil {
				panic("commands: an effect depends on the flag " + name + ", which the command does not have")
			}
			if f.Changed && (f.Value.Type() != "bool" || f.Value.String() == "true") {
				e |= lacks
			}
		}
		return e
	}
}

// effectOf returns the effect of a line with these flags and positional words.
func (c *Command) effectOf(fs *pflag.FlagSet, args []string, runs bool) Effect {
	e := c.Effect
	if c.Except != nil {
		e &^= c.Except(fs, args)
	}
	if fs.Changed(inFlag) { // it reads a file
		e = e&^OneRequest | Offline
	}
	if runs { // the line or program after --, which has answers of its own
		e &^= OneStream
	}
	return e
}
