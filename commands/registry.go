package commands

import "slices"

// Registry finds commands by name or alias.
type Registry struct {
	list   []*Command
	byName map[string]*Command
}

// NewRegistry collects commands. A name used twice is an error in the program
// and panics.
func NewRegistry(lists ...[]*Command) *Registry {
	r := &Registry{byName: map[string]*Command{}}
	for _, c := range slices.Concat(lists...) {
		for _, n := range append([]string{c.Name}, c.Aliases...) {
			if r.byName[n] != nil {
				panic("two commands are named " + n)
			}
			r.byName[n] = c
		}
		r.list = append(r.list, c)
	}
	return r
}

// Find returns the command of that name or alias, or nil.
func (r *Registry) Find(name string) *Command { return r.byName[name] }

// All returns the commands in the order of their registration.
func (r *Registry) All() []*Command { return r.list }
