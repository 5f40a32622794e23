package commands

import (
	"testing"
)

// Every command that writes names a line that shows what took effect, so that the error after a
// lost connection can name it.
func TestWritersSayHowToLook(t *testing.T) {
	for _, c := range All() {
		if writes := c.Effect.Has(Writes); writes != (c.Look != nil) {
			t.Errorf("%s: writes: %v, but Look is %v", c.Name, writes, c.Look != nil)
		}
	}
}
