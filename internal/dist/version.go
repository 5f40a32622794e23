package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"
)

// A version is the version of a distribution in the various forms that package formats need. In
// each form, an untagged commit sorts after the tag before it, and untagged commits sort by time.
type version struct {
	text string // version in the format of git describe, as printed by zksh --version
	base string // version of the release, such as 1.2.3
	pre  string // release candidate, such as rc1, or empty if it is not one
	// commitTime is the time of an untagged commit, as 14 digits. It is empty for a tagged commit.
	commitTime string
	// suffix consists of commitTime and the hash of the commit. It is empty for a tagged commit.
	suffix string
}

var describePattern = regexp.MustCompile(`^v(\d+\.\d+\.\d+)(?:-(rc\d+))?(?:-\d+-g([0-9a-f]{7,}))?(-dirty)?$`)

// hashPattern matches the output of git describe --always if the repository has no tags.
var hashPattern = regexp.MustCompile(`^([0-9a-f]{7,40})(-dirty)?$`)

func parseVersion(text string, at time.Time) (version, error) {
	v := version{text: text, base: "0.0.0"}
	commit, dirty := "", ""
	if m := describePattern.FindStringSubmatch(text); m != nil {
		v.base, v.pre, commit, dirty = m[1], m[2], m[3], m[4]
		if commit == "" && dirty == "" {
			return v, nil
		}
	} else if m := hashPattern.FindStringSubmatch(text); m != nil {
		commit, dirty = m[1], m[2]
	} else {
		return version{}, fmt.Errorf("invalid version %q: want a release (v1.2.3), a release candidate (v1.2.3-rc1), or the output of git describe", text)
	}
	v.commitTime = at.UTC().Format("20060102150405")
	v.suffix = v.commitTime
	if commit != "" {
		v.suffix += ".g" + commit
	}
	if dirty != "" {
		v.suffix += ".dirty"
	}
	return v, nil
}

// number returns the version without the leading letter v, as it is used in file names.
func (v version) number() string {
	text := v.base
	if v.pre != "" {
		text += "-" + v.pre
	}
	if v.suffix != "" {
		text += "+" + v.suffix
	}
	return text
}

// alpine returns the version in the format of Alpine's packages, which cannot contain the hash of
// a commit.
func (v version) alpine() string {
	text := v.base
	if v.pre != "" {
		text += "_" + v.pre
	}
	if v.commitTime != "" {
		text += "_git" + v.commitTime
	}
	return text
}

// checkNotes returns an error if this version is a release and the changelog has no section about
// it. changelog is the path of a file.
func (v version) checkNotes(changelog string) error {
	if v.pre != "" || v.suffix != "" {
		return nil
	}
	text, err := os.ReadFile(changelog)
	if err == nil && !strings.Contains(string(text), "\n## "+v.base+" - ") {
		err = fmt.Errorf("%s contains no section for version %s", changelog, v.base)
	}
	return err
}
