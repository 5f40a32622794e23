package zktest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// An Option changes the configuration of a server, or of all members of an ensemble.
type Option func(*config)

// A config is the configuration of a server, or of all members of an ensemble.
type config struct {
	heapMB   int
	props    []string // Java system properties in the form key=value
	lines    []string // additional lines for zoo.cfg
	members  int      // number of servers in the ensemble
	quorum   bool
	readOnly bool
	secure   bool     // whether the server also has a TLS port
	env      []string // variables that are added to the environment of the server
	// production makes the server run with Java's default compiler and garbage collector, which take
	// longer to start.
	production bool

	// view returns a copy of the member other with the ports that the member self must connect
	// to, such as those of proxies. If view is nil, self connects directly to other's own
	// ports.
	view func(self, other member) member
}

func newConfig(opts []Option) config {
	c := config{heapMB: 256, members: 1}
	for _, opt := range opts {
		opt(&c)
	}
	return c
}

// EnforceQuota makes the server reject writes that exceed a quota. By default, the server
// executes such writes and logs a warning.
func EnforceQuota() Option {
	return func(c *config) { c.lines = append(c.lines, "enforceQuota=true") }
}

// Quorum makes the server run as an ensemble with a single member, which can be reconfigured. Add
// SkipACL if clients other than the superuser reconfigure it.
func Quorum() Option { return func(c *config) { c.quorum = true } }

// Secure gives the server a TLS port, whose address Server.Secure returns. The PEM file certFile
// contains the server's certificate and key. Clients need a certificate that is signed by the
// authority whose certificate is in the PEM file caFile.
func Secure(certFile, caFile string) Option {
	return func(c *config) {
		c.secure = true
		c.lines = append(c.lines,
			"serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
			"authProvider.x509=org.apache.zookeeper.server.auth.X509AuthenticationProvider",
			"ssl.keyStore.location="+certFile, "ssl.keyStore.type=PEM",
			"ssl.trustStore.location="+caFile, "ssl.trustStore.type=PEM",
			"ssl.enabledProtocols=TLSv1.2,TLSv1.3", "ssl.protocol=TLSv1.3",
			"ssl.ciphersuites=TLS_AES_128_GCM_SHA256,TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256")
	}
}

// Line adds the given line to the server's configuration file zoo.cfg.
func Line(line string) Option {
	return func(c *config) { c.lines = append(c.lines, line) }
}

// SkipACL makes the server ignore all ACLs.
func SkipACL() Option {
	return func(c *config) { c.lines = append(c.lines, "skipACL=yes") }
}

// MaxConnections limits the number of connections from one IP address to n. By default, it is
// unlimited.
func MaxConnections(n int) Option {
	return func(c *config) { c.lines = append(c.lines, fmt.Sprintf("maxClientCnxns=%d", n)) }
}

// Words limits the four-letter commands that the server accepts to those in a comma-separated
// list. By default, the server accepts all.
func Words(list string) Option {
	return func(c *config) { c.lines = append(c.lines, "4lw.commands.whitelist="+list) }
}

// ReadOnlyEnsemble makes the server one of two members of an ensemble. The other member, which
// Server.Peer returns, is not started. Without a majority, the server has no data, and serves only
// clients that accept read-only mode.
//
// After Peer().Restart(), the server has a majority and accepts writes. About 3 s after
// Peer().Stop(), it is read-only again.
func ReadOnlyEnsemble() Option { return func(c *config) { c.readOnly, c.members = true, 2 } }

// Ticks sets the ZooKeeper settings tickTime (in milliseconds), initLimit and syncLimit (in
// ticks). initLimit is the time that a member has to join its leader, and syncLimit the time that
// it has to reply to the leader. Clients get session timeouts from 2 to 20 ticks.
func Ticks(tickTime, initLimit, syncLimit int) Option {
	return func(c *config) {
		c.lines = append(c.lines,
			fmt.Sprintf("tickTime=%d\ninitLimit=%d\nsyncLimit=%d\nminSessionTimeout=%d\nmaxSessionTimeout=%d",
				tickTime, initLimit, syncLimit, 2*tickTime, 20*tickTime))
	}
}

// Heap sets the maximum heap size of the server's Java virtual machine, in MiB. The default is
// 256.
func Heap(mb int) Option { return func(c *config) { c.heapMB = mb } }

// JavaProperty sets a system property of the server's Java virtual machine, such as
// "jute.maxbuffer".
func JavaProperty(key, value string) Option {
	return func(c *config) { c.props = append(c.props, key+"="+value) }
}

// Environment adds variables of the form NAME=VALUE to the environment of the server.
func Environment(vars ...string) Option {
	return func(c *config) { c.env = append(c.env, vars...) }
}

