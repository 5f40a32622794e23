package queue

import (
	"strings"
	"testing"
)

func TestWho(t *testing.T) {
	const note = `{"host":"web1","pid":4711,"user":"ann","note":"nightly","start":"2026-11-21T12:00:00Z"}`
	for data, want := range map[string]string{
		"":                      "",
		"127.0.0.1":             "127.0.0.1",
		"worker 7\nsecond":      "worker 7",
		"\x12\x34":              "2 bytes",
		"\xff\xfe\xfd":          "3 bytes",
		"a\x1b[2J":              "5 bytes",
		strings.Repeat("x", 99): strings.Repeat("x", 39) + "…",
		note:                    "ann@web1 pid 4711: nightly",
		`{"host":"","pid":1}`:   `{"host":"","pid":1}`,
		"__REVOKE__":            "asked to let go",
		"unlock":                "asked to let go",
		"unlocked":              "unlocked",
		`__REVOKE__ {"by":{"host":"b","pid":2,"user":"bob"},"holder":` + note + `}`: "ann@web1 pid 4711: nightly, asked to let go by bob@b pid 2",
		`__REVOKE__ {"holder":`: "asked to let go",
	} {
		got, ours := decode([]byte(data))
		if got != want || ours != strings.Contains(got, "ann@web1") {
			t.Errorf("%q: %q (ours: %t), want %q", data, got, ours, want)
		}
	}
}
