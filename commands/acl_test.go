package commands

import (
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/google/go-cmp/cmp"
)

func TestParseACL(t *testing.T) {
	world := func(perms int32) zk.ACL { return zk.ACL{Scheme: "world", ID: "anyone", Perms: perms} }
	for text, want := range map[string][]zk.ACL{
		"world:anyone:cdrwa":             {world(zk.PermAll)},
		"world:anyone:r":                 {world(zk.PermRead)},
		"world:anyone:w":                 {world(zk.PermWrite)},
		"world:anyone:c":                 {world(zk.PermCreate)},
		"world:anyone:d":                 {world(zk.PermDelete)},
		"world:anyone:a":                 {world(zk.PermAdmin)},
		"world:anyone:awrdc":             {world(zk.PermAll)},
		"world:anyone:rrr":               {world(zk.PermRead)},
		"world:anyone:r,":                {world(zk.PermRead)}, // as Java's split does
		"auth::cdrwa":                    {{Scheme: "auth", Perms: zk.PermAll}},
		"auth:u:p:r":                     {{Scheme: "auth", ID: "u:p", Perms: zk.PermRead}},
		"digest:u:Jq7wMyA/w2Vd5Q=:rw":    {{Scheme: "digest", ID: "u:Jq7wMyA/w2Vd5Q=", Perms: zk.PermRead | zk.PermWrite}},
		"ip:::1:r":                       {{Scheme: "ip", ID: "::1", Perms: zk.PermRead}},
		"ip:10.0.0.0/8:r,world:anyone:w": {{Scheme: "ip", ID: "10.0.0.0/8", Perms: zk.PermRead}, world(zk.PermWrite)},
		"x509:CN=a b:r":                  {{Scheme: "x509", ID: "CN=a b", Perms: zk.PermRead}},
	} {
		got, err := ParseACL(text)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%q: %v\n%s", text, err, diff)
		}
	}
}

// An entry that zkCli skips or accepts in part is an error, because it could lock a znode for ever.
func TestParseACLErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                           "does not have the form scheme:id:perm",
		",":                          "does not have the form scheme:id:perm",
		"foo":                        `"foo" does not have the form scheme:id:perm`,
		"world:anyone":               "does not have the form scheme:id:perm",
		"world:anyone:r,foo":         `"foo" does not have the form scheme:id:perm`,
		"world:anyone:r,,ip:1:r":     `"" does not have the form scheme:id:perm`,
		",world:anyone:r":            `"" does not have the form scheme:id:perm`,
		"world:anyone:":              "grants no permission",
		"world:anyone:x":             "Unknown perm type: x",
		"world:anyone:rx":            "Unknown perm type: x",
		"world:anyone:R":             "Unknown perm type: R",
		"world:anyone:r w":           "Unknown perm type:  ",
		"world:anyone:r, ip:1:r:bad": "Unknown perm type: b",
	} {
		acl, err := ParseACL(text)
		if err == nil || !strings.Contains(err.Error(), want) || acl != nil {
			t.Errorf("%q: %v, %v; want %s", text, acl, err, want)
		}
	}
}

// An ACL that ParseACL accepts is the same after it is formatted and parsed again.
func FuzzParseACL(f *testing.F) {
	for _, s := range []string{
		"world:anyone:cdrwa", "auth::r", "digest:u:p:rw,ip:::1:a", "", ",", "a:b", "a:b:", "::r", "a:b:\xff", "world:anyone:r,,", ":::",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		acl, err := ParseACL(text)
		if err != nil {
			if acl != nil {
				t.Fatalf("%q: both %v and %v", text, acl, err)
			}
			return
		}
		if len(acl) == 0 {
			t.Fatalf("%q: an empty list", text)
		}
		var parts []string
		for _, a := range acl {
			if a.Perms <= 0 || a.Perms > zk.PermAll {
				t.Fatalf("%q: perms %d", text, a.Perms)
			}
			parts = append(parts, a.Scheme+":"+a.ID+":"+perms(a.Perms))
		}
		again, err := ParseACL(strings.Join(parts, ","))
		if diff := cmp.Diff(acl, again); err != nil || diff != "" {
			t.Fatalf("%q as %q: %v\n%s", text, parts, err, diff)
		}
	})
}

func perms(p int32) string {
	var s string
	for i, letter := range "rwcda" { // from the lowest bit to the highest
		if p&(1<<i) != 0 {
			s += string(letter)
		}
	}
	return s
}
