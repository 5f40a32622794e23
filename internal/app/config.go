package app

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/secure"
	"github.com/zksh/zksh/internal/userfile"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/shell/line"
)

// A setting is a key that the configuration file can contain, and its meaning.
type setting struct {
	key     string
	value   string // syntax of the value
	about   string
	cluster bool // whether the setting concerns an ensemble, so that it is also allowed in the section of a cluster
	set     func(o *Options, value string) error

	// access returns an error if other users have more access to the configuration file than is safe
	// with this setting. It is nil if any access is.
	access func(f *userfile.File, value string) error
}

// settings lists all settings of the configuration file, in the order in which the help shows them.
var settings = []setting{
	{
		key: "server", value: "host[:port][,…][/chroot]", cluster: true,
		about: "the servers; required in a section",
		set: func(o *Options, v string) error {
			o.Server = v
			if strings.HasPrefix(v, zkconn.ClusterMark) {
				return nil
			}
			_, err := zkconn.ParseServers(v)
			return err
		},
	},
	{
		key: "timeout", value: "ms", cluster: true,
		about: "session timeout in milliseconds, or with a unit, as in 10s",
		set:   func(o *Options, v string) error { return assign(&o.Timeout, v, parseTimeout) },
	},
	{
		key: "max-request", value: "bytes", cluster: true,
		about: "the size of the largest request that zksh sends, for servers with a raised jute.maxbuffer",
		set:   func(o *Options, v string) error { return assign(&o.MaxRequest, v, parseMaxRequest) },
	},
	{
		key: "proxy", value: "socks5://host:port", cluster: true,
		about: "the SOCKS5 proxy through which zksh connects to all servers; it resolves the names of the servers;" +
			" with user:password@ before the host, zksh authenticates to the proxy",
		set: func(o *Options, v string) error {
			o.Proxy = v
			return zkconn.CheckProxy(v)
		},
		access: func(config *userfile.File, v string) error {
			if !zkconn.ProxyHasPassword(v) {
				return nil
			}
			return config.CheckPrivate("the password of a proxy")
		},
	},
	{
		key: "auth-file", value: "file", cluster: true,
		about: "a file with credentials, in lines of the form \"scheme credential\"; this and all other relative file" +
			" names are relative to the folder of the configuration file",
		set:    fileSetting(func(o *Options) *string { return &o.AuthFile }),
		access: trusted("the name of a file with credentials"),
	},
	{
		key: "auth-command", value: "command", cluster: true,
		about: "a shell command whose first line of output is a credential in the same form, for example of a " +
			"password manager",
		set: func(o *Options, v string) error {
			o.AuthCommand = v
			return nil
		},
		access: trusted("an auth-command"),
	},
	{
		key: "tls", value: "true|false", cluster: true,
		about: "connect with TLS; cacert, cert, key and tls-name imply this setting",
		set:   func(o *Options, v string) error { return assign(&o.Secure.TLS, v, parseTLS) },
	},
	{
		key: "cacert", value: "file", cluster: true,
		about: "the certificate authorities to trust, in PEM, PKCS12 or JKS format",
		set:   fileSetting(func(o *Options) *string { return &o.Secure.CACert }),
	},
	{
		key: "cert", value: "file", cluster: true,
		about: "the client's certificate; the file can also contain the key",
		set:   fileSetting(func(o *Options) *string { return &o.Secure.Cert }),
	},
	{
		key: "key", value: "file", cluster: true,
		about: "the client's key",
		set:   fileSetting(func(o *Options) *string { return &o.Secure.Key }),
	},
	{
		key: "tls-name", value: "name", cluster: true,
		about: "the name to expect in the servers' certificates",
		set: func(o *Options, v string) error {
			o.Secure.Name = v
			return nil
		},
	},
	{
		key: "client-configuration", value: "file", cluster: true,
		about: "a properties file of zkCli or Kafka, which sets TLS, SASL and jute.maxbuffer",
		set:   fileSetting(func(o *Options) *string { return &o.Secure.ClientConfiguration }),

		access: trusted("the name of a client configuration"),
	},
	{
		key: "jaas", value: "file", cluster: true,
		about: "a JAAS file; zksh authenticates with SASL according to its Client section",
		set:   fileSetting(func(o *Options) *string { return &o.Secure.JAAS }),

		access: trusted("the name of a JAAS file"),
	},
	{
		key: "kerberos", value: "true|false", cluster: true,
		about: "authenticate with Kerberos, with the ticket that kinit has stored",
		set:   func(o *Options, v string) error { return assign(&o.Secure.Kerberos, v, parseKerberos) },
	},
	{
		key: "writes", value: "allow|ask|never", cluster: true,
		about: "whether commands can write; with ask, zksh asks at the prompt, and elsewhere rejects writes unless " +
			"--yes is given",
		set: func(o *Options, v string) error { return assign(&o.Writes, v, parseWrites) },
	},
	{
		key: "colour", value: strings.Join(line.Colors, " | "), cluster: true,
		about: "the colour of the cluster's prompt",
		set: func(o *Options, v string) error {
			if !slices.Contains(line.Colors, v) {
				return fmt.Errorf("colour must be one of %s, not %q", strings.Join(line.Colors, ", "), v)
			}
			o.colour = v
			return nil
		},
	},
	{
		key: "output", value: "text|table|json",
		about: "the output format",
		set:   func(o *Options, v string) error { return assign(&o.Format, v, render.ParseFormat) },
	},
	{
		key: "hints", value: "on|off",
		about: "whether zksh shows suggestions and colours while you type",
		set:   switchSetting("hints", func(o *Options, off bool) { o.NoHints = off }),
	},
	{
		key: "bell", value: "on|off",
		about: "whether the terminal's bell rings when you get a lock after a wait of more than 10 s",
		set:   switchSetting("bell", func(o *Options, off bool) { o.NoBell = off }),
	},
	{
		key: "history", value: "n",
		about: "how many typed lines to save; 0 saves none",
		set: func(o *Options, v string) error {
			n, err := strconv.Atoi(v)
			if err != nil || n < 0 {
				return fmt.Errorf("history must be a number of lines, not %q", v)
			}
			o.HistoryLines = n
			return nil
		},
	},
}

