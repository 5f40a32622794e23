package app

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zktest"
)

func parse(t *testing.T, config, server string, args ...string) (Options, error) {
	t.Helper()
	dir := t.TempDir()
	if config != "" {
		zktest.Must(t, os.MkdirAll(filepath.Join(dir, "zksh"), 0o700))
		zktest.Must(t, os.WriteFile(filepath.Join(dir, "zksh", "config"), []byte(config), 0o600))
	}
	return ParseOptions(args, Environment{Getenv: func(k string) string {
		if k == "ZKSH_SERVER" {
			return server
		}
		return ""
	}, ConfigDir: dir, StateDir: dir})
}

func TestOptionsPrecedence(t *testing.T) {
	const config = "# mine\nserver = conf:1\ntimeout=5000\n output = json \nhistory = 0\n"
	for _, c := range []struct{ config, env, arg, want string }{
		{"", "", "", "localhost:2181"},
		{config, "", "", "conf:1"},
		{config, "env:2", "", "env:2"},
		{config, "env:2", "arg:3", "arg:3"},
	} {
		var args []string
		if c.arg != "" {
			args = []string{"-server", c.arg}
		}
		o, err := parse(t, c.config, c.env, args...)
		if err != nil || o.Server != c.want {
			t.Errorf("%+v: server %q, %v", c, o.Server, err)
		}
		if c.config != "" && (o.Timeout.Milliseconds() != 5000 || o.Format != render.JSON || o.HistoryLines != 0) {
			t.Errorf("the configuration was not taken: %+v", o)
		}
	}
}

// ZK_HOST overrides the configuration file, but neither ZKSH_SERVER nor the command line.
func TestSolrVariable(t *testing.T) {
	for _, c := range []struct {
		server string
		args   []string
		want   string
	}{
		{"", nil, "solr:1,solr:2/solr"},
		{"env:2", nil, "env:2"},
		{"", []string{"-server", "arg:3"}, "arg:3"},
	} {
		env := Environment{Getenv: func(k string) string {
			return map[string]string{"ZKSH_SERVER": c.server, "ZK_HOST": "solr:1,solr:2/solr"}[k]
		}}
		if o, err := ParseOptions(c.args, env); err != nil || o.Server != c.want {
			t.Errorf("%+v: server %q, %v", c, o.Server, err)
		}
	}
}

// A timeout without a unit is in milliseconds, as in zkCli.
func TestTimeout(t *testing.T) {
	for text, want := range map[string]int64{"10s": 10000, "7": 7, "+7": 7, "1m30s": 90000, "1500ms": 1500, "2147483647": 2147483647} {
		for _, config := range []string{"", "timeout = " + text + "\n"} {
			args := []string{"-timeout", text}
			if config != "" {
				args = nil
			}
			if o, err := parse(t, config, "", args...); err != nil || o.Timeout.Milliseconds() != want {
				t.Errorf("%s: %v, %v", text, o.Timeout, err)
			}
		}
	}
	for _, text := range []string{"0", "0s", "-1", "-1s", "2147483648", "600h", "1ns", "x", "1.5", "10 s", "s"} {
		want := `invalid timeout "` + text + `": must be between 1 and 2147483647 milliseconds; write 10s or 10000`
		if _, err := parse(t, "", "", "-timeout", text); err == nil || err.Error() != want {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestOptionsEndAtTheCommand(t *testing.T) {
	for _, args := range [][]string{
		{"-server", "h:1", "-timeout", "7", "-r", "ls", "-R", "/", "-server", "x"},
		{"--server=h:1", "--timeout=7", "--readonly", "ls", "-R", "/", "-server", "x"},
	} {
		o, err := parse(t, "", "", args...)
		if err != nil || o.Server != "h:1" || o.Timeout.Milliseconds() != 7 || !o.ReadOnly || strings.Join(o.Command, " ") != "ls -R / -server x" {
			t.Errorf("%v: %+v, %v", args, o, err)
		}
	}
}

// IsOption recognises options of the program, with or without a value.
func TestIsOption(t *testing.T) {
	for word, want := range map[string]bool{
		"-o": true, "-ojson": true, "-o=json": true, "--output=json": true, "-server": true, "--server": true, "-qe": true, "-h": true,
		"-z": false, "-oz": true, "-qz": false, "--servers": false, "-q=1": false,
	} {
		if got := IsOption(word); got != want {
			t.Errorf("%s: %v, want %v", word, got, want)
		}
	}
}

func TestBadOptions(t *testing.T) {
	for _, c := range []struct {
		config string
		args   []string
		want   string
	}{
		{"", []string{"-x"}, "-x"},
		{"", []string{"--nope"}, "--nope"},
		{"", []string{"-server"}, "-server"},
		{"", []string{"-server", ","}, "no host"},
		{"", []string{"-server", "h:abc"}, "abc"},
		{"", []string{"-server", "h:1/bad/"}, "chroot"},
		{"", []string{"-timeout", "abc"}, "abc"},
		{"", []string{"-timeout", "0"}, `"0"`},
		{"", []string{"-o", "xml"}, "xml"},
		{"", []string{"-f", "x", "ls"}, "ls"},
		{"", []string{"--sandbox", "--server", "h"}, "--sandbox and --server"},
		{"", []string{"--listen", "127.0.0.1:0"}, "--listen needs --sandbox"},
		{"", []string{"--sandbox", "--listen", "127.0.0.1:0", "ls"}, "--listen"},
		{"server h:1\n", nil, "config:1"},
		{"\nnope = 1\n", nil, "config:2: unknown setting \"nope\"; KEY must be one of: auth-command, auth-file, bell, cacert, cert, client-configuration, colour, hints, history, jaas, kerberos, key, max-request, output, proxy, server, timeout, tls, tls-name, writes"},
		{"timeout = x\n", nil, "config:1"},
		{"digest ann:secret\n", nil, "config:1: expected KEY = VALUE"},
		{"digest ann:secret=x\n", nil, "config:1: expected KEY = VALUE"},
		{"auth-comand = PW=secret get-password\n", nil, `config:1: unknown setting "auth-comand"; KEY must be one of:`},
		{"[a]\nserver = h:1\n[b]\ntls = true\nserver = @a\n", nil, "config:5: server must be host[:port][,…][/chroot], not the name of another section"},
		{"auth-file = nowhere\n", nil, filepath.Join("zksh", "nowhere")},
		{strings.Repeat("#\n", maxConfig/2+1), nil, "config is too large: the limit is 1048576 bytes"},
	} {
		_, err := parse(t, c.config, "", c.args...)
		if !errors.As(err, new(*commands.UsageError)) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q %q: %v", c.config, c.args, err)
		}
	}
}

// Credentials are read from a private file, and no error shows them.
func TestAuthFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "auth")
	write := func(text string, mode os.FileMode) {
		t.Helper()
		zktest.Must(t, errors.Join(os.WriteFile(file, []byte(text), 0o600), os.Chmod(file, mode)))
	}
	write("# mine\n\n digest\tann:se cret \r\nother x\n", 0o600)
	for _, config := range []string{"", "auth-file = " + file + "\n"} {
		var args []string
		if config == "" {
			args = []string{"--auth-file", file}
		}
		o, err := parse(t, config, "", args...)
		if err != nil || len(o.Auth) != 2 || o.Auth[0].Scheme != "digest" || string(o.Auth[0].Auth) != "ann:se cret" ||
			o.Auth[1].Scheme != "other" || string(o.Auth[1].Auth) != "x" {
			t.Errorf("%q %q: %q, %v", config, args, o.Auth, err)
		}
	}
	refused := func(want string) {
		t.Helper()
		_, err := parse(t, "", "", "--auth-file", file)
		if !errors.As(err, new(*commands.UsageError)) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "cret") {
			t.Errorf("%v, want %q", err, want)
		}
	}
	write("digest ann:se"+strings.Repeat("cret", maxConfig/4), 0o600)
	refused(file + " is too large")
	write("digest ann:x\nann:secret\n", 0o600)
	refused(file + ":2: expected SCHEME CREDENTIAL")
	for _, text := range []string{"", "\n", "# digest ann:secret\n\n  #\n"} {
		write(text, 0o600)
		refused(file + " contains no credential; expected lines of the form SCHEME CREDENTIAL")
	}
	if runtime.GOOS == "windows" {
		return
	}
	for _, mode := range []os.FileMode{0o640, 0o604, 0o620, 0o610} {
		write("digest ann:secret\n", mode)
		refused("chmod 600 " + file)
	}
}

