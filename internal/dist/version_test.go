//go:build unix

package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// versions is sorted from the oldest to the newest.
var versions = []struct{ text, number, alpine string }{
	{"1a2b3c4", "0.0.0+20261122083000.g1a2b3c4", "0.0.0_git20261122083000"},
	{"v1.2.3-rc1", "1.2.3-rc1", "1.2.3_rc1"},
	{"v1.2.3", "1.2.3", "1.2.3"},
	{"v1.2.3-dirty", "1.2.3+20261122083000.dirty", "1.2.3_git20261122083000"},
	{"v1.2.3-4-g1a2b3c4", "1.2.3+20261122083000.g1a2b3c4", "1.2.3_git20261122083000"},
	{"v1.2.3-4-g1a2b3c4-dirty", "1.2.3+20261122083000.g1a2b3c4.dirty", "1.2.3_git20261122083000"},
}

func TestParseVersion(t *testing.T) {
	at := time.Date(2026, 11, 22, 8, 30, 0, 0, time.UTC)
	for _, c := range versions {
		v, err := parseVersion(c.text, at)
		if err != nil || v.number() != c.number || v.alpine() != c.alpine {
			t.Errorf("%s: %s %s %v", c.text, v.number(), v.alpine(), err)
		}
	}
	for _, text := range []string{"", "dev", "1.2.3", "v1.2", "v1.2.3 -X main.a=b", "v1.2.3-beta"} {
		if v, err := parseVersion(text, at); err == nil {
			t.Errorf("%q is taken as %+v", text, v)
		}
	}
}

// dpkg sorts the versions in the same order.
func TestVersionOrder(t *testing.T) {
	need(t, "dpkg")
	debian := func(text string) string {
		v, err := parseVersion(text, time.Unix(0, 0))
		if err != nil {
			t.Fatal(err)
		}
		if v.pre != "" {
			return v.base + "~" + v.pre
		}
		return v.number()
	}
	for i, c := range versions[:len(versions)-3] {
		if out, err := run("", nil, "dpkg", "--compare-versions", debian(c.text)+"-1", "lt", debian(versions[i+1].text)+"-1"); err != nil {
			t.Errorf("%s is not before %s: %v %s", c.text, versions[i+1].text, err, out)
		}
	}
}

// A release needs a section in the changelog; other versions do not.
func TestReleaseNeedsNotes(t *testing.T) {
	notes := filepath.Join(t.TempDir(), "notes")
	if err := os.WriteFile(notes, []byte("# Changelog\n\n## Unreleased\n\n## 1.2.3 - 2026-11-22\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"v1.2.3", "v1.2.4", "v1.2.4-rc1", "v1.2.4-1-g1a2b3c4"} {
		v, err := parseVersion(text, time.Unix(0, 0))
		if err != nil {
			t.Fatal(err)
		}
		if err := v.checkNotes(notes); (err != nil) != (text == "v1.2.4") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestChoose(t *testing.T) {
	if got, err := choose(""); err != nil || len(got) != 6 {
		t.Error(got, err)
	}
	if got, err := choose("linux/arm64,windows/amd64"); err != nil || !slices.Equal(got, []target{{"linux", "arm64"}, {"windows", "amd64"}}) {
		t.Error(got, err)
	}
	if got, err := choose("linux/386"); err == nil {
		t.Error(got)
	}
}
