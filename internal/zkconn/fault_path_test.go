package zkconn_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"

	"github.com/zksh/zksh/internal/zkconn"
)

const invalid = `Invalid path string "%s" caused by %s @%d`

func TestValidatePath(t *testing.T) {
	for path, want := range map[string]string{
		"/": "", "/a": "", "/a/b": "", "/a b": "", "/é/€": "", "/.a": "", "/a.": "", "/..a": "", "/a..": "", "/...": "", "/a..b": "",
		"":            "Path length must be > 0",
		"a":           "Path must start with / character",
		" /a":         "Path must start with / character",
		"/a/":         "Path must not end with / character",
		"//":          "Path must not end with / character",
		"//a":         fmt.Sprintf(invalid, "//a", "empty node name specified", 1),
		"/a//b":       fmt.Sprintf(invalid, "/a//b", "empty node name specified", 3),
		"/.":          fmt.Sprintf(invalid, "/.", "relative paths not allowed", 1),
		"/a/./b":      fmt.Sprintf(invalid, "/a/./b", "relative paths not allowed", 3),
		"/..":         fmt.Sprintf(invalid, "/..", "relative paths not allowed", 2),
		"/a/../b":     fmt.Sprintf(invalid, "/a/../b", "relative paths not allowed", 4),
		"/\x00":       fmt.Sprintf(invalid, "/\x00", "null character not allowed", 1),
		"/a\x01":      fmt.Sprintf(invalid, "/a\x01", "invalid character", 2),
		"/a\x7f":      fmt.Sprintf(invalid, "/a\x7f", "invalid character", 2),
		"/a\u009fb":   fmt.Sprintf(invalid, "/a\u009fb", "invalid character", 2),
		"/é\ue000":    fmt.Sprintf(invalid, "/é\ue000", "invalid character", 2),
		"/a\ufff0":    fmt.Sprintf(invalid, "/a\ufff0", "invalid character", 2),
		"/\U0001f600": fmt.Sprintf(invalid, "/\U0001f600", "invalid character", 1),
		"/a\xff":      fmt.Sprintf(invalid, "/a\xff", "invalid character", 2),
	} {
		got := ""
		if err := zkconn.ValidatePath(path, false); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: %q, want %q", path, got, want)
		}
	}
	// The server appends a counter to the name of a sequential znode.
	for path, ok := range map[string]bool{"/a/": true, "/": true, "/a": true, "/a/.": true, "/a/..": true, "//": false, "a": false, "": false} {
		if err := zkconn.ValidatePath(path, true); (err == nil) != ok {
			t.Errorf("sequential %q: %v", path, err)
		}
	}
}

// javaVerdict is a copy of Java's PathUtils.validatePath: it returns the fault and its position
// in UTF-16 units, or "".
func javaVerdict(path string) string {
	c := utf16.Encode([]rune(path))
	switch {
	case len(c) == 0:
		return "Path length must be > 0"
	case c[0] != '/':
		return "Path must start with / character"
	case len(c) == 1:
		return ""
	case c[len(c)-1] == '/':
		return "Path must not end with / character"
	}
	ends := func(i int) bool { return i+1 == len(c) || c[i+1] == '/' }
	for i := 1; i < len(c); i++ {
		why := ""
		switch {
		case c[i] == 0:
			why = "null character not allowed"
		case c[i] == '/' && c[i-1] == '/':
			why = "empty node name specified"
		case c[i] == '.' && c[i-1] == '.':
			if c[i-2] == '/' && ends(i) {
				why = "relative paths not allowed"
			}
		case c[i] == '.':
			if c[i-1] == '/' && ends(i) {
				why = "relative paths not allowed"
			}
		case c[i] > 0 && c[i] <= 0x1f, c[i] >= 0x7f && c[i] <= 0x9f, c[i] >= 0xd800 && c[i] <= 0xf8ff, c[i] >= 0xfff0:
			why = "invalid character"
		}
		if why != "" {
			return fmt.Sprintf("%s @%d", why, i)
		}
	}
	return ""
}

func FuzzValidatePath(f *testing.F) {
	for _, s := range []string{"", "/", "/a/b", "/a//b", "/..", "/.../..", "/a/.", "/é/\u0085", "/😀/..", "/\xff\xfe", "/a/..b/.", "a/b", "/..\x00"} {
		f.Add(s, false)
		f.Add(s, true)
	}
	f.Fuzz(func(t *testing.T, path string, sequential bool) {
		err := zkconn.ValidatePath(path, sequential)
		want := javaVerdict(path)
		if sequential && path != "" {
			want = javaVerdict(path + "1")
		}
		if (err == nil) != (want == "") || err != nil && !strings.HasSuffix(err.Error(), want) {
			t.Fatalf("%q, sequential %t: %v; Java says %q", path, sequential, err, want)
		}
	})
}

func TestParseServers(t *testing.T) {
	type result struct {
		Hosts  []string
		Chroot string
	}
	one := func(hosts ...string) result { return result{Hosts: hosts} }
	for spec, want := range map[string]result{
		"h":                       one("h:2181"),
		"h:1":                     one("h:1"),
		"a,b:3":                   one("a:2181", "b:3"),
		" a , b ":                 one("a:2181", "b:2181"),
		"a,,b,":                   one("a:2181", "b:2181"),
		"127.0.0.1:2182":          one("127.0.0.1:2182"),
		"[::1]:5":                 one("[::1]:5"),
		"[::1]":                   one("[::1]:2181"),
		"::1":                     one("[::1]:2181"),
		"fe80::1,[fe80::2]:9,h":   one("[fe80::1]:2181", "[fe80::2]:9", "h:2181"),
		"h/":                      one("h:2181"),
		"h/a":                     {[]string{"h:2181"}, "/a"},
		"a:1,b:2/app/x":           {[]string{"a:1", "b:2"}, "/app/x"},
		"[::1]:5/app":             {[]string{"[::1]:5"}, "/app"},
		"h:65535/with blank, and": {[]string{"h:65535"}, "/with blank, and"},
	} {
		got, err := zkconn.ParseServers(spec)
		if diff := cmp.Diff(want, result{got.Hosts, got.Chroot}); err != nil || diff != "" || got.Spec != spec {
			t.Errorf("%q: %v\n%s", spec, err, diff)
		}
	}
	for _, spec := range []string{
		"", ",", "/app", ":1", "h:", "h:0", "h:65536", "h:-1", "h:x", "h:1x", "[::1", "[::1]x", "[]:1", "a:b:c", "1:2:3:4",
		"h/a/", "h//a", "h/a/../b", "h/\x00", "h:1:2", "socks5://h:1", "http://h/app",
	} {
		if got, err := zkconn.ParseServers(spec); err == nil {
			t.Errorf("%q: got %+v, want an error", spec, got)
		} else if strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: more than a line: %v", spec, err)
		}
	}
}
