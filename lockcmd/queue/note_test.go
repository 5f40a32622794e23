package queue

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
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
		note:                    "nightly (ann@web1 pid 4711)",
		`{"host":"","pid":1}`:   `{"host":"","pid":1}`,
		"__REVOKE__":            "release requested",
		"unlock":                "release requested",
		"unlocked":              "unlocked",
		`__REVOKE__ {"by":{"host":"b","pid":2,"user":"bob"},"holder":` + note + `}`: "nightly (ann@web1 pid 4711), release requested by bob@b pid 2",
		`__REVOKE__ {"holder":`:                      "release requested",
		`__REVOKE__ {"by":{"host":"b","pid":2}}`:     "release requested by b pid 2",
		`__REVOKE__ {"by":{},"holder":{"host":"h"}}`: "release requested",
		`__REVOKE__ {"by":7,"holder":` + note + `}`:  "release requested",
	} {
		got, ours := decode([]byte(data))
		if got != want || ours != strings.Contains(got, "ann@web1") {
			t.Errorf("%q: %q (ours: %t), want %q", data, got, ours, want)
		}
	}
}

// A second request keeps the owner's original data, no matter which client made the first request.
func TestRevoke(t *testing.T) {
	const note = `{"host":"web1","pid":4711,"user":"ann","start":""}`
	for data, ours := range map[string]bool{
		note: true, "": false, "10.0.0.1": false, "unlock": false, "__REVOKE__": false, "__REVOKE__ {}": false,
		`{"pid":7}`: false, `__REVOKE__ {"by":{"host":"b","pid":2},"holder":` + note + `}`: true,
	} {
		asked, err := Revoke([]byte(data))
		if err != nil {
			t.Fatal(err)
		}
		who, ok := decode(asked)
		if !strings.HasPrefix(string(asked), "__REVOKE__") || ok != ours || ours != strings.HasPrefix(who, "ann@web1 pid 4711, release requested by ") {
			t.Errorf("%q: %q, %q", data, asked, who)
		}
		if !ours && string(asked) != "__REVOKE__" {
			t.Errorf("%q: %q, which Curator does not know", data, asked)
		}
		if who := Asker(asked); (who == "another client") == ours || ours && !strings.HasSuffix(who, "pid "+strconv.Itoa(os.Getpid())) {
			t.Errorf("%q: %q asks", data, who)
		}
	}
}

func TestAsker(t *testing.T) {
	for data, want := range map[string]string{
		"__REVOKE__": "another client", "unlock": "another client", "__REVOKE__ {}": "another client", `__REVOKE__ {"by":{"host":"","pid":1}}`: "another client",
		`__REVOKE__ {"by":{"host":"b","pid":2,"user":"bob\u001b[2J"}}`: `bob\x1b[2J@b pid 2`,
	} {
		if got := Asker([]byte(data)); got != want {
			t.Errorf("%q: %q, want %q", data, got, want)
		}
	}
}

func TestDescribe(t *testing.T) {
	at := time.Date(2026, 11, 21, 21, 9, 33, 0, time.Local)
	for want, got := range map[string]string{
		"ann@web1 pid 7, since 21:09:33 (lock-0000000001)": Describe([]byte(`{"host":"web1","pid":7,"user":"ann"}`), at, "/l/lock-0000000001"),
		"a\\nb, since 21:09:33 (lock-0000000001)":          Describe([]byte(`{"host":"a\nb","pid":1}`), at, "/l/lock-0000000001"),
		"lock-0000000001, since 21:09:33":                  Describe(nil, at, "/l/lock-0000000001"),
		"lock-0000000001":                                  Describe(nil, time.Time{}, "/l/lock-0000000001"),
		"10.0.0.1 (lock-0000000001)":                       Describe([]byte("10.0.0.1"), time.Time{}, "/l/lock-0000000001"),
	} {
		if got = strings.Replace(got, " pid 1", "", 1); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
