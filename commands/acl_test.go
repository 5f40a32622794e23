package commands

import (
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/google/go-cmp/cmp"

	"github.com/zksh/zksh/internal/zkconn"
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

// Entries are replaced by scheme and id, and removed by name. A name may omit the permissions, and
// the hash of a digest.
func TestACLEdit(t *testing.T) {
	const hash = "digest:ann:7RJfAeIvrl4zdj6sS2fXrQHDvHM="
	for _, c := range []struct{ present, add, remove, want string }{
		{"world:anyone:cdrwa", "ip:::1:r", "", "world:anyone:cdrwa,ip:::1:r"},
		{"world:anyone:cdrwa,ip:::1:r", "world:anyone:r", "", "ip:::1:r,world:anyone:r"},
		{"world:anyone:r", "ip:1.2.3.4:r,ip:1.2.3.4:w", "", "world:anyone:r,ip:1.2.3.4:w"},
		{hash + ":r,world:anyone:r", "auth::rw", "", "world:anyone:r,auth::rw"},
		{"digest:bob:x:r", "auth::rw", "", "digest:bob:x:r,auth::rw"},
		{hash + ":r,ip:::1:r", "", hash, "ip:::1:r"},
		{hash + ":rw,ip:::1:r", "", hash + ":wr", "ip:::1:r"},
		{hash + ":r,ip:::1:r", "", "digest:ann", "ip:::1:r"},
		{hash + ":r,ip:::1:r", "", "digest:ann:r", "ip:::1:r"},
		{hash + ":r,ip:::1:r", "", "ip:::1", hash + ":r"},
		{"world:anyone:r", "ip:::1:r", "world:anyone", "ip:::1:r"},
		{"world:anyone:r,ip:::1:r,ip:::2:r", "", "ip:::1,ip:::2:r", "world:anyone:r"},
		{"world:anyone:r", "", "world:anyone", "cannot be empty"},
		{"world:anyone:r," + hash + ":r", "", "world:anyone:rw", `no entry "world:…"; its entries are world:anyone:r, digest:ann:…:r`},
		{"world:anyone:r", "", "digest:ann", `no entry "digest:…"`},
		{"ip:::1:r,world:anyone:r", "", "ip:::1,ip:::1", `no entry "ip:…"`},
		{"world:anyone:r", "", "anyone", `no entry "anyone"`},
		{"world:anyone:r", "", "", `no entry ""`},
	} {
		present, err := ParseACL(c.present)
		if err != nil {
			t.Fatal(err)
		}
		var added []zk.ACL
		if c.add != "" {
			if added, err = ParseACL(c.add); err != nil {
				t.Fatal(err)
			}
		}
		remove := []string{c.remove}
		if c.remove == "" && c.add != "" {
			remove = nil
		}
		got, err := aclEdit{remove: &remove}.apply("/a", present, added, []string{strings.TrimPrefix(hash, "digest:")})
		text := FormatACL(got)
		if err == nil && text != c.want || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %s, %v", c, text, err)
		}
	}
	commas := []zk.ACL{{Scheme: "x509", ID: "CN=a,O=b", Perms: zk.PermRead}, {Scheme: "world", ID: "anyone", Perms: zk.PermRead}}
	if got, err := (aclEdit{remove: &[]string{"x509:CN=a,O=b"}}).apply("/a", commas, nil, nil); err != nil || len(got) != 1 {
		t.Errorf("%v, %v", got, err)
	}
}

// An ACL admits a session unless no entry with admin permission can match its identities.
func TestAdmits(t *testing.T) {
	told := []zkconn.Identity{{Scheme: "ip", User: "10.0.0.1"}, {Scheme: "x509", User: "CN=ann"}}
	for _, c := range []struct {
		acl  string
		ids  identities
		want bool
	}{
		{"world:anyone:cdrw", identities{}, false},
		{"world:anyone:a", identities{known: true}, true},
		{"digest:ann:h:a", identities{digests: []string{"ann:h"}}, true},
		{"digest:ann:h:cdrw", identities{digests: []string{"ann:h"}}, false},
		{"digest:bob:h:a", identities{digests: []string{"ann:h"}}, false},
		{"digest:bob:h:a", identities{digests: []string{"super:h"}}, false},
		{"digest:super:g:a", identities{digests: []string{"super:h"}}, false},
		{"digest:bob:h:a", identities{super: true}, true},
		{"ip:10.9.9.9:a", identities{}, true},
		{"ip:10.9.9.9:a", identities{told: told, known: true}, false},
		{"ip:10.0.0.0/24:a", identities{told: told, known: true}, true},
		{"x509:CN=bob:a,sasl:bob:a", identities{told: told, known: true}, false},
		{"x509:CN=bob:a,x509:CN=ann:a", identities{told: told, known: true}, true},
		{"world:anyone:cdrw,digest:super:h:a", identities{told: []zkconn.Identity{{Scheme: "sasl", User: "super"}}, known: true}, false},
		{"sasl:bob:cdrw", identities{told: []zkconn.Identity{{Scheme: "sasl", User: "super"}}, known: true}, false},
		{"sasl:bob:a", identities{told: []zkconn.Identity{{Scheme: "sasl", User: "super"}}, known: true}, true},
		{"unknown:bob:a", identities{told: told, known: true}, true},
	} {
		acl, err := ParseACL(c.acl)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.ids.admits(acl); got != c.want {
			t.Errorf("%s, %v: %v", c.acl, c.ids, got)
		}
	}
}

func TestInNetwork(t *testing.T) {
	for _, c := range []struct {
		address, network string
		want             bool
	}{
		{"10.0.0.1", "10.0.0.1", true}, {"10.0.0.1", "10.0.0.2", false}, {"10.1.2.3", "10.0.0.0/8", true}, {"11.1.2.3", "10.0.0.0/8", false},
		{"0:0:0:0:0:0:0:1", "::1", true}, {"::1", "10.0.0.0/8", false}, {"unknown", "10.0.0.1", true}, {"10.0.0.1", "10.0.0", true},
	} {
		if got := inNetwork(c.address, c.network); got != c.want {
			t.Errorf("inNetwork(%s, %s) = %v", c.address, c.network, got)
		}
	}
}
