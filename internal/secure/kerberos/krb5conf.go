package kerberos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/jcmturner/gokrb5/v8/config"

	"github.com/zksh/zksh/internal/peer"
	"github.com/zksh/zksh/internal/userfile"
)

// maxFile is the maximum size of each file that this package reads, in bytes.
const maxFile = 1 << 20

// defaultConfig is the file that Java and MIT's tools read if no other is named.
const defaultConfig = "/etc/krb5.conf"

// A krb5Conf contains the settings of krb5.conf that zksh uses.
type krb5Conf struct {
	path   string
	realm  string              // default_realm
	keytab string              // default_keytab_name
	dns    bool                // dns_lookup_kdc
	weak   bool                // allow_weak_crypto
	types  string              // permitted_enctypes
	kdcs   map[string][]string // addresses of the KDCs by realm, in the order of the file
	realms map[string]string   // domain_realm
}

// readConf reads a file in the format of krb5.conf, and the files that it includes. zksh does not
// use the library's parser: that panics on some files, and skips include directives.
func readConf(path string) (*krb5Conf, error) {
	c := &krb5Conf{path: path, dns: true, kdcs: map[string][]string{}, realms: map[string]string{}}
	if err := c.include(path, 0); err != nil {
		return nil, err
	}
	if len(c.encryption()) == 0 {
		return nil, fmt.Errorf("%s: permitted_enctypes = %q contains no encryption type that zksh accepts; "+
			"it accepts AES, and RC4 if allow_weak_crypto is set", path, c.types)
	}
	return c, nil
}

// maxIncludes limits how deeply files that include others can be nested.
const maxIncludes = 5

func (c *krb5Conf) include(path string, depth int) error {
	data, err := userfile.ReadSmallFile(path, maxFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("the Kerberos configuration %s does not exist; set KRB5_CONFIG to the path of "+
			"your krb5.conf", path)
	case err != nil:
		return fmt.Errorf("the Kerberos configuration cannot be read: %w", err)
	case depth > maxIncludes:
		return fmt.Errorf("%s: the files that include each other are nested too deeply", path)
	}
	return c.parse(path, string(data), depth)
}

// includedName matches the names of the files that includedir reads.
var includedName = regexp.MustCompile(`^([A-Za-z0-9_-]+|.*\.conf)$`)

// parse reads the text of the file path.
func (c *krb5Conf) parse(path, text string, depth int) error {
	var where []string // section, followed by the names of the open braces
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		first, rest, _ := strings.Cut(line, " ")
		switch rest = strings.TrimSpace(rest); {
		case line == "", line[0] == '#', line[0] == ';':
		case line[0] == '[':
			name, _, closed := strings.Cut(line[1:], "]")
			if !closed {
				return fmt.Errorf("%s:%d: the name of the section is not closed with ]", path, n)
			}
			where = []string{strings.TrimSpace(name)}
		case first == "include":
			if err := c.include(rest, depth+1); err != nil {
				return fmt.Errorf("%s:%d: %w", path, n, err)
			}
		case first == "includedir":
			names, err := os.ReadDir(rest)
			if err != nil {
				return fmt.Errorf("%s:%d: %w", path, n, err)
			}
			for _, e := range names {
				if name := e.Name(); includedName.MatchString(name) && !strings.HasPrefix(name, ".") && !e.IsDir() {
					if err := c.include(filepath.Join(rest, name), depth+1); err != nil {
						return fmt.Errorf("%s:%d: %w", path, n, err)
					}
				}
			}
		case len(where) > 0:
			where = c.relation(where, line)
		}
	}
	return nil
}

// relation reads a line of the form NAME = VALUE, NAME = {, or }, and returns the new position.
// A line can also contain a complete NAME = { NAME = VALUE }.
func (c *krb5Conf) relation(where []string, line string) []string {
	if rest, closes := strings.CutPrefix(line, "}"); closes {
		return c.relationAfter(where[:max(1, len(where)-1)], rest)
	}
	name, value, ok := strings.Cut(line, "=")
	if !ok {
		return where
	}
	name, value = strings.TrimRight(strings.TrimSpace(name), "*"), strings.TrimSpace(value)
	if rest, opens := strings.CutPrefix(value, "{"); opens {
		return c.relationAfter(append(slices.Clone(where), name), rest)
	}
	value, rest, closes := strings.Cut(value, "}")
	c.set(where, name, strings.Trim(strings.TrimSpace(value), `"`))
	if closes {
		return c.relationAfter(where[:max(1, len(where)-1)], rest)
	}
	return where
}

