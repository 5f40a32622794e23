package app

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/secure"
	"github.com/zksh/zksh/internal/zkconn"
)

// settings are the keys of the configuration file.
var settings = map[string]func(o *Options, value string) error{
	"server": func(o *Options, v string) error {
		o.Server = v
		_, err := zkconn.ParseServers(v)
		return err
	},
	"timeout":              func(o *Options, v string) error { return assign(&o.Timeout, v, parseTimeout) },
	"output":               func(o *Options, v string) error { return assign(&o.Format, v, render.ParseFormat) },
	"auth-file":            fileIn(func(o *Options) *string { return &o.AuthFile }),
	"tls":                  func(o *Options, v string) error { return assign(&o.Secure.TLS, v, parseTLS) },
	"cacert":               fileIn(func(o *Options) *string { return &o.Secure.CACert }),
	"cert":                 fileIn(func(o *Options) *string { return &o.Secure.Cert }),
	"key":                  fileIn(func(o *Options) *string { return &o.Secure.Key }),
	"client-configuration": fileIn(func(o *Options) *string { return &o.Secure.ClientConfiguration }),
	"jaas":                 fileIn(func(o *Options) *string { return &o.Secure.JAAS }),
	"tls-name": func(o *Options, v string) error {
		o.Secure.Name = v
		return nil
	},
	"history": func(o *Options, v string) error {
		n, err := strconv.Atoi(v)
		if err != nil || n < 0 {
			return fmt.Errorf("history %q is not a number of lines", v)
		}
		o.HistoryLines = n
		return nil
	},
}

func parseTLS(v string) (bool, error) {
	on, err := strconv.ParseBool(v)
	if err != nil {
		return false, fmt.Errorf("tls %q is neither true nor false", v)
	}
	return on, nil
}

// fileIn sets the name of a file, which is relative to the configuration's place.
func fileIn(at func(*Options) *string) func(*Options, string) error {
	return func(o *Options, v string) error {
		if v != "" && !filepath.IsAbs(v) {
			v = filepath.Join(o.configDir, v)
		}
		*at(o) = v
		return nil
	}
}

// assign leaves the target as it is when the text is malformed.
func assign[T any](to *T, text string, parse func(string) (T, error)) error {
	v, err := parse(text)
	if err == nil {
		*to = v
	}
	return err
}

// readConfig reads lines "key = value"; # starts a comment line. A file that is
// not there is none. File names in it are relative to its place.
func (o *Options) readConfig(name string) error {
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	o.configDir = filepath.Dir(name)
	for n, line := range settingLines(data) {
		key, value, ok := strings.Cut(line, "=")
		key = strings.TrimSpace(key)
		set := settings[key]
		if !ok || set == nil {
			return fmt.Errorf("%s:%d: %q is no setting; write KEY = VALUE with one of %s", name, n, line,
				strings.Join(slices.Sorted(maps.Keys(settings)), ", "))
		}
		if err := set(o, strings.TrimSpace(value)); err != nil {
			return fmt.Errorf("%s:%d: %w", name, n, err)
		}
	}
	return nil
}

// settingLines are the lines of a file that say something, by their numbers from 1.
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

// readAuthFile reads credentials: lines "scheme credential"; # starts a comment
// line. That of the scheme sasl is no request of its own, and stands apart. No error
// shows what a line says.
func readAuthFile(name string) (list []zkconn.Credential, sasl *secure.SASL, err error) {
	data, err := readPrivate(name)
	if err != nil {
		return nil, nil, fmt.Errorf("credentials: %w", err)
	}
	for n, line := range settingLines(data) {
		at := strings.IndexAny(line, " \t")
		if at < 0 {
			return nil, nil, fmt.Errorf("%s:%d: a line is SCHEME CREDENTIAL, such as digest user:password", name, n)
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
	return list, sasl, nil
}

// readPrivate reads a file, and refuses one that others can read.
func readPrivate(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 { // there the mode tells nothing of others
		return nil, fmt.Errorf("%s is open to others (mode %04o); chmod 600 %s", name, info.Mode().Perm(), name)
	}
	return io.ReadAll(f)
}
