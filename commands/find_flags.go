package commands

import (
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// globFlag is the value of a flag that takes a shell pattern. An empty pattern matches
// everything.
type globFlag string

func (g *globFlag) set(s string) error {
	*g = globFlag(hideSlashes.Replace(strings.ReplaceAll(s, "[!", "[^")))
	if _, err := path.Match(string(*g), ""); err != nil || s == "" {
		return fmt.Errorf("invalid pattern %q: each [ needs a matching ], and each \\ must be followed by a character", s)
	}
	return nil
}

// matches reports whether a name or path matches the pattern.
func (g *globFlag) matches(s string) bool {
	if *g == "" {
		return true
	}
	is, err := path.Match(string(*g), hideSlashes.Replace(s))
	return is && err == nil
}

// hideSlashes replaces each slash with U+0001, which cannot occur in a path. As a result, * in a
// pattern of path.Match also matches slashes.
var hideSlashes = strings.NewReplacer("/", "\x01")

// regex returns a flag value that parses a regular expression in Go's syntax and stores it in
// *re.
func regex(re **regexp.Regexp) pflag.Value {
	return funcValue{"regex", func(s string) (err error) {
		*re, err = regexp.Compile(s)
		return err
	}}
}

// comparison is the value of a flag such as -size. The value n matches exactly n, +n matches higher
// numbers, and -n matches lower ones.
type comparison struct {
	sign byte // '+', '-' or '='; 0 if any number matches
	than int64
}

func (c *comparison) holds(n int64) bool {
	return c.sign == '=' && n == c.than || c.sign == '+' && n > c.than || c.sign == '-' && n < c.than
}

func (c *comparison) set(s string) error {
	sign, digits := byte('='), s
	if s != "" && (s[0] == '+' || s[0] == '-') {
		sign, digits = s[0], s[1:]
	}
	unit := int64(1)
	if cut, is := strings.CutSuffix(digits, "k"); is {
		digits, unit = cut, 1<<10
	} else if cut, is := strings.CutSuffix(digits, "M"); is {
		digits, unit = cut, 1<<20
	}
	n, err := strconv.ParseUint(digits, 10, 32)
	if err != nil {
		return fmt.Errorf("%q is not a number; write n, +n for more or -n for less", s)
	}
	c.sign, c.than = sign, int64(n)*unit
	return nil
}