func (c *krb5Conf) relationAfter(where []string, rest string) []string {
	if rest = strings.TrimSpace(rest); rest == "" {
		return where
	}
	return c.relation(where, rest)
}

// set records a setting. As in MIT's library, the first of several values counts.
func (c *krb5Conf) set(where []string, name, value string) {
	yes := slices.Contains([]string{"true", "yes", "y", "t", "1", "on"}, strings.ToLower(value))
	switch section := where[0]; {
	case section == "libdefaults" && len(where) == 1:
		switch name {
		case "default_realm":
			c.realm = cmp.Or(c.realm, value)
		case "default_keytab_name":
			c.keytab = cmp.Or(c.keytab, value)
		case "dns_lookup_kdc":
			c.dns = yes
		case "allow_weak_crypto":
			c.weak = yes
		case "permitted_enctypes":
			c.types = cmp.Or(c.types, value)
		}
	case section == "realms" && len(where) == 2 && name == "kdc":
		c.kdcs[where[1]] = append(c.kdcs[where[1]], strings.Fields(value)...)
	case section == "domain_realm" && len(where) == 1:
		if name = strings.ToLower(name); c.realms[name] == "" {
			c.realms[name] = value
		}
	}
}

// realmOf returns the realm of a host according to domain_realm, or an empty string.
func (c *krb5Conf) realmOf(host string) string {
	host = strings.ToLower(host)
	if r := c.realms[host]; r != "" {
		return r
	}
	for at := strings.IndexByte(host, '.'); at >= 0; {
		if r := cmp.Or(c.realms[host[at:]], c.realms[host[at+1:]]); r != "" {
			return r
		}
		next := strings.IndexByte(host[at+1:], '.')
		if next < 0 {
			break
		}
		at += 1 + next
	}
	return ""
}

// library returns the settings in the form in which the library builds and checks its messages.
func (c *krb5Conf) library() *config.Config {
	l := config.New()
	l.LibDefaults.DefaultRealm = c.realm
	types := c.encryption()
	l.LibDefaults.DefaultTktEnctypeIDs, l.LibDefaults.DefaultTGSEnctypeIDs = types, slices.Clone(types)
	return l
}

// kdcPort is the port of KDCs, unless krb5.conf or DNS name another.
const kdcPort = "88"

// kdcsOf returns the addresses of the KDCs of a realm, as host:port: those in krb5.conf, or else those
// that DNS names.
func (c *krb5Conf) kdcsOf(ctx context.Context, realm string) (list []string, err error) {
	for _, name := range c.kdcs[realm] {
		name = strings.TrimPrefix(strings.TrimPrefix(name, "tcp/"), "udp/")
		if host, _, err := net.SplitHostPort(name); err != nil || host == "" {
			name = net.JoinHostPort(strings.Trim(name, "[]"), kdcPort)
		}
		list = append(list, name)
	}
	if len(list) > 0 {
		return list, nil
	}
	if c.dns {
		_, records, err := net.DefaultResolver.LookupSRV(ctx, "kerberos", "tcp", realm)
		for _, r := range records {
			list = append(list, net.JoinHostPort(strings.TrimSuffix(r.Target, "."), strconv.Itoa(int(r.Port))))
		}
		if dns, ok := errors.AsType[*net.DNSError](err); ok && dns.IsTimeout {
			return nil, &unreachable{fmt.Sprintf("no KDC of the realm %s is known: the DNS server did not answer in "+
				"time, and %s names none", peer.Printable(realm), c.path)}
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("no KDC of the realm %s is known: neither %s nor DNS names one",
			peer.Printable(realm), c.path)
	}
	return list, nil
}
