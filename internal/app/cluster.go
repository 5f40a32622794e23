package app

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/zksh/zksh/internal/secure"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/shell"
)

// A cluster is a section of the configuration file, with the settings for one ensemble. It uses
// only the fields of Options that concern an ensemble.
type cluster struct {
	Options
	name     string // name of the cluster, with a leading @
	location string // position at which the section begins, in the form FILE:LINE
}

// where returns the phrase that says in which section of the configuration file a setting is, for
// use in an error message. If c is nil, the setting is outside all sections, and where returns an
// empty string.
func (c *cluster) where() string {
	if c == nil {
		return ""
	}
	return " in the section of a cluster"
}

// newSection adds the section of a cluster that begins with the given line. The section inherits
// the settings timeout and writes that precede all sections, but no settings for authentication. at
// is the position of the line, for error messages.
func (o *Options) newSection(line, at string) (*cluster, error) {
	name, closed := strings.CutSuffix(line[1:], "]")
	if !closed || name == "" || strings.ContainsAny(name, " \t/,:[]\"'@") {
		return nil, fmt.Errorf("%s: invalid section %q; write [NAME] without spaces, quotes, "+
			"brackets or the characters / , : @", at, line)
	}
	c := &cluster{name: zkconn.ClusterMark + name, location: at}
	if earlier := o.cluster(c.name); earlier != nil {
		return nil, fmt.Errorf("%s: duplicate section [%s]; the first one is at %s", at, name, earlier.location)
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

// useCluster copies the settings of the cluster with the given name to o.
func (o *Options) useCluster(name string) error {
	c := o.cluster(name)
	if c == nil {
		return o.unknownCluster(name)
	}
	o.Cluster, o.Server, o.Timeout, o.Writes = c.name, c.Server, c.Timeout, c.Writes
	o.AuthFile, o.AuthCommand, o.Secure, o.MaxRequest = c.AuthFile, c.AuthCommand, c.Secure, c.MaxRequest
	if !o.proxyGiven {
		o.Proxy = c.Proxy
	}
	return nil
}

func (o *Options) unknownCluster(name string) error {
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

// Connection returns the session configuration that the options specify.
func (o *Options) Connection() zkconn.Config {
	cfg := zkconn.Config{Servers: o.Server, Timeout: o.Timeout, ReadOnly: o.ReadOnly, Auth: o.Auth, Secure: o.Secured,
		Cluster: o.Cluster, Writes: o.Writes, Resolve: o.resolve, MaxRequest: o.MaxRequest, Proxy: o.Proxy}
	if o.Sandbox {
		cfg.Proxy = ""
	}
	if o.superuser.isOf(o.Server) {
		cfg.Auth = append(slices.Clone(cfg.Auth), o.superuser.credential)
	}
	// jute.maxbuffer in the client configuration is also a limit for replies, so it may be too
	// small
	if cfg.MaxRequest == 0 {
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

// resolve returns the configuration of a session with the servers in spec. If spec is the name of a
// cluster (@NAME), the settings of its section apply. If spec is a connect string, the settings
// before the first section apply, but zksh does not use SASL. The method resolve is the value of
// the field Resolve of zkconn.Config.
func (o *Options) resolve(ctx context.Context, spec string) (zkconn.Config, error) {
	to := *o
	to.Sandbox = false
	if strings.HasPrefix(spec, zkconn.ClusterMark) {
		if err := to.useCluster(spec); err != nil {
			return zkconn.Config{}, err
		}
	} else {
		to.AuthCommand = ""
		to.Cluster, to.Server, to.AuthFile, to.Timeout, to.Writes = "", spec, "", o.topLevel.timeout, o.topLevel.writes
		to.MaxRequest = o.topLevel.maxRequest
		if !o.proxyGiven {
			to.Proxy = o.topLevel.proxy
		}
		if o.Cluster != "" {
			to.Secure = o.topLevel.secure
		}
	}
	if o.timeoutGiven > 0 {
		to.Timeout = o.timeoutGiven
	}
	if o.maxRequestGiven > 0 {
		to.MaxRequest = o.maxRequestGiven
	}
	err := to.readSecrets()
	if err == nil {
		err = to.Authenticate(ctx)
	}
	if to.Cluster == "" {
		to.Secured.SASL = nil
	}
	return to.Connection(), err
}

// topLevelSettings contains the settings before the first section of the configuration file that
// apply to a server given by a connect string.
type topLevelSettings struct {
	timeout time.Duration
	writes  zkconn.Writes
	secure  secure.Settings

	maxRequest int
	proxy      string
}

// Clusters returns the names and colours of all clusters in the configuration file.
func (o *Options) Clusters() (list []shell.Cluster) {
	for _, c := range o.clusters {
		list = append(list, shell.Cluster{Name: c.name, Color: c.colour})
	}
	return list
}
