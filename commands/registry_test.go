package commands

import (
	"strings"
	"testing"
)

func TestHint(t *testing.T) {
	r := NewRegistry(All())
	for name, want := range map[string]string{
		"gte": "get", "lss": "ls", "getACL": "getAcl", "setquote": "setquota",
		"rm": "delete", "RMDIR": "delete", "cat": "get", "touch": "create", "mkdir": "create", "lsr": "ls -R", "dump": "export -R", "rename": "mv",
		"delteall": "", "deletall": "", "rmrr": "", "x": "", "": "", "5": "", "/a": "", "世界": "",
	} {
		got := strings.TrimSuffix(strings.TrimPrefix(r.Hint(name), "did you mean "), "?")
		if got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
	for _, name := range []string{"grep", "less"} {
		if r.Hint(name) == "" {
			t.Errorf("%q: no hint", name)
		}
	}
	// A name with one letter missing never suggests a command that deletes whole subtrees.
	for _, c := range r.All() {
		for i := range c.Name {
			if got := r.Find(r.nearest(c.Name[:i] + c.Name[i+1:])); got != nil && got.Effect.Has(Sweeps) {
				t.Errorf("%s without its letter %d: %s", c.Name, i, got.Name)
			}
		}
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "ab", 2}, {"get", "get", 0}, {"gte", "get", 1}, {"gett", "get", 1}, {"et", "get", 1}, {"got", "get", 1}, {"teg", "get", 2}} {
		if got, back := distance(c.a, c.b), distance(c.b, c.a); got != c.want || back != c.want {
			t.Errorf("from %q to %q %d, back %d; want %d", c.a, c.b, got, back, c.want)
		}
	}
}

func TestAbout(t *testing.T) {
	r := NewRegistry(All())
	for word, want := range map[string]string{
		"quota": "setquota listquota delquota", "QUOTA": "setquota listquota delquota", "authent": "addauth whoami",
		"rm": "", "a": "", "": "", "znoise": "",
	} {
		var names []string
		found, mentioned := r.About(word)
		if found == nil {
			found = mentioned
		}
		for _, c := range found {
			names = append(names, c.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%q is about %q, want %q", word, got, want)
		}
	}
}
