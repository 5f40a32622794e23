package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// bordersOf lists, for the first ticket of each known bug, releases at both sides of each border
// of the affected range.
var bordersOf = map[int]struct{ affected, free string }{
	2355: {"3.3.6 3.4.0 3.4.10 3.5.0 3.5.3", "3.4.11 3.4.14 3.5.4 3.5.10 3.6.0 3.7.0 3.9.5"},
	3249: {"3.4.0 3.4.14 3.5.0 3.5.10", "3.6.0 3.6.1 3.7.0 3.8.0"},
	4925: {"3.9.3", "3.8.6 3.9.2 3.9.4 3.10.0"},
	3144: {"3.4.0 3.4.14 3.5.0 3.5.10", "3.6.0 3.7.0"},
	3471: {"3.5.0 3.5.10", "3.4.14 3.6.0 3.7.0"},
	2926: {"3.4.0 3.4.14 3.5.0 3.5.10", "3.6.0 3.7.0"},
	3125: {"3.4.14 3.5.0 3.5.4", "3.5.5 3.5.10 3.6.0"},
	2886: {"3.4.14 3.5.10", "3.6.0 3.7.0"},
	1818: {"3.4.14 3.5.4", "3.5.5 3.6.0"},
	3644: {"3.4.14 3.5.6", "3.5.7 3.6.0"},
	3911: {"3.4.14 3.5.8 3.5.9 3.6.0 3.6.2", "3.5.10 3.6.3 3.6.4 3.7.0"},
	3642: {"3.4.14 3.5.9 3.6.0 3.6.2", "3.5.10 3.6.3 3.7.0"},
	4785: {"3.6.0 3.6.4 3.7.0 3.7.2 3.8.0 3.8.4 3.9.0 3.9.1", "3.4.14 3.5.10 3.8.5 3.8.6 3.9.2 3.9.5 3.10.0"},
	4394: {"3.4.14 3.5.10 3.6.4 3.7.2 3.8.0 3.8.6 3.9.0 3.9.2", "3.9.3 3.9.5 3.10.0"},
	4846: {"3.4.14 3.6.4 3.7.2 3.8.4 3.9.0 3.9.3", "3.8.5 3.8.6 3.9.4 3.10.0"},
}

func TestBorders(t *testing.T) {
	if len(bordersOf) != len(knownBugs) {
		t.Errorf("%d bugs, but borders of %d", len(knownBugs), len(bordersOf))
	}
	for _, b := range knownBugs {
		has := func(version string) bool {
			return slices.ContainsFunc(bugsIn(version), func(found Bug) bool { return found.Tickets[0] == fmt.Sprintf("ZOOKEEPER-%d", b.tickets[0]) })
		}
		borders, ok := bordersOf[b.tickets[0]]
		if !ok {
			t.Errorf("no borders of %d", b.tickets[0])
		}
		for version := range strings.FieldsSeq(borders.affected) {
			if !has(version) {
				t.Errorf("%s is not affected by %d", version, b.tickets[0])
			}
		}
		for version := range strings.FieldsSeq(borders.free) {
			if has(version) {
				t.Errorf("%s is affected by %d", version, b.tickets[0])
			}
		}
	}
}

// FixedIn lists only releases that are later than the affected version.
func TestFixedIn(t *testing.T) {
	for version, want := range map[string]string{
		"3.4.10": "3.4.11, 3.5.4, 3.6.0", "3.5.3": "3.5.4, 3.6.0",
	} {
		bugs := bugsIn(version)
		if got := strings.Join(bugs[0].FixedIn, ", "); got != want || bugs[0].Tickets[0] != "ZOOKEEPER-2355" || !bugs[0].BreaksLocks {
			t.Errorf("%s: %+v, want a fix in %s", version, bugs[0], want)
		}
	}
	if got, want := bugsIn("3.9.3")[0].String(), "ZOOKEEPER-4925: data can be lost after the leader changes; fixed in 3.9.4"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for version, breaks := range map[string]int{"3.4.10": 2, "3.4.14": 1, "3.5.10": 1, "3.6.0": 0, "3.8.0": 0, "3.9.2": 0, "3.9.3": 1, "3.9.4": 0} {
		bugs := bugsIn(version)
		if n := len(slices.DeleteFunc(bugs, func(b Bug) bool { return !b.BreaksLocks })); n != breaks {
			t.Errorf("%s: %d bugs break locks, want %d", version, n, breaks)
		}
	}
}