// javaArgs returns the arguments for java to run a server with this configuration. cfgPath is the
// path of the server's zoo.cfg.
func (c config) javaArgs(cfgPath string) []string {
	args := []string{
		"-Xms16m", "-Xmx" + strconv.Itoa(c.heapMB) + "m", "-XX:-UsePerfData",
		"-Djava.net.preferIPv4Stack=true",
		"-Dzookeeper.jmx.log4j.disable=true",
		"-Dzookeeper.admin.enableServer=false",
		"-Dzookeeper.forceSync=no",
		"-Dzookeeper.preAllocSize=64", // size of each transaction log in KiB, instead of 64 MiB
		// By default, a server deletes empty containers every minute. It might then delete a lock's
		// folder after a test has released the lock, but before the test checks the folder.
		"-Dznode.container.checkIntervalMs=3600000",
		"-Dorg.slf4j.simpleLogger.showDateTime=true",
		"-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
	}
	if !c.production {
		args = append(args, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
	}
	if archive := classArchive(); archive != "" && !c.production {
		// With the first option, Java ignores the archive if another version of Java created it.
		args = append(args, "-XX:+IgnoreUnrecognizedVMOptions", "-Xshare:auto", "-XX:SharedArchiveFile="+archive)
	}
	if c.readOnly {
		args = append(args, "-Dreadonlymode.enabled=true")
	}
	for _, p := range c.props {
		args = append(args, "-D"+p)
	}
	return append(args, "-cp", c.classPath(), "org.apache.zookeeper.server.quorum.QuorumPeerMain", cfgPath)
}

// classArchive returns the path of the Java class archive that .ci/archive-classes creates, or an
// empty string if there is none. With this archive, a server starts in a quarter less time.
var classArchive = sync.OnceValue(func() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "" // there is no home directory, so there is no archive
	}
	archive := filepath.Join(dir, "zksh-tests", "zookeeper.jsa")
	if _, err := os.Stat(archive); err != nil {
		return ""
	}
	return archive
})

// nettyJars lists the jars of Netty that a server needs for TLS. They must be in the class path,
// because the manifest of zookeeper.jar does not list all of them.
var nettyJars = strings.Fields("buffer codec common handler resolver transport transport-native-epoll " +
	"transport-native-unix-common")

func nettyJar(name string) string { return "/usr/share/java/netty-" + name + ".jar" }

func (c config) classPath() string {
	path := classPath
	if c.secure {
		for _, jar := range nettyJars {
			path += ":" + nettyJar(jar)
		}
	}
	return path
}

// ZkCliPath returns the Java class path for zkCli, including the jars that it needs for TLS.
func ZkCliPath() string { return config{secure: true}.classPath() }

// A member is a server of an ensemble, with its id and its ports.
type member struct {
	id                               int
	client, quorum, election, secure int // port numbers
}

// zooCfg returns the contents of zoo.cfg for the server self, whose files are below dir. all
// contains the members of the ensemble, including self.
func (c config) zooCfg(dir string, self member, all []member) string {
	lines := []string{
		// Use a short tick, so that sessions expire quickly: they expire only at the end of a tick.
		"tickTime=500",
		"minSessionTimeout=500",
		"maxSessionTimeout=60000",
		"initLimit=20",
		"syncLimit=10",
		"dataDir=" + filepath.Join(dir, "data"),
		"dataLogDir=" + filepath.Join(dir, "log"),
		"maxClientCnxns=0",
		"extendedTypesEnabled=true",
		"4lw.commands.whitelist=*",
	}
	if c.quorum || c.readOnly {
		lines = append(lines, "standaloneEnabled=false", "reconfigEnabled=true")
		for _, m := range all {
			if c.view != nil && m.id != self.id {
				m = c.view(self, m)
			}
			lines = append(lines, fmt.Sprintf("server.%d=127.0.0.1:%d:%d:participant;127.0.0.1:%d",
				m.id, m.quorum, m.election, m.client))
		}
	} else {
		lines = append(lines, "clientPortAddress=127.0.0.1", fmt.Sprintf("clientPort=%d", self.client))
	}
	if c.readOnly {
		// Without a majority, clients can open only local sessions. When there is a majority, the
		// server upgrades such a session as soon as it creates an ephemeral node.
		lines = append(lines, "localSessionsEnabled=true", "localSessionsUpgradingEnabled=true")
	}
	if c.secure {
		lines = append(lines, "secureClientPortAddress=127.0.0.1", fmt.Sprintf("secureClientPort=%d", self.secure))
	}
	return strings.Join(append(lines, c.lines...), "\n") + "\n"
}
