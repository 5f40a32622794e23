package history

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestRedacted(t *testing.T) {
	for line, want := range map[string]string{
		// addauth, typed correctly and incorrectly.
		`addauth digest u:p`:                   `addauth digest ***`,
		`  addauth  digest  u:p  `:             `  addauth  digest  ***`,
		`'addauth' "digest" "u:p q"`:           `'addauth' "digest" ***`,
		`"addauth"digest u:p`:                  `"addauth"digest ***`,
		`ADDAUTH Digest u:p`:                   `ADDAUTH Digest ***`,
		`addauth u:p`:                          `addauth ***`,
		`addauth hunter2`:                      `addauth ***`,
		`addauth digest:u:p`:                   `addauth ***`,
		`addauth kerberos token`:               `addauth ***`,
		`addauth digest "u:p`:                  `addauth digest ***`,
		`adauth digest u:p`:                    `adauth digest ***`,
		`adauth "digest"u:p`:                   `adauth "digest"***`,
		`digest u:p`:                           `digest ***`,
		`[zk: h(CONNECTED) 0] addauth x u:p`:   `[zk: h(CONNECTED) 0] addauth ***`,
		"\u00a0addauth digest u:p":             "\u00a0addauth digest ***",
		`$'addauth' digest u:p`:                `$'addauth' digest ***`,
		`$'\x61ddauth' digest u:p`:             mask,
		`$'\x61ddauth' x hunter2`:              mask,
		`addauth digest $'u:p\'q'`:             `addauth digest ***`,
		`setAcl /a digest:u:h:r addauth x u:p`: `setAcl /a digest:***`,
		// digest with a password that belongs to its question.
		`digest ann hunter2`:        `digest ann ***`,
		` "digest" 'ann' hunter2 |`: ` "digest" 'ann' ***`,
		`time digest -- ann pw`:     `time digest -- ***`,
		// ACL entries.
		`create /a d digest:u:h:cdrwa`:              `create /a d digest:***`,
		`create -e /a "" "digest:u v:h:cdrwa"`:      `create -e /a "" "digest:***`,
		`setAcl -R /a world:anyone:r,digest:u:h:r`:  `setAcl -R /a world:anyone:r,digest:***`,
		`setAcl /a auth:u:p:cdrwa`:                  `setAcl /a auth:***`,
		`setAcl /a DIGEST:u:h:r`:                    `setAcl /a DIGEST:***`,
		`get /a super:pw`:                           `get /a super:***`,
		`setAcl /a $'digest\x3au:h:r'`:              mask,
		`setAcl /a $'dig\x65st:u:h:r',digest:v:h:r`: mask,
		`setAcl /a $'d\151gest:u:h:r'`:              mask,
		`setAcl /a $'\u0064\U00000069gest:u:h:r'`:   mask,
		`setAcl /a $'\\\x64igest:u:h:r'`:            mask,
		// URLs of proxies.
		`ls / --proxy=socks5://u:p@h:1`: `ls / --proxy=***`,
		`ls / -proxy SOCKS5H://u:p q@h`: `ls / -proxy ***`,
		`ls / --proxy "http://u:p@h"`:   `ls / --proxy "***`,
		`--proxy 'u:p@h' ls /`:          `--proxy '***`,
		`connect socks5:u:p@h`:          `connect socks5:***`,
		`connect $'s\x6fcks5://u:p@h'`:  mask,
	} {
		if !hasSecret(line) || !isPrivate(line) {
			t.Errorf("%s is not a secret", line)
		}
		if got := Redacted(line); got != want {
			t.Errorf("Redacted(%s) = %s; want %s", line, got, want)
		}
	}
}

func TestNotSecret(t *testing.T) {
	for _, line := range []string{
		"", "ls /", "ls /digest", "set /digest a:b", "set /auth http://h/", "help addauth", "addauth",
		"setAcl /a world:anyone:cdrwa", "setAcl /a ip:10.0.0.1:r,sasl:bob:r", "get /a auth:",
		"ls / --proxy=socks5://h:1", "ls /socks5 -w", "set /mail -proxyuser@h", "set /a a@socks5",
		`set /a {"author":"me","digests":"a:b"}`, `set /a $'\x00\n\q'`, `set /a a\digest`, "connect h:2181/supervisor",
		"digest ann", "digest ann ", "help digest", "digest ann | cat", "digest ann > file", "help digest | less",
	} {
		if hasSecret(line) || isPrivate(line) {
			t.Errorf("%s is a secret", line)
		}
		if got := Redacted(line); got != line {
			t.Errorf("Redacted(%s) = %s", line, got)
		}
	}
	for _, line := range []string{" ls /", "\tls /", "\u00a0ls /"} {
		if hasSecret(line) || !isPrivate(line) || Redacted(line) != line {
			t.Errorf("%q is not private, or more than that", line)
		}
	}
}

// However a line with a password is written, the password appears neither in the file nor on the
// screen.
func TestNoPasswordOnDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history")
	f, err := Open(path, 1000)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	pick := func(t *rapid.T, label string, from ...string) string {
		return rapid.SampledFrom(from).Draw(t, label)
	}
	rapid.Check(t, func(t *rapid.T) {
		password := "PW" + rapid.StringMatching(`[ -~]{0,12}`).Draw(t, "password")
		command := pick(t, "command", `addauth`, `"addauth"`, `'addauth'`, `$'addauth'`, `$'\x61dd\141uth'`, `AddAuth`)
		scheme := pick(t, "scheme", `digest`, `"digest"`, `'digest'`, `$'dig\x65st'`, `ip`, ``)
		space := pick(t, "space", " ", "\t", "  ", "\v")
		mark := pick(t, "quote", "", `"`, "'", "$'")
		line := command + space + scheme + space + mark + "user:" + password + strings.TrimPrefix(mark, "$")
		if rapid.Bool().Draw(t, "acl") {
			line = pick(t, "acl command", "create /a d ", "setAcl /a ", "setAcl /a world:anyone:r,") + mark +
				pick(t, "acl scheme", "digest", "auth", "Digest") + ":user:" + password + ":cdrwa" + strings.TrimPrefix(mark, "$")
		}
		if strings.Contains(Redacted(line), "PW") {
			t.Fatalf("%s is shown as %s", line, Redacted(line))
		}
		// A line without a password is saved, which shows that the file is in use.
		plain := "get /" + rapid.StringMatching(`[a-z]{8}`).Draw(t, "node")
		for _, line := range []string{line, plain} {
			if err := f.Append(Entry{Line: line}); err != nil {
				t.Fatal(err)
			}
		}
		data, err := os.ReadFile(path)
		if err != nil || strings.Contains(string(data), "PW") || !strings.HasSuffix(string(data), plain+"\n") {
			t.Fatalf("after %q the file holds %q, %v", line, data, err)
		}
	})
}

func FuzzRedacted(f *testing.F) {
	f.Add("", "p")
	f.Add(" ", "it's")
	f.Add(`create /a digest:`, `$'\x41'`)
	f.Add(`$'\`, "\\")
	f.Fuzz(func(t *testing.T, before, password string) {
		if strings.Contains(before, "PW") {
			t.Skip("the password stands elsewhere, too")
		}
		for _, line := range []string{
			before + "addauth digest u:PW" + password,
			before + "addauth PW" + password,
			before + " digest 'u:PW" + password,
			before + "digest:u:PW" + password,
			before + "super:PW" + password,
		} {
			if got := Redacted(line); !hasSecret(line) || strings.Contains(got, "PW") {
				t.Fatalf("%q is shown as %q", line, got)
			}
		}
	})
}
