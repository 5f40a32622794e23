package commands

import "github.com/spf13/pflag"

// Effect is a set of flags that describe what a command line does. They determine which lines of a
// script can be in flight together, whether the shell may run a line, and what undo saves.
type Effect uint16

// The flags of an Effect.
const (
	Offline    Effect = 1 << iota // works without a session
	Writes                        // may change znodes or the ensemble; rejected if writes are disabled
	Destroys                      // overwrites or deletes something that undo can restore
	Sweeps                        // deletes whole subtrees: never offered as a "did you mean" suggestion
	Asks                          // asks the user before it writes; the question names the cluster (Env.Confirm)
	OneRequest                    // sends one request that every server supports; later lines can be sent before the reply arrives
	Joins                         // sends a single write, which can be part of a transaction
	Apart                         // allowed between begin and commit without becoming part of the transaction
	OneStream                     // prints a single render.Stream, or nothing
	Quotas                        // sets a quota, or can exceed one; servers check quotas only against completed writes
	RunsLine                      // the words after -- are a zksh command line, not a program
)

// Has reports whether e and other have an effect in common.
func (e Effect) Has(other Effect) bool { return e&other != 0 }

// ByFlag returns a function for the field Command.Except. without maps the name of a flag to the
// effects that a command line with that flag does not have. The returned function panics if the
// command does not declare one of these flags.
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

// effectOf returns the effects of a line with these flags and positional arguments. hasRest is true
// if the line has words after --.
func (c *Command) effectOf(fs *pflag.FlagSet, args []string, hasRest bool) Effect {
	e := c.Effect
	if c.Except != nil {
		e &^= c.Except(fs, args)
	}
	if hasRest { // the command line or program after -- prints its own results
		e &^= OneStream
	}
	return e
}
