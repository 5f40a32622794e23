// Package app contains the parts of the program zksh that only its main function uses: parsing of
// the command line, the configuration file and the environment (ParseOptions), completion in other
// shells (Complete), the manual page (Page), the text of --help (Help), and the sandbox command
// (SandboxCommand). Start reading at Options.
package app

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/secure"
	"github.com/zksh/zksh/internal/zkconn"
)

// Options contains the options of the program, which include those of zkCli. Options on the command
// line override ZKSH_SERVER (or ZK_HOST), which overrides the configuration file.
type Options struct {
	Server  string        // connect string
	Cluster string        // name of the cluster whose section is used, with a leading @, or empty if there is none
	Timeout time.Duration // session timeout; also the longest time to wait for a connection

	AuthFile string              // file with credentials, or empty if there is none
	Auth     []zkconn.Credential // credentials from AuthFile, except SASL

	AuthCommand string           // shell command that prints another credential, or empty; see authenticate
	credentials *credentialCache // output of the auth-commands that this process has run

	MaxRequest int // maximum size of a request, in bytes, or 0 for the default

	Proxy      string // URL of a SOCKS5 proxy, which may contain a password; empty if there is none
	proxyGiven bool   // whether --proxy was given on the command line

	Writes  zkconn.Writes // whether commands may write; if empty, they may
	NoWrite bool          // reject all writes, on all servers
	Yes     bool          // do not ask before writes

	Secure  secure.Settings
	Secured secure.Config // contents of the files that Secure names, and SASL credentials from AuthFile

	ReadOnly     bool // accept a read-only server
	Wait         bool // wait until connected before running commands
	Format       render.Format
	File         string   // file with commands; "-" means standard input
	HasFile      bool     // whether -f was given
	Lines        []string // lines given with -c
	NoFence      bool     // write even after a lock was lost
	StopAtError, // stop at the first error
	GoOn, // continue after a lock was lost or not acquired
	Quiet,
	ShowVersion,
	ShowHelp bool

	Trace   string // file to which the session's traffic is written; may be empty
	Undo    string // file given with --undo, to which zksh saves overwritten and deleted znodes; may be empty
	UndoDir string // directory of the undo log, or empty if there is no place for one

	NoStateDir error // why there is no place for the undo log and the history; nil if there is one

	HistoryFile  string // file with the typed lines, or empty if there is no place for it
	HistoryLines int    // maximum number of lines in the history
	NoHints      bool   // whether the prompt shows no suggestions and no colors
	NoBell       bool   // whether the bell of the terminal never rings

	Sandbox bool   // use the in-memory server
	Listen  string // address at which zksh only serves the sandbox, or empty if it runs commands
	// version that the sandbox acts as; if empty, that of a running sandbox, or else the default
	As         sandbox.Version
	Load       string // file with the contents of a private sandbox, or empty
	SandboxDir string // directory through which shells find a running sandbox, or empty if there is none

	Command []string // words of a single command on the command line

	configFile   string // path of the configuration file, or empty if there is none
	clusters     []*cluster
	colour       string // colour of a cluster's prompt
	topLevel     topLevelSettings
	timeoutGiven time.Duration // value of --timeout on the command line, or 0 if it was not given
	getenv       func(string) string
	superuser    *superuser // superuser of the sandbox that this shell runs, or nil

	maxRequestGiven int // value of --max-request on the command line, or 0 if it was not given
}

// Environment contains everything on which options depend besides the command line.
type Environment struct {
	Getenv    func(string) string
	ConfigDir string // directory of the user's configuration, or empty if there is none
	StateDir  string // directory of the history, the undo log and the sandbox, or empty if there is none

	NoStateDir error // why StateDir is empty; nil if it is not
}

// DefaultServer is the server to which zksh connects by default.
const DefaultServer = "localhost:2181"

// defaults returns the default options. The server and the timeout are the same as in zkCli.
func defaults() Options {
	return Options{Server: DefaultServer, Timeout: 30 * time.Second, Format: render.Text,
		HistoryLines: 10000}
}

