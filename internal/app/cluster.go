package app

import (
	"fmt"
	"strings"
	"time"

	"github.com/zksh/zksh/internal/secure"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/shell"
)

// cluster is a section of the configuration file. Of its options only those that
// belong to an ensemble are used.
type cluster struct {
	Options
	name string // with the mark
	at   string // where the section begins
}

// of says where a setting was meant to be; it may be asked of nil.
func (c *cluster) of() string {
	if c == nil {
		return ""
	}
	return " in the section of a cluster"
}

// newSection begins a section. It takes the timeout and the writes of what stands
// above, and nothing that could let somebody in.
func (o *Options) newSection(line, at string) (*cluster, error) {
	name, closed := strings.CutSuffix(line[1:], "]")
	if !closed || name == "" || strings.ContainsAny(name, " \t/,:[]\"'@") {
		return nil, fmt.Errorf("%s: invalid section %q; write [NAME] without spaces, quotes, brackets or the characters / , : @", at, line)
	}
	c := &cluster{name: zkconn.ClusterMark + name, at: at}
	if earlier := o.cluster(c.name); earlier != nil {
		return nil, fmt.Errorf("%s: duplicate section [%s]; the first one is at %s", at, name, earlier.at)
	}
	c.Timeout, c.Writes, c.configFile = o.Timeout, o.Writes, o.configFile
	o.clusters = append(o.clusters, c)
	return c, nil
}

func (o *Options) cluster(name string) *cluster {
	for _, c := range o.clusters {
		if c.name == name {
			return c
		}
	}
	return nil
}

// enter takes the options of a cluster for the program's.
func (o *Options) enter(name string) error {
	c := o.cluster(name)
	if c == nil {
		return o.unknown(name)
	}
	o.Cluster, o.Server, o.Timeout, o.Writes = c.name, c.Server, c.Timeout, c.Writes
	o.AuthFile, o.Secure, o.MaxRequest = c.AuthFile, c.Secure, c.MaxRequest
	return nil
}

func (o *Options) unknown(name string) error {
	if len(o.clusters) == 0 {
		return fmt.Errorf("unknown cluster %s; define it in a section [%s] of zksh/config (see help configuration)",
			name, strings.TrimPrefix(name, zkconn.ClusterMark))
	}
	return fmt.Errorf("unknown cluster %s; the clusters are %s", name, strings.Join(o.clusterNames(), ", "))
}

func (o *Options) clusterNames() (names []string) {
	for _, c := range o.clusters {
		names = append(names, c.name)
	}
	return names
}

// Connection is the configuration of a session.
func (o *Options) Connection() zkconn.Config {
	cfg := zkconn.Config{Servers: o.Server, Timeout: o.Timeout, ReadOnly: o.ReadOnly, Auth: o.Auth, Secure: o.Secured,
		Cluster: o.Cluster, Writes: o.Writes, Resolve: o.resolve, MaxRequest: o.MaxRequest}
	if cfg.MaxRequest == 0 { // the client configuration's is of what is read as well, and may be small
		cfg.MaxRequest = max(o.Secured.MaxRequest, zkconn.UsualMaxRequest)
	}
	switch {
	case o.NoWrite:
		cfg.Writes = zkconn.WritesNever
	case o.Yes && cfg.Writes == zkconn.WritesAsk:
		cfg.Writes = zkconn.WritesAllowed
	}
	return cfg
}

// resolve is a zkconn.Config's Resolve: a cluster by its section, and a connect string
// with what was said of no cluster. To such a one nobody is let in by SASL.
func (o *Options) resolve(spec string) (zkconn.Config, error) {
	to := *o
	to.Sandbox = false
	if strings.HasPrefix(spec, zkconn.ClusterMark) {
		if err := to.enter(spec); err != nil {
			return zkconn.Config{}, err
		}
	} else {
		to.Cluster, to.Server, to.AuthFile, to.Timeout, to.Writes = "", spec, "", o.above.timeout, o.above.writes
		to.MaxRequest = o.above.maxRequest
		if o.Cluster != "" {
			to.Secure = o.above.secure
		}
	}
	if o.timeoutGiven > 0 {
		to.Timeout = o.timeoutGiven
	}
	if o.maxRequestGiven > 0 {
		to.MaxRequest = o.maxRequestGiven
	}
	err := to.readSecrets()
	if to.Cluster == "" {
		to.Secured.SASL = nil
	}
	return to.Connection(), err
}

// above is what stands above the sections, and counts for a connect string.
type above struct {
	timeout time.Duration
	writes  zkconn.Writes
	secure  secure.Settings

	maxRequest int
}

// Clusters are the names and colours of the sections.
func (o *Options) Clusters() (list []shell.Cluster) {
	for _, c := range o.clusters {
		list = append(list, shell.Cluster{Name: c.name, Color: c.colour})
	}
	return list
}
