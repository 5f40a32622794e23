package app

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zkconn"
)

// settings are the keys of the configuration file.
var settings = map[string]func(o *Options, value string) error{
	"server": func(o *Options, v string) error {
		o.Server = v
		_, err := zkconn.ParseServers(v)
		return err
	},
	"timeout": func(o *Options, v string) error { return assign(&o.Timeout, v, parseTimeout) },
	"output":  func(o *Options, v string) error { return assign(&o.Format, v, render.ParseFormat) },
	"auth-file": func(o *Options, v string) error {
		o.AuthFile = v
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
	n := 0
	for line := range strings.Lines(string(data)) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
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
	if o.AuthFile != "" && !filepath.IsAbs(o.AuthFile) {
		o.AuthFile = filepath.Join(filepath.Dir(name), o.AuthFile)
	}
	return nil
}