// declare returns a flag set that stores the program's options in o. The current values in o are
// the defaults. After parsing, the caller must call finish, which checks the options.
func declare(o *Options) (set *pflag.FlagSet, finish func() error) {
	set = pflag.NewFlagSet("zksh", pflag.ContinueOnError)
	set.SetOutput(io.Discard)
	set.SortFlags = false
	set.Usage = func() {}
	as := ""
	timeout, format := strconv.FormatInt(o.Timeout.Milliseconds(), 10), string(o.Format)
	maxRequest := "" // no fixed default, because it depends on other settings
	set.StringVar(&o.Server, "server", o.Server, "the servers; written `host[:port][,…][/chroot]`, "+
		"or @NAME for a cluster from the configuration file")
	set.StringVar(&timeout, "timeout", timeout, "session timeout in `ms`; other units are written as in 10s; "+
		"it also limits how long zksh tries to connect")
	set.StringVar(&maxRequest, "max-request", maxRequest,
		"largest request in `bytes` (default "+strconv.Itoa(zkconn.UsualMaxRequest)+"); for servers with"+
			" a raised jute.maxbuffer")
	set.StringVar(&o.Proxy, "proxy", o.Proxy, "connect through the SOCKS5 proxy at this `url`; written "+
		zkconn.ProxySyntax+
		"; the proxy resolves the names of the servers")
	set.Lookup("proxy").DefValue = "" // the default may contain a password
	set.StringVar(&o.AuthFile, "auth-file", o.AuthFile,
		"authenticate with the credentials in this `file`; each line has the form \"scheme credential\", "+
			"and no other user may have access to the file")
	set.BoolVar(&o.NoWrite, "no-write", false, "reject every command that writes or locks; this applies to all servers")
	set.BoolVar(&o.Yes, "yes", false, "write without asking; for clusters with writes = ask, and for lockdemo")
	set.BoolVar(&o.Secure.TLS, "tls", o.Secure.TLS, "connect with TLS; --cacert, --cert, --key, "+
		"--tls-name and --tls-insecure imply this option")
	set.StringVar(&o.Secure.CACert, "cacert", o.Secure.CACert,
		"trust the certificate authorities in this `file`; in PEM, PKCS12 or JKS format; by default, "+
			"zksh trusts those of the system")
	set.StringVar(&o.Secure.Cert, "cert", o.Secure.Cert,
		"`file` with the client's certificate; in PEM, PKCS12 or JKS format; it must also contain the key, "+
			"unless --key is given")
	set.StringVar(&o.Secure.Key, "key", o.Secure.Key, "`file` with the client's key; in PEM, PKCS12 or JKS format")
	set.StringVar(&o.Secure.Name, "tls-name", o.Secure.Name,
		"expect this `name` in the servers' certificates; by default, the name in the connect string")
	set.BoolVar(&o.Secure.Insecure, "tls-insecure", false, "do not verify the identity of the servers")
	set.StringVar(&o.Secure.ClientConfiguration, "client-configuration", o.Secure.ClientConfiguration,
		"zkCli's or Kafka's properties `file`; it sets TLS, SASL and jute.maxbuffer; "+
			"if it contains zookeeper.client.secure=true, zksh uses TLS")
	set.StringVar(&o.Secure.JAAS, "jaas", o.Secure.JAAS,
		"authenticate with SASL and this JAAS `file`; zksh reads its Client section")
	set.BoolVar(&o.Secure.Kerberos, "kerberos", o.Secure.Kerberos,
		"authenticate with Kerberos; zksh uses the ticket that kinit has stored")
	set.BoolVarP(&o.ReadOnly, "readonly", "r", false, "accept a read-only server; such a server is cut off "+
		"from its ensemble")
	set.BoolVar(&o.Wait, "waitforconnection", false, "wait until connected, but at most for the timeout")
	set.StringVarP(&format, "output", "o", format, "output `format`: text, table or json")
	set.StringVarP(&o.File, "file", "f", "", "read the commands from this `file`; - means standard input")
	set.StringArrayVarP(&o.Lines, "command", "c", nil, "run this `line`; repeat the option to run several lines")
	set.BoolVarP(&o.StopAtError, "errexit", "e", false, "stop at the first error; each line waits for the previous one")
	set.BoolVarP(&o.GoOn, "keep-going", "k", false, "continue after a lock is lost or not acquired")
	set.StringVar(&o.Undo, "undo", "", "save overwritten and deleted znodes to a new `file`; import -R restores them")
	set.BoolVar(&o.NoFence, "no-fence", false, "write even after a lock was lost; this applies to locks of this "+
		"shell and of its parent processes")
	set.StringVar(&o.Trace, "trace", "", "append the traffic of the session to this `file`; requests, "+
		"replies, watch events, and what TLS and Kerberos agreed on, without credentials and data")
	set.BoolVarP(&o.Quiet, "quiet", "q", false, "print no banner, notes or progress")
	set.BoolVar(&o.Sandbox, "sandbox", false, "use an in-memory server for experiments; other shells can share it")
	set.StringVar(&o.Load, "load", "", "load this `file` into a private sandbox; "+
		"a ZooKeeper snapshot or an export; needs --sandbox")
	set.StringVar(&o.Listen, "listen", "", "only serve the sandbox, at this loopback `address`; needs --sandbox")
	set.StringVar(&as, "as", "", "let the sandbox act as this `version` (default "+string(sandbox.DefaultVersion)+
		"); a version of ZooKeeper: "+sandbox.VersionNames()+"; needs --sandbox")
	set.BoolVar(&o.ShowVersion, "version", false, "print the version")
	set.BoolVarP(&o.ShowHelp, "help", "h", false, "print this help")
	for _, name := range append(noStream, "file") {
		commands.FlagFile(set, name)
	}
	commands.FlagWords(set, "output", string(render.Text), string(render.Table), string(render.JSON))
	commands.FlagWords(set, "as", strings.Split(sandbox.VersionNames(), ", ")...)
	commands.FlagWords(set, "server", o.clusterNames()...)
	commands.FlagLine(set, "command")
	commands.FlagMayBeEmpty(set, "proxy") // turns a configured proxy off
	return set, func() error {
		var err error
		if o.Timeout, err = parseTimeout(timeout); err != nil {
			return err
		}
		if o.Format, err = render.ParseFormat(format); err != nil {
			return err
		}
		for _, name := range noStream {
			if set.Lookup(name).Value.String() == "-" {
				return fmt.Errorf("--%s -: only -f accepts - for a standard stream; "+
					"for a file with this name, write ./-", name)
			}
		}
		o.HasFile = set.Changed("file")
		if set.Changed("max-request") {
			if o.MaxRequest, err = parseMaxRequest(maxRequest); err != nil {
				return err
			}
			o.maxRequestGiven = o.MaxRequest
		}
		if o.proxyGiven = o.proxyGiven || set.Changed("proxy"); o.proxyGiven {
			if err = zkconn.CheckProxy(o.Proxy); err != nil {
				return err
			}
		}
		if set.Changed("auth-file") {
			o.AuthCommand = "" // the command line overrides the configuration
		}
		if set.Changed("timeout") {
			o.timeoutGiven = o.Timeout
		}
		if set.Changed("as") {
			if o.As, err = sandbox.ParseVersion(as); err != nil {
				return fmt.Errorf("--as: %w", err)
			}
		}
		switch {
		case o.Sandbox && set.Changed("server"):
			return errors.New("--sandbox and --server cannot be combined, because the sandbox is itself a server")
		case o.Sandbox && o.Cluster != "":
			return fmt.Errorf("--sandbox and %s cannot be combined, because the sandbox is itself a server", o.Cluster)
		case set.Changed("listen") && !o.Sandbox:
			return errors.New("--listen needs --sandbox")
		case set.Changed("as") && !o.Sandbox:
			return errors.New("--as needs --sandbox")
		case set.Changed("load") && !o.Sandbox:
			return errors.New("--load needs --sandbox")
		case o.Sandbox && slices.ContainsFunc(secureOptions, set.Changed):
			return errors.New("--sandbox cannot be combined with options for TLS or SASL, " +
				"which the sandbox does not support")
		case o.Sandbox && set.Changed("proxy"):
			return errors.New("--sandbox and --proxy cannot be combined, because the sandbox runs on this computer")
		}
		return nil
	}
}

