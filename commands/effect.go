package commands

import (
	"github.com/spf13/pflag"
)

// Effect is a set of facts about what a line does. A script uses it to decide which lines can be
// in flight together, the shell to decide whether a line may run, and undo to decide what to save.
type Effect uint16

// The effects.
const (
	Offline    Effect = 1 << iota // works without a session
	Writes                        // may change znodes or the ensemble; rejected if writes are disabled
	Destroys                      // overwrites or deletes something that undo can restore
	Sweeps                        // deletes whole subtrees: never offered as a "did you mean" suggestion
	Asks                          // asks the user before it writes; the question includes Env.Confirm
	OneRequest                    // sends a single request, a read or a write that every server knows, and otherwise affects only the screen: later lines can be sent before the reply
	Joins                         // a single write that can be part of a transaction
	Apart                         // allowed between begin and commit, without being part of the transaction
	OneStream                     // prints one render.Stream, or nothing
	Quotas                        // can fail because of a quota, or may set one; a server counts only requests that it has completed
	RunsLine                      // the words after -- are a line of this shell, not a program
)

// inherited are the effects that a command such as time takes over from the line that it runs.
const inherited = Writes | Asks

// Has reports whether e and other have an effect in common.
func (e Effect) Has(other Effect) bool { return e&other != 0 }

// ByFlag returns an Except function. without maps the name of a flag to the effects that a line
// does not have if it sets that flag. The function panics if the command has
// no such flag.
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

// effectOf returns the effect of a line with these flags and positional words. runs reports
// whether the line has words after --.
func (c *Command) effectOf(fs *pflag.FlagSet, args []string, runs bool) Effect {
	e := c.Effect
	if c.Except != nil {
		e &^= c.Except(fs, args)
	}
	if fs.Changed(inFlag) { // the line reads a file, not the server
		e = e&^OneRequest | Offline
	}
	if runs { // the line or program after -- prints results of its own
		e &^= OneStream
	}
	return e
}
