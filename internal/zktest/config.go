package zktest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// Option changes how Start sets up a server.
type Option func(*config)

// config is what the options add up to.
type config struct {
	heapMB   int
	props    []string // key=value, for -D
	lines    []string // of zoo.cfg
	members  int      // of the ensemble
	quorum   bool
	readOnly bool
	secure   bool // a port with TLS as well

	// view is how one member sees another: its ports. Nil: as they are.
	view func(self, other member) member
}

func newConfig(opts []Option) config {
	c := config{heapMB: 256, members: 1}
	for _, opt := range opts {
		opt(&c)
	}
	return c
}

// EnforceQuota makes the server refuse writes over a quota; by default it only
// logs them.
func EnforceQuota() Option {
	return func(c *config) { c.lines = append(c.lines, "enforceQuota=true") }
}

// Quorum makes the server a replicated ensemble of one, with reconfiguration
// enabled. Add SkipACL to reconfigure without the super user.
func Quorum() Option { return func(c *config) { c.quorum = true } }

// Secure gives the server another port, with TLS, which Server.Secure names. It shows
// the certificate of one PEM file, with its key, and wants one of the authority in
// another.
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

// SkipACL makes the server check no ACL.
func SkipACL() Option {
	return func(c *config) { c.lines = append(c.lines, "skipACL=yes") }
}

// MaxConnections is how many connections of one address the server takes, any
// number by default.
func MaxConnections(n int) Option {
	return func(c *config) { c.lines = append(c.lines, fmt.Sprintf("maxClientCnxns=%d", n)) }
}

// Words is the list of four-letter words that the server answers, all by default.
func Words(list string) Option {
	return func(c *config) { c.lines = append(c.lines, "4lw.commands.whitelist="+list) }
}

// ReadOnlyEnsemble makes the server one of two members of which the other does
// not run: without a majority it serves clients that accept read-only mode, and
// is empty. Peer().Restart() makes the majority, for writing something to read;
// Peer().Stop() takes it away again, and some 3 s later the server is read-only.
func ReadOnlyEnsemble() Option { return func(c *config) { c.readOnly, c.members = true, 2 } }

// Ticks sets the unit of the server's time, in milliseconds, and how many of them
// a member may take to join and to answer. Sessions last from 2 ticks to 20.
func Ticks(tickTime, initLimit, syncLimit int) Option {
	return func(c *config) {
		c.lines = append(c.lines, fmt.Sprintf("tickTime=%d\ninitLimit=%d\nsyncLimit=%d\nminSessionTimeout=%d\nmaxSessionTimeout=%d",
			tickTime, initLimit, syncLimit, 2*tickTime, 20*tickTime))
	}
}

// Heap sets the largest heap of the server's Java machine in MiB, 256 by default.
func Heap(mb int) Option { return func(c *config) { c.heapMB = mb } }

// JavaProperty sets a Java system property, such as "jute.maxbuffer".
func JavaProperty(key, value string) Option {
	return func(c *config) { c.props = append(c.props, key+"="+value) }
}

// javaArgs returns the arguments of java for a server with this configuration.
func (c config) javaArgs(cfgPath string) []string {
	args := []string{
		"-Xms16m", "-Xmx" + strconv.Itoa(c.heapMB) + "m",
		// A server that lives for seconds gains from a quick start, not from
		// the optimising compiler or a parallel collector.
		"-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData",
		"-Djava.net.preferIPv4Stack=true",
		"-Dzookeeper.jmx.log4j.disable=true",
		"-Dzookeeper.admin.enableServer=false",
		"-Dzookeeper.forceSync=no",
		"-Dzookeeper.preAllocSize=64", // KiB; 64 MiB for each log by default
		// By default it looks each minute for containers to remove, and comes once in a
		// while between a test's release of a lock and its look at the lock's folder.
		"-Dznode.container.checkIntervalMs=3600000",
		"-Dorg.slf4j.simpleLogger.showDateTime=true",
		"-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
	}
	if archive := classArchive(); archive != "" {
		// Ignored by a java of which that is not.
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

// classArchive is the file of .ci/archive-classes, which spares a server a fourth of its
// start; "" if there is none.
var classArchive = sync.OnceValue(func() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "" // no home: none was made
	}
	archive := filepath.Join(dir, "zksh-tests", "zookeeper.jsa")
	if _, err := os.Stat(archive); err != nil {
		return ""
	}
	return archive
})

// nettyJars are what TLS needs; the server's manifest does not name all of them.
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

// ZkCliPath is the class path of zkCli, ready for TLS.
func ZkCliPath() string { return config{secure: true}.classPath() }

// member is one server's place in an ensemble.
type member struct {
	id                               int
	client, quorum, election, secure int // ports
}

// zooCfg returns the text of zoo.cfg for the member self of an ensemble, with
// its data in dir.
func (c config) zooCfg(dir string, self member, all []member) string {
	lines := []string{
		// Sessions expire on whole ticks; the shortest timeout is one.
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
		// Without a majority only local sessions can be made. Upgrading lets
		// them own ephemeral nodes once there is one.
		lines = append(lines, "localSessionsEnabled=true", "localSessionsUpgradingEnabled=true")
	}
	if c.secure {
		lines = append(lines, "secureClientPortAddress=127.0.0.1", fmt.Sprintf("secureClientPort=%d", self.secure))
	}
	return strings.Join(append(lines, c.lines...), "\n") + "\n"
}