// noStream lists the options whose value is a file, and cannot be - for standard input or output.
var noStream = []string{"auth-file", "cacert", "cert", "key", "client-configuration", "jaas", "trace", "undo", "load"}

// secureOptions lists the options for TLS and SASL. A sandbox supports neither.
var secureOptions = []string{"tls", "cacert", "cert", "key", "tls-name", "tls-insecure", "client-configuration",
	"jaas", "kerberos"}

// IsOption reports whether word is an option of the program. It may include a value, as in
// --timeout=5000.
func IsOption(word string) bool {
	o := defaults()
	set, _ := declare(&o)
	_, err := commands.Reorder(set, []commands.Word{{Text: word}, {Text: "value"}}, true)
	return err == nil
}

// maxTimeout is the largest timeout in milliseconds. ZooKeeper's protocol encodes it in 32 bits.
const maxTimeout = 1<<31 - 1

// parseTimeout parses a number of milliseconds, as in zkCli, or a duration with a unit.
func parseTimeout(s string) (time.Duration, error) {
	timeout, err := time.ParseDuration(s)
	if ms, notNumber := strconv.Atoi(s); notNumber == nil && ms <= maxTimeout {
		timeout, err = time.Duration(ms)*time.Millisecond, nil
	}
	if err != nil || timeout < time.Millisecond || timeout > maxTimeout*time.Millisecond {
		return 0, fmt.Errorf("invalid timeout %q: must be between 1 and %d milliseconds; "+
			"write 10s or 10000", s, maxTimeout)
	}
	return timeout, nil
}