func TestUnknownVersions(t *testing.T) {
	for _, version := range []string{"", "3", "3.5", "3.5.", "3.5.x", "3.5.-1", "3.5.3.1", "v24.3.1.1", "99999999999.0.0"} {
		if bugs := bugsIn(version); bugs != nil {
			t.Errorf("%q: %v", version, bugs)
		}
	}
}

// running returns servers that answer srvr with these first lines, by address.
func running(lines map[string]string) func(context.Context, string, string) (string, error) {
	return func(_ context.Context, addr, word string) (string, error) {
		if word == "srvr" {
			return lines[addr] + "\nZxid: 0x1\nMode: follower\n", nil
		}
		return "", nil
	}
}

func TestServersBugs(t *testing.T) {
	s := FindServers(t.Context(), &fake{hosts: []string{"zk1:2181", "zk2:2181", "zk3:2181", "zk4:2181", "k1:9181", "r1:8101", "u1:2181"}, word: running(map[string]string{
		"zk1:2181": "Zookeeper version: 3.9.3-c26634f34490bb0ea7a09cc51e05ede3b4e320ee, built on 2024-10-17 23:21 UTC",
		"zk2:2181": "Zookeeper version: 3.9.2-e454e8c7283100c7caec6dcae2bc82aaecb63023, built on 2024-02-12 20:59 UTC",
		"zk3:2181": "Zookeeper version: 3.9.3-c26634f34490bb0ea7a09cc51e05ede3b4e320ee, built on 2024-10-17 23:21 UTC",
		"zk4:2181": "Zookeeper version: 3.9.4-fe9a9e2d8bd5eb1d5ef2e7f2e8f0a2c8b5b4b1a5, built on 2025-08-19 19:53 UTC",
		"k1:9181":  "ClickHouse Keeper version: 3.4.10",
		"r1:8101":  "RaftKeeper version: RaftKeeper 3.4.10",
		"u1:2181":  "Zookeeper version: unknown, built on 2025-08-19 19:53 UTC",
	})})
	var affected []string
	for _, v := range s.Servers {
		if len(v.Bugs) > 0 {
			affected = append(affected, v.Addr)
		}
	}
	if diff := cmp.Diff([]string{"zk1:2181", "zk2:2181", "zk3:2181"}, affected); diff != "" {
		t.Error(diff)
	}
	var text strings.Builder
	if err := s.FitText(&text, 60); err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(text.String(), "servers answer\n")
	want := "known bugs (as of " + bugsAsOf + `):
ZooKeeper 3.9.3 on zk1:2181, zk3:2181
  ZOOKEEPER-4925: data can be lost after the leader
    changes; fixed in 3.9.4
  ZOOKEEPER-4846: a server can fail to load its database,
    because an ACL is missing; fixed in 3.9.4
ZooKeeper 3.9.2 on zk2:2181
  ZOOKEEPER-4394, ZOOKEEPER-4409, ZOOKEEPER-4712: servers
    can disagree on the data, and ephemeral znodes can
    remain; fixed in 3.9.3
  ZOOKEEPER-4846: a server can fail to load its database,
    because an ACL is missing; fixed in 3.9.4
`
	if diff := cmp.Diff(want, list); diff != "" {
		t.Error(diff)
	}
	for l := range strings.Lines(text.String()) {
		if len(l) > 60 {
			t.Errorf("%q", l)
		}
	}
	data, err := json.Marshal(s.Servers[0].Bugs[0])
	if want := `{"tickets":["ZOOKEEPER-4925"],"effect":"data can be lost after the leader changes","breaksLocks":true,"fixedIn":["3.9.4"]}`; err != nil || string(data) != want {
		t.Errorf("%s, %v", data, err)
	}
}
