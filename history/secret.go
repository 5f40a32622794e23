package history

import (
	"regexp"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Both patterns would rather lose a harmless line than keep a password: they
// look anywhere in the line, in any case and through quotes, so that mistyped
// and pasted lines are caught as well. They are compiled when they are needed: not
// at each start of zksh.
var (
	// addauth, and the scheme if it is digest: any other word in its place may
	// be the password itself.
	addauth = pattern(`(?i)addauth["']*(?:\s*[$"']*digest["']?(?:\s|$))?\s*`)

	// The superuser's name; and, if a colon follows, an ACL entry such as
	// digest:user:hash:perms, or "digest user:password" after a mistyped
	// command name.
	credential = pattern(`(?i)(super:)|(?:digest|auth):|(?:^|[\s"'])digest[\s"']+`)

	// The escapes of a $'…' word, which could spell any of the above.
	escape = pattern(`(?s)\\(?:x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{1,4}|U[0-9a-fA-F]{1,8}|[0-7]{1,3}|.)`)
)

func pattern(p string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(p) })
}

const mask = "***"

// secret says whether a line seems to carry credentials: an addauth with
// anything after it, or an ACL entry with a password or its hash. It errs on
// the side of yes.
func secret(line string) bool {
	return secretAt(line) >= 0 || strings.Contains(line, "$'") && secretAt(unescape(line)) >= 0
}

// Redacted returns the line with everything from the first credential on
// replaced by ***, and any other line as it is.
func Redacted(line string) string {
	if !secret(line) {
		return line
	}
	at := secretAt(line)
	// A credential spelt with escapes may hide before the one in plain sight.
	if at < 0 || strings.Contains(line[:at], `\`) {
		return mask
	}
	return line[:at] + mask
}

// secretAt returns where the credentials in a line begin, or -1.
func secretAt(line string) int {
	// The patterns are slow on a value of some megabytes.
	lower := strings.ToLower(line)
	if !strings.Contains(lower, "auth") && !strings.Contains(lower, "digest") && !strings.Contains(lower, "super:") {
		return -1
	}
	at := len(line)
	if m := addauth().FindStringIndex(line); m != nil {
		at = m[1]
	}
	// Later matches need not be looked at: their colon is one that follows.
	m := credential().FindStringSubmatchIndex(line)
	if m != nil && (m[2] >= 0 || strings.Contains(line[m[1]:], ":")) {
		at = min(at, m[1])
	}
	if at == len(line) {
		return -1
	}
	return at
}

// unescape undoes the escapes of $'…' all over a line, which is enough to
// search it.
func unescape(line string) string {
	return escape().ReplaceAllStringFunc(line, func(e string) string {
		hex, base := strings.TrimLeft(e[1:], "xuU"), 16
		if hex == e[1:] {
			base = 8
		}
		if v, err := strconv.ParseUint(hex, base, 32); err == nil {
			return string(rune(v))
		}
		return e[1:]
	})
}

// private says whether a line must not reach the disk: a secret one, or one
// that begins with a blank, by which a user asks for just that.
func private(line string) bool {
	first, _ := utf8.DecodeRuneInString(line)
	return unicode.IsSpace(first) || secret(line)
}
