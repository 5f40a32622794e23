package commands

import (
	"slices"
	"testing"
)

// Every command that can set a watch says, after a single command, that the watch ended with it.
func TestWatchesPass(t *testing.T) {
	for _, c := range All() {
		fs := c.FlagSet()
		word := slices.ContainsFunc(c.Params, func(p Param) bool { return p.Name == watchParam.Name })
		if sets := fs.Lookup("watch") != nil || word; sets != (c.Passing != nil && c.Name != "create" && c.Name != "addauth" && c.Name != "addWatch") {
			t.Errorf("%s: sets a watch: %v", c.Name, sets)
		}
		if c.Passing != nil && len(c.Params) > 0 && c.Name != "addauth" && c.Name != "addWatch" && c.Passing(fs, []string{"/a"}) != "" {
			t.Errorf("%s /a: %s", c.Name, c.Passing(fs, []string{"/a"}))
		}
	}
}

// Every command that writes names a line that shows what took effect, so that the error after a
// lost connection can name it.
func TestWritersSayHowToLook(t *testing.T) {
	for _, c := range All() {
		if writes := c.Effect.Has(Writes); writes != (c.Look != nil) {
			t.Errorf("%s: writes: %v, but Look is %v", c.Name, writes, c.Look != nil)
		}
	}
}
