package cluster

import (
	"context"
	"net"
	"slices"
	"strings"
)

// A member is a server in the ensemble's configuration.
type member struct {
	addr     string // address to which clients connect
	observer bool
}

// membersNotReported is a reason why a result may be incomplete although all known servers
// answered.
const membersNotReported = "the ensemble does not report its members"

// findMembers returns the servers to ask. addrs contains the addresses in the connect string, and
// those of other members in the ensemble's configuration. members contains all members in the
// configuration; a stand-alone server has none. configured reports whether the configuration could
// be read.
func findMembers(ctx context.Context, e Ensemble) (addrs []string, members []member, configured bool) {
	addrs = e.Hosts()
	reading, cancel := context.WithTimeout(ctx, clientsLimit) // Config may wait until the client is connected
	defer cancel()
	config, err := e.Config(reading)
	if err != nil {
		return addrs, nil, false
	}
	_, port, _ := net.SplitHostPort(addrs[0])
	members = parseMembers(config, port)
	if len(addrs) >= len(members) {
		return addrs, members, true
	}
	known := map[string]bool{}
	for _, a := range addrs {
		for _, r := range resolved(reading, e, a) {
			known[r] = true
		}
	}
	for _, m := range members {
		if !slices.ContainsFunc(resolved(reading, e, m.addr), func(r string) bool { return known[r] }) {
			addrs = append(addrs, m.addr)
		}
	}
	return addrs, members, true
}

// resolved returns addr itself, followed by each IP address of its host, with the same port.
func resolved(ctx context.Context, e Ensemble, addr string) []string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return []string{addr}
	}
	all := []string{addr}
	ips, _ := e.LookupHost(ctx, host) // if the lookup fails, only addr itself is returned
	for _, ip := range ips {
		all = append(all, net.JoinHostPort(ip, port))
	}
	return all
}

// parseMembers parses lines like server.1=zk1:2888:3888:participant;0.0.0.0:2181. If a line has no
// client address, parseMembers uses the member's host and the given port.
func parseMembers(config, port string) (members []member) {
	for l := range strings.Lines(config) {
		key, value, _ := strings.Cut(strings.TrimSpace(l), "=")
		if !strings.HasPrefix(key, "server.") {
			continue
		}
		quorum, client, _ := strings.Cut(value, ";")
		// A member may have several addresses; use the first.
		quorum, _, _ = strings.Cut(quorum, "|")
		host, _, _ := strings.Cut(quorum, ":")
		if v6, _, ok := strings.Cut(strings.TrimPrefix(quorum, "["), "]"); ok {
			host = v6
		}
		m := member{addr: net.JoinHostPort(host, port), observer: strings.HasSuffix(quorum, ":observer")}
		if at, p, err := net.SplitHostPort(client); err == nil {
			if ip := net.ParseIP(at); at != "" && (ip == nil || !ip.IsUnspecified()) {
				host = at
			}
			m.addr = net.JoinHostPort(host, p)
		} else if client != "" {
			m.addr = net.JoinHostPort(host, client)
		}
		members = append(members, m)
	}
	return members
}
