package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"
)

// version is that of what is made, in the forms that it is written in. What is no tagged
// commit comes after the tag before it, and such commits come in the order of their times.
type version struct {
	text  string // as git describe tells it, and zksh --version
	base  string // 1.2.3
	pre   string // rc1, before 1.2.3
	time  string // of a commit behind the tag, as digits
	after string // the same with the commit's hash
}

var described = regexp.MustCompile(`^v(\d+\.\d+\.\d+)(?:-(rc\d+))?(?:-\d+-g([0-9a-f]{7,}))?(-dirty)?$`)

// hash matches what git describe tells where there is no tag.
var hash = regexp.MustCompile(`^([0-9a-f]{7,40})(-dirty)?$`)

func parseVersion(text string, at time.Time) (version, error) {
	v := version{text: text, base: "0.0.0"}
	commit, dirty := "", ""
	if m := described.FindStringSubmatch(text); m != nil {
		v.base, v.pre, commit, dirty = m[1], m[2], m[3], m[4]
		if commit == "" && dirty == "" {
			return v, nil
		}
	} else if m := hash.FindStringSubmatch(text); m != nil {
		commit, dirty = m[1], m[2]
	} else {
		return version{}, fmt.Errorf("invalid version %q: want a release (v1.2.3), a release candidate (v1.2.3-rc1), or the output of git describe", text)
	}
	v.time = at.UTC().Format("20060102150405")
	v.after = v.time
	if commit != "" {
		v.after += ".g" + commit
	}
	if dirty != "" {
		v.after += ".dirty"
	}
	return v, nil
}

// number is what names files: the version without its v, as packages have it.
func (v version) number() string {
	text := v.base
	if v.pre != "" {
		text += "-" + v.pre
	}
	if v.after != "" {
		text += "+" + v.after
	}
	return text
}

// alpine is the version by the rules of apk, which knows no hashes.
func (v version) alpine() string {
	text := v.base
	if v.pre != "" {
		text += "_" + v.pre
	}
	if v.time != "" {
		text += "_git" + v.time
	}
	return text
}

// checkNotes refuses a release that the changelog does not tell of.
func (v version) checkNotes(changelog string) error {
	if v.pre != "" || v.after != "" {
		return nil
	}
	text, err := os.ReadFile(changelog)
	if err == nil && !strings.Contains(string(text), "\n## "+v.base+" - ") {
		err = fmt.Errorf("%s contains no section for version %s", changelog, v.base)
	}
	return err
}
