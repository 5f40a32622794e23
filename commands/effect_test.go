package commands

import (
	"strings"
	"testing"
)

// The effect of a line depends on its flags.
func TestEffect(t *testing.T) {
	r := NewRegistry(All())
	for line, want := range map[string]Effect{
		"create /a":                Writes | OneRequest | Joins | Quotas,
		"create -p /a":             Writes | Quotas,
		"create -c /a":             Writes | Joins | Quotas,
		"create --container=no /a": 0, // cannot be read
		"set -f file /a":           Writes | Destroys | Joins | Quotas,
		"delete /a":                Writes | Destroys | OneRequest | Joins,
		"deleteall /a":             Writes | Destroys | Sweeps | Asks | OneStream,
		"deleteall -y /a":          Writes | Destroys | Sweeps | OneStream,
		"deleteall -n /a":          Destroys | Sweeps | Asks | OneStream,
		"ls /":                     OneRequest | OneStream,
		"ls -R /":                  OneStream,
		"stat /":                   OneRequest,
		"find /":                   OneStream | Quotas | RunsLine,
		"find / -- get {}":         Quotas | RunsLine,
	} {
		var words []Word
		for _, text := range strings.Fields(line) {
			words = append(words, Word{Text: text})
		}
		l, _ := r.Find(words[0].Text).read(words[1:])
		if l.effect != want {
			t.Errorf("%s: %b, want %b", line, l.effect, want)
		}
	}
}
