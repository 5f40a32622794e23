package history

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// addauthPattern, credentialPattern, digestPattern and proxyPattern must not miss a password, even at
// the price of matching harmless lines. They match anywhere in a line, ignore case, and allow for
// quotes, so that they find passwords in mistyped or pasted lines. They are compiled at their first
// use, so that zksh starts faster.
var (
	// addauthPattern matches the command addauth, and also the scheme after it if the scheme is
	// digest. Any other word after addauth may be the password itself.
	addauthPattern = lazyPattern(`(?i)addauth["']*(?:\s*[$"']*digest["']?(?:\s|$))?\s*`)

	// credentialPattern matches the text before a credential: "super:", the scheme of an ACL entry
	// such as digest:user:hash:perms, or the word digest in "digest user:password". After the
	// latter two, the text is a credential only if it contains a colon.
	credentialPattern = lazyPattern(`(?i)(super:)|(?:digest|auth):|(?:^|[\s"'])digest[\s"']+`)

	// digestPattern matches the command digest with its user. A word behind the user may be the
	// password, which the command reads separately.
	digestPattern = lazyPattern(`(?i)(?:^|[\s"'])digest["']*\s+[^\s|>]\S*\s+`)

	// proxyPattern matches the option --proxy and the URL of a SOCKS5 proxy, up to the @ that ends the
	// user and the password. The group is the text before them.
	proxyPattern = lazyPattern(`(?is)(socks5h?:/*|-proxy["']*[=\s"']+)[^@]*@`)

	// escapePattern matches an escape sequence in a word of the form $'…'. An escape sequence could
	// hide a credential.
	escapePattern = lazyPattern(`(?s)\\(?:x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{1,4}|U[0-9a-fA-F]{1,8}|[0-7]{1,3}|.)`)
)

// lazyPattern returns a function that compiles a regular expression at its first call.
func lazyPattern(p string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(p) })
}

const mask = "***" // shown in place of credentials

// hasSecret reports whether a line may contain credentials: an argument of addauth, an ACL entry
// with a password or its hash, or the URL of a proxy with a password. If in doubt, it returns true.
func hasSecret(line string) bool {
	return secretAt(line) >= 0 || strings.Contains(line, "$'") && secretAt(unescape(line)) >= 0
}

// Redacted returns the line with *** in place of everything from the first credential on. A line
// without credentials is returned unchanged.
func Redacted(line string) string {
	if !hasSecret(line) {
		return line
	}
	at := secretAt(line)
	// A credential written with escapes may precede the one at index at.
	if at < 0 || strings.Contains(line[:at], `\`) {
		return mask
	}
	return line[:at] + mask
}

// secretAt returns the index of the first credential in a line, or -1 if there is none.
func secretAt(line string) int {
	// Avoid the regular expressions if possible: they are slow on a line of several megabytes.
	lower := strings.ToLower(line)
	if !slices.ContainsFunc([]string{"auth", "digest", "super:", "socks5", "-proxy"},
		func(s string) bool { return strings.Contains(lower, s) }) {
		return -1
	}
	at := len(line)
	if m := addauthPattern().FindStringIndex(line); m != nil {
		at = m[1]
	}
	// The first match is enough: a colon that follows a later match also follows the first match.
	m := credentialPattern().FindStringSubmatchIndex(line)
	if m != nil && (m[2] >= 0 || strings.Contains(line[m[1]:], ":")) {
		at = min(at, m[1])
	}
	if m := digestPattern().FindStringIndex(line); m != nil && !strings.HasPrefix(line[m[1]:], "|") &&
		!strings.HasPrefix(line[m[1]:], ">") {
		at = min(at, m[1])
	}
	if m := proxyPattern().FindStringSubmatchIndex(line); m != nil {
		at = min(at, m[3])
	}
	if at == len(line) {
		return -1
	}
	return at
}

// unescape decodes the escape sequences of $'…' words everywhere in the line, even outside of such
// words. The result is only searched for credentials.
func unescape(line string) string {
	return escapePattern().ReplaceAllStringFunc(line, func(e string) string {
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

// isPrivate reports whether a line must not be saved in a file, because it may contain credentials
// or begins with a space. Users type that space to keep a line out of the history file.
func isPrivate(line string) bool {
	first, _ := utf8.DecodeRuneInString(line)
	return unicode.IsSpace(first) || hasSecret(line)
}
