package commands

import (
	"github.com/spf13/pflag"
)

// Effect is a set of flags that describe what a command line does. From it, a script decides
// which lines can be in flight together, the shell decides whether a line may run, and undo
// decides what to save.
type Effect uint16

// The flags of an Effect.
const (
	Offline    Effect = 1 << iota // works without a session
	Writes                        // may change znodes or the ensemble; rejected if writes are disabled
	Destroys                      // overwrites or deletes something that undo can restore
	Sweeps                        // deletes whole subtrees: never offered as a "did you mean" suggestion
	Asks                          // asks the user before it writes; the question includes Env.Confirm, the name of the cluster
	OneRequest                    // sends one request that every server supports, and otherwise only prints: later lines can be sent before its reply arrives
	Joins                         // sends a single write that can be part of a transaction
	Apart                         // allowed between begin and commit, although it is not part of the transaction
	OneStream                     // prints one render.Stream, or nothing
	Quotas                        // can exceed a quota, or sets one; servers check quotas only against completed writes
	RunsLine                      // the words after -- are a zksh command line, not a program
)

// inherited is the set of effects that a command such as time takes over from the line that it
// runs.
const inherited = Writes | Asks

// Has reports whether e and other have an effect in common.
func (e Effect) Has(other Effect) bool { return e&other != 0 }

// ByFlag returns an Except function for a command. The map without has the name of a flag as its
// key, and as its value the effects that a line does not have if it sets that flag. The Except
// function panics if the command has no such flag.
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

// effectOf returns the effects of a line with these flags and positional arguments. hasRest
// reports whether the line has words after --.
func (c *Command) effectOf(fs *pflag.FlagSet, args []string, hasRest bool) Effect {
	e := c.Effect
	if c.Except != nil {
		e &^= c.Except(fs, args)
	}
	if fs.Changed(inFlag) { // the line reads a file, not the server
		e = e&^OneRequest | Offline
	}
	if hasRest { // the command line or program after -- prints its own results
		e &^= OneStream
	}
	return e
}
