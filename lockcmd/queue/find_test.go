package queue

import (
	"strings"
	"testing"
)

func TestFind(t *testing.T) {
	f := newFakeEnsemble()
	f.add("/l")
	names := []string{uuid + "-lock-0000000001", uuid + "-lock-0000000005", hex32 + "__rlock__0000000012"}
	for _, n := range names {
		f.add("/l/" + n)
	}
	q := f.read(t)
	for node, want := range map[string]string{
		"1": names[0], "2": names[1], "3": names[2],
		names[1]: names[1], "/l/" + names[1]: names[1],
		"lock-0000000005": names[1], hex32: names[2], "00012": "no contender",
		"_c_…00001": names[0], "…lock…00005": names[1], "…rlock…00012": names[2], "…": "matches several",
		uuid: "matches several", "/m/" + names[0]: "is not below /l", "/l/": "no contender", "/l/1": "no contender", "/l/" + uuid: "no contender",
		"5": "no contender", "05": "no contender", "0000000005": "no contender", "…lock…00006": "no contender", "": "no contender",
	} {
		got, err := q.Find(node)
		if err == nil && got != "/l/"+want || err != nil && (got != "" || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %q, %v; want %q", node, got, err, want)
		}
	}
	// Find accepts the shortened names that a narrow list shows.
	for _, n := range names {
		for columns := 7; columns < len(n); columns++ {
			if got, err := q.Find(ShortNode(n, columns)); got != "/l/"+n {
				t.Errorf("%s: %q, %v", ShortNode(n, columns), got, err)
			}
		}
	}
}
