package zkconn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

// SRVScheme is the beginning of a connect string whose servers are in a DNS SRV record:
// dns-srv://NAME[/chroot], as in ZooKeeper 3.10 (ZOOKEEPER-4982). NAME is the name of the record,
// such as _zookeeper._tcp.example.com.
const SRVScheme = "dns-srv://"

// srvTimeout is the time limit for looking up the servers.
const srvTimeout = 5 * time.Second

// LookUpServers returns the connect string with the servers that the DNS SRV record in spec lists.
// Like the Java client, it ignores their priorities and weights. It also ignores records without a
// valid target and port. If spec does not have the form dns-srv://NAME[/chroot], LookUpServers
// returns it unchanged.
func LookUpServers(ctx context.Context, resolver *net.Resolver, spec string) (string, error) {
	s, err := ParseServers(spec)
	if err != nil || s.srv == "" {
		return spec, err
	}
	ctx, cancel := context.WithTimeout(ctx, srvTimeout)
	defer cancel()
	_, records, err := resolver.LookupSRV(ctx, "", "", s.srv)
	if len(records) > 0 {
		err = nil // other records have invalid names, and are ignored
	}
	records = slices.DeleteFunc(records, func(r *net.SRV) bool { return r.Target == "." || r.Port == 0 })
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns) && dns.IsNotFound || err == nil && len(records) == 0:
		return "", fmt.Errorf("server %q: the DNS server has no SRV record of a server with the name %s; specify the servers as host[:port][,host[:port]…][/chroot]", spec, s.srv)
	case err != nil:
		return "", fmt.Errorf("server %q: the DNS SRV record cannot be read: %w", spec, err)
	}
	hosts := make([]string, len(records))
	for i, r := range records {
		hosts[i] = net.JoinHostPort(strings.TrimSuffix(r.Target, "."), strconv.Itoa(int(r.Port)))
	}
	slices.Sort(hosts) // so that the same record always results in the same connect string
	return strings.Join(slices.Compact(hosts), ",") + s.Chroot, nil
}
