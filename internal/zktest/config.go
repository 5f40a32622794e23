package zktest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// An Option changes the configuration of a server.
type Option func(*config)

// config is a server's configuration.
type config struct {
	heapMB   int
	props    []string // Java system properties, key=value
	lines    []string // additional lines of zoo.cfg
	members  int      // number of members of the ensemble
	quorum   bool
	readOnly bool
	secure   bool // has a port for TLS as well

	// view returns the member other with the ports that member self connects to. If it is
	// nil, these are other's own ports.
	view func(self, other member) member
}

func newConfig(opts []Option) config {
	c := config{heapMB: 256, members: 1}
	for _, opt := range opts {
		opt(&c)
	}
	return c
}

// EnforceQuota makes the server reject writes over a quota. By default it only logs them.
func EnforceQuota() Option {
	return func(c *config) { c.lines = append(c.lines, "enforceQuota=true") }
}

// Quorum makes the server a replicated ensemble of one, with reconfiguration
// enabled. Add SkipACL to reconfigure without the super user.
func Quorum() Option { return func(c *config) { c.quorum = true } }

// Secure adds a port for TLS, whose address Server.Secure returns. The server uses the
// certificate and key in the PEM file own, and requires client certificates that are signed
// by the authority in the PEM file authority.
func Secure(own, authority string) Option {
	return func(c *config) {
		c.secure = true
		c.lines = append(c.lines,
			"serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
			"authProvider.x509=org.apache.zookeeper.server.auth.X509AuthenticationProvider",
			"ssl.keyStore.location="+own, "ssl.keyStore.type=PEM",
			"ssl.trustStore.location="+authority, "ssl.trustStore.type=PEM",
			"ssl.enabledProtocols=TLSv1.2,TLSv1.3", "ssl.protocol=TLSv1.3",
			"ssl.ciphersuites=TLS_AES_128_GCM_SHA256,TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256")
	}
}

// Line adds a line to zoo.cfg.
func Line(line string) Option {
	return func(c *config) { c.lines = append(c.lines, line) }
}

// SkipACL makes the server ignore ACLs.
func SkipACL() Option {
	return func(c *config) { c.lines = append(c.lines, "skipACL=yes") }
}

// MaxConnections limits the number of connections from one address. By default there is
// no limit.
func MaxConnections(n int) Option {
	return func(c *config) { c.lines = append(c.lines, fmt.Sprintf("maxClientCnxns=%d", n)) }
}

// Words limits the four-letter commands that the server answers to a comma-separated
// list. By default it answers all.
func Words(list string) Option {
	return func(c *config) { c.lines = append(c.lines, "4lw.commands.whitelist="+list) }
}

// ReadOnlyEnsemble makes the server one of two members, of which the other does not run.
// Without a majority, the server is empty and serves only clients that accept read-only
// mode. Peer().Restart() establishes a majority, so that a test can write data.
// Peer().Stop() ends it again, and some 3 s later the server is read-only.
func ReadOnlyEnsemble() Option { return func(c *config) { c.readOnly, c.members = true, 2 } }

// Ticks sets the server's tick in milliseconds, and the limits for members to join and to
// answer, in ticks. Session timeouts are from 2 to 20 ticks.
func Ticks(tickTime, initLimit, syncLimit int) Option {
	return func(c *config) {
		c.lines = append(c.lines, fmt.Sprintf("tickTime=%d\ninitLimit=%d\nsyncLimit=%d\nminSessionTimeout=%d\nmaxSessionTimeout=%d",
			tickTime, initLimit, syncLimit, 2*tickTime, 20*tickTime))
	}
}

// Heap sets the maximum heap of the server's Java virtual machine in MiB, by default 256.
func Heap(mb int) Option { return func(c *config) { c.heapMB = mb } }

// JavaProperty sets a Java system property, such as "jute.maxbuffer".
func JavaProperty(key, value string) Option {
	return func(c *config) { c.props = append(c.props, key+"="+value) }
}

// javaArgs returns the arguments of java for a server with this configuration.
func (c config) javaArgs(cfgPath string) []string {
	args := []string{
		"-Xms16m", "-Xmx" + strconv.Itoa(c.heapMB) + "m",
		// A server that runs for seconds benefits from a quick start, not from the
		// optimizing compiler or a parallel garbage collector.
		"-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData",
		"-Djava.net.preferIPv4Stack=true",
		"-Dzookeeper.jmx.log4j.disable=true",
		"-Dzookeeper.admin.enableServer=false",
		"-Dzookeeper.forceSync=no",
		"-Dzookeeper.preAllocSize=64", // KiB for each transaction log; the default is 64 MiB
		// By default the server deletes empty containers each minute, which may happen
		// between a test's release of a lock and its check of the lock's folder.
		"-Dznode.container.checkIntervalMs=3600000",
		"-Dorg.slf4j.simpleLogger.showDateTime=true",
		"-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
	}
	if archive := classArchive(); archive != "" {
		// A different version of java ignores the archive.
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

// classArchive returns the path of the archive that .ci/archive-classes creates, or "" if it
// does not exist. With it, a server needs a fourth less time to start.
var classArchive = sync.OnceValue(func() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "" // without a home directory, there is no archive
	}
	archive := filepath.Join(dir, "zksh-tests", "zookeeper.jsa")
	if _, err := os.Stat(archive); err != nil {
		return ""
	}
	return archive
})

// nettyJars lists the jars that TLS needs. The manifest of the server's jar does not name all
// of them.
var nettyJars = strings.Fields("buffer codec common handler resolver transport transport-native-epoll transport-native-unix-common")

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

// ZkCliPath returns the class path of zkCli, including the jars for TLS.
func ZkCliPath() string { return config{secure: true}.classPath() }

// A member is the id and the ports of a server in an ensemble.
type member struct {
	id                               int
	client, quorum, election, secure int // ports
}

// zooCfg returns the text of zoo.cfg for the member self of an ensemble. Its data are below
// dir.
func (c config) zooCfg(dir string, self member, all []member) string {
	lines := []string{
		// Sessions expire on whole ticks. The shortest session timeout is one tick.
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
		// Without a majority, only local sessions can be created. Upgrading allows them to
		// own ephemeral nodes once there is a majority.
		lines = append(lines, "localSessionsEnabled=true", "localSessionsUpgradingEnabled=true")
	}
	if c.secure {
		lines = append(lines, "secureClientPortAddress=127.0.0.1", fmt.Sprintf("secureClientPort=%d", self.secure))
	}
	return strings.Join(append(lines, c.lines...), "\n") + "\n"
}