// parseMaxRequest parses a number of bytes. It rejects numbers below zkconn.UsualMaxRequest,
// because every server accepts requests of that size.
func parseMaxRequest(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < zkconn.UsualMaxRequest || n > maxTimeout {
		return 0, fmt.Errorf("invalid max-request %q: must be between %d and %d bytes", s,
			zkconn.UsualMaxRequest, maxTimeout)
	}
	return n, nil
}

// ParseOptions determines the options from the configuration file, the environment and the command
// line. Its errors have the type *commands.UsageError.
func ParseOptions(args []string, env Environment) (Options, error) {
	o := defaults()
	o.NoStateDir = env.NoStateDir
	if env.StateDir != "" {
		o.HistoryFile = filepath.Join(env.StateDir, "zksh", "history")
		o.SandboxDir = env.StateDir
		o.UndoDir = filepath.Join(env.StateDir, "zksh", "undo")
	}
	if err := o.parse(args, env); err != nil {
		return o, &commands.UsageError{Problem: zkconn.HidePassword(err.Error())}
	}
	return o, nil
}

func (o *Options) parse(args []string, env Environment) error {
	var configErr error
	if env.ConfigDir != "" {
		configErr = o.readConfig(filepath.Join(env.ConfigDir, "zksh", "config"))
	}
	o.credentials = newCredentialCache()
	o.topLevel, o.getenv = topLevelSettings{o.Timeout, o.Writes, o.Secure, o.MaxRequest, o.Proxy}, env.Getenv
	if s := cmp.Or(env.Getenv("ZKSH_SERVER"), env.Getenv("ZK_HOST")); s != "" {
		o.Server = s
	}
	args, err := o.takeCluster(args)
	if err != nil {
		return cmp.Or(configErr, err)
	}
	if o.Command, err = o.parseArgs(args); err != nil {
		return err
	}
	if o.Cluster != "" && o.Server == o.Cluster { // the cluster was given as --server @NAME
		o.Server = o.cluster(o.Cluster).Server
	}
	if len(o.Lines) > 0 && (o.HasFile || len(o.Command) > 0 || o.Listen != "") {
		return errors.New("-c cannot be combined with -f, --listen or a command")
	}
	if o.HasFile && len(o.Command) > 0 {
		return fmt.Errorf("-f cannot be combined with a command: %q", o.Command[0])
	}
	if o.Listen != "" && (o.HasFile || len(o.Command) > 0) {
		return errors.New("--listen only runs the sandbox and takes no commands; run commands in another zksh process")
	}
	if o.ShowHelp || o.ShowVersion || len(o.Command) > 0 && findPage(o.Command[0]) != nil {
		return nil
	}
	if configErr != nil {
		return configErr
	}
	if err := o.readSecrets(); err != nil {
		return err
	}
	_, err = zkconn.ParseServers(o.Server)
	return err
}

// parseArgs parses the options at the beginning of args and returns the remaining words.
func (o *Options) parseArgs(args []string) (rest []string, err error) {
	set, finish := declare(o)
	words := make([]commands.Word, len(args))
	for i, a := range args {
		words[i] = commands.Word{Text: a}
	}
	line, err := commands.Reorder(set, words, true)
	if err != nil {
		return nil, fmt.Errorf("%w; to list the options, run: zksh --help", err)
	}
	if err = set.Parse(line); err != nil {
		return nil, commands.ExplainOption(err)
	}
	return set.Args(), finish()
}

// takeCluster applies the settings of a cluster if one is named by @NAME before the command, by
// --server @NAME, or by the default server. It returns args without the word @NAME. The caller
// then parses these args, so that options on the command line override the cluster's settings.
func (o *Options) takeCluster(args []string) ([]string, error) {
	first := *o
	rest, err := first.parseArgs(args)
	named := err == nil && len(rest) > 0 && strings.HasPrefix(rest[0], zkconn.ClusterMark)
	switch {
	case named && first.Server != o.Server:
		return nil, fmt.Errorf("--server %s and %s were both given; use only one of them", first.Server, rest[0])
	case named:
		first.Server = rest[0]
		args = slices.Concat(args[:len(args)-len(rest)], rest[1:])
	case !strings.HasPrefix(first.Server, zkconn.ClusterMark):
		return args, nil
	}
	return args, o.useCluster(first.Server)
}

// readSecrets reads the files for authentication that the options name: files with certificates
// and keys, and the file with credentials.
func (o *Options) readSecrets() (err error) {
	o.Auth, o.Secured = nil, secure.Config{}
	if !o.Sandbox {
		if o.Secured, err = o.Secure.Load(o.getenv); err != nil {
			return err
		}
	}
	if o.AuthFile == "" {
		return nil
	}
	var sasl *secure.SASL
	if o.Auth, sasl, err = readAuthFile(o.AuthFile); err == nil && sasl != nil && !o.Sandbox {
		o.Secured.Use(sasl, o.getenv)
	}
	return err
}