// TLS and SASL are set in the configuration, with files relative to it, or on the command line. No
// option takes a password.
func TestSecureOptions(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		file := filepath.Join(dir, name)
		zktest.Must(t, os.WriteFile(file, []byte(text), 0o600))
		return file
	}
	properties := write("prod.properties", "zookeeper.client.secure=true\n")
	auth := write("auth", "digest ann:secret\nsasl bob:secret\n")
	for _, c := range []struct {
		config    string
		args      []string
		tls, sasl bool
	}{
		{"", nil, false, false},
		{"tls = true\n", nil, true, false},
		{"", []string{"-tls"}, true, false},
		{"tls = false\n", nil, false, false},
		{"tls-name = zk\n", nil, true, false},
		{"", []string{"--tls-insecure"}, true, false},
		{"client-configuration = " + properties + "\n", nil, true, false},
		{"", []string{"-client-configuration", properties}, true, false},
		{"auth-file = " + auth + "\n", nil, false, true},
		{"tls = true\nauth-file = " + auth + "\n", []string{"--sandbox"}, false, false}, // a sandbox has neither
	} {
		o, err := parse(t, c.config, "", c.args...)
		if err != nil || (o.Secured.TLS != nil) != c.tls || (o.Secured.SASL != nil) != c.sasl {
			t.Errorf("%q %q: %+v, %v", c.config, c.args, o.Secured, err)
		}
		if c.sasl && (len(o.Auth) != 1 || o.Auth[0].Scheme != "digest") {
			t.Errorf("%q", o.Auth)
		}
	}
	for _, c := range []struct {
		config string
		args   []string
		want   string
	}{
		{"cacert = ca.pem\n", nil, filepath.Join("zksh", "ca.pem")},
		{"jaas = jaas.conf\n", nil, filepath.Join("zksh", "jaas.conf")},
		{"kerberos = perhaps\n", nil, `config:1: kerberos must be true or false, not "perhaps"`},
		{"", []string{"--sandbox", "--kerberos"}, "--sandbox cannot be combined with options for TLS or SASL"},
		{"tls = perhaps\n", nil, `config:1: tls must be true or false, not "perhaps"`},
		{"", []string{"--cacert", "nowhere"}, "the file nowhere does not exist"},
		{"", []string{"--sandbox", "--tls"}, "--sandbox cannot be combined with options for TLS or SASL"},
		{"", []string{"--auth-file", write("odd", "sasl secret\n")}, "odd:1: a credential of the sasl scheme must have the form USER:PASSWORD"},
		{"", []string{"--password", "secret"}, "password"},
	} {
		_, err := parse(t, c.config, "", c.args...)
		if !errors.As(err, new(*commands.UsageError)) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q %q: %v", c.config, c.args, err)
		}
	}
}