// trusted returns the function access of a setting that decides which credentials zksh sends. Somebody
// who can write the configuration file could also decide to which servers zksh sends them.
func trusted(content string) func(*userfile.File, string) error {
	return func(config *userfile.File, _ string) error { return config.CheckTrusted(content) }
}

// switchSetting returns the function that applies a setting whose value is on or off.
func switchSetting(key string, set func(o *Options, off bool)) func(*Options, string) error {
	return func(o *Options, v string) error {
		if v != "on" && v != "off" {
			return fmt.Errorf("%s must be on or off, not %q", key, v)
		}
		set(o, v == "off")
		return nil
	}
}

// settingNames returns the names of all settings or, if section is true, of those that are allowed
// in a section. The names are sorted and separated by commas.
func settingNames(section bool) string {
	var names []string
	for _, s := range settings {
		if s.cluster || !section {
			names = append(names, s.key)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

func findSetting(key string, section bool) *setting {
	for i, s := range settings {
		if s.key == key && (s.cluster || !section) {
			return &settings[i]
		}
	}
	return nil
}

// A Setting describes a setting of the configuration file in documents.
type Setting struct{ Key, Value, About string }

// Settings returns the descriptions of all settings of the configuration file.
func Settings() (list []Setting) {
	for _, s := range settings {
		list = append(list, Setting{s.key, s.value, s.about})
	}
	return list
}

func parseWrites(v string) (zkconn.Writes, error) {
	switch w := zkconn.Writes(v); w {
	case zkconn.WritesAllowed, zkconn.WritesAsk, zkconn.WritesNever:
		return w, nil
	}
	return "", fmt.Errorf("writes must be allow, ask or never, not %q", v)
}

func parseTLS(v string) (bool, error) { return parseSwitch("tls", v) }

func parseKerberos(v string) (bool, error) { return parseSwitch("kerberos", v) }

// parseSwitch parses the value of the setting name.
func parseSwitch(name, v string) (bool, error) {
	on, err := strconv.ParseBool(v)
	if err != nil {
		return false, fmt.Errorf("%s must be true or false, not %q", name, v)
	}
	return on, nil
}

// fileSetting returns a function that stores a file name in one of the Options. field selects the
// field. A leading ~/ stands for the home directory. Any other relative name is relative to the
// directory of the configuration file.
func fileSetting(field func(*Options) *string) func(*Options, string) error {
	return func(o *Options, v string) error {
		if v = userfile.Home(v); !filepath.IsAbs(v) {
			v = filepath.Join(filepath.Dir(o.configFile), v)
		}
		*field(o) = v
		return nil
	}
}

// assign parses text and stores the value in *target. If text is malformed, assign returns an error
// and does not change *target.
func assign[T any](target *T, text string, parse func(string) (T, error)) error {
	v, err := parse(text)
	if err == nil {
		*target = v
	}
	return err
}

// maxConfig is the maximum size of the configuration file, and of a file with credentials, in bytes.
const maxConfig = 1 << 20

// readConfig reads the configuration file. The file consists of lines of the form KEY = VALUE,
// lines of the form [NAME] that begin the section of a cluster, and comment lines that begin with
// #. A missing file is not an error.
func (o *Options) readConfig(name string) error {
	f, err := userfile.ReadFile(name, maxConfig)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	o.configFile = name
	var section *cluster
	for n, line := range settingLines(f.Data) {
		at := fmt.Sprintf("%s:%d", name, n)
		if line[0] == '[' {
			if section, err = o.newSection(line, at); err != nil {
				return err
			}
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		key = strings.TrimSpace(key)
		if !ok || strings.ContainsAny(key, " \t:") {
			return fmt.Errorf("%s: expected KEY = VALUE", at) // without the line, which may be a credential
		}
		set := findSetting(key, section != nil)
		if set == nil {
			return fmt.Errorf("%s: unknown setting %q%s; KEY must be one of: %s", at, key, section.where(),
				settingNames(section != nil))
		}
		to := o
		if section != nil {
			to = &section.Options
		}
		// an empty value could silently turn off TLS or authentication
		if value = strings.TrimSpace(value); value == "" {
			return fmt.Errorf("%s: the value of %s is empty; give it a value, or remove the line", at, set.key)
		}
		if err := set.set(to, value); err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
		if set.access != nil {
			if err := set.access(f, value); err != nil {
				return fmt.Errorf("configuration: %w", err)
			}
		}
		if section != nil && strings.HasPrefix(section.Server, zkconn.ClusterMark) {
			return fmt.Errorf("%s: server must be %s, not the name of another section", at, settings[0].value)
		}
	}
	for _, c := range o.clusters {
		if c.Server == "" {
			return fmt.Errorf("%s: section %s does not set server", c.location, c.name)
		}
	}
	return nil
}

// settingLines yields the lines of a file that are neither empty nor comments, without surrounding
// spaces. It yields each line together with its number, counted from 1.
func settingLines(data []byte) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		n := 0
		for line := range strings.Lines(string(data)) {
			n++
			line = strings.TrimSpace(line)
			if line != "" && line[0] != '#' && !yield(n, line) {
				return
			}
		}
	}
}

// readAuthFile reads a file with credentials. The file consists of lines of the form SCHEME
// CREDENTIAL, and of comment lines that begin with #. readAuthFile returns the credential for the
// scheme sasl separately, because zksh does not send it in an addauth request. Error messages never
// quote a line, because it may be secret.
func readAuthFile(name string) (list []zkconn.Credential, sasl *secure.SASL, err error) {
	data, err := userfile.ReadPrivate(name, maxConfig, "credentials")
	if err != nil {
		return nil, nil, fmt.Errorf("credentials: %w", err)
	}
	return parseCredentials(data, name)
}

// credentialForm describes a line with a credential, in error messages.
const credentialForm = "SCHEME CREDENTIAL, for example digest user:password"

// parseCredentials parses the contents of a file with credentials. It returns an error if there is no
// credential. name is the file's name, for error messages.
func parseCredentials(data []byte, name string) (list []zkconn.Credential, sasl *secure.SASL, err error) {
	for n, line := range settingLines(data) {
		at := strings.IndexAny(line, " \t")
		if at < 0 {
			return nil, nil, fmt.Errorf("%s:%d: expected %s", name, n, credentialForm)
		}
		scheme, credential := line[:at], strings.TrimSpace(line[at:])
		if scheme != "sasl" {
			list = append(list, zkconn.Credential{Scheme: scheme, Auth: []byte(credential)})
			continue
		}
		if sasl, err = secure.ParseSASL(credential); err != nil {
			return nil, nil, fmt.Errorf("%s:%d: %w", name, n, err)
		}
	}
	if list == nil && sasl == nil {
		return nil, nil, fmt.Errorf("%s contains no credential; expected lines of the form %s", name, credentialForm)
	}
	return list, sasl, nil
}
