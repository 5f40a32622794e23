package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// speaking returns servers that answer srvr with a mode and a zxid, by address. An empty mode means
// that the server has no quorum.
func speaking(modes map[string]string) func(context.Context, string, string) (string, error) {
	return func(_ context.Context, addr, word string) (string, error) {
		mode, there := modes[addr]
		switch {
		case !there:
			return "", syscall.ECONNREFUSED
		case word == "mntr":
			return "mntr " + notAllowed, nil
		case mode == "":
			return "This ZooKeeper instance is not currently serving requests\n", nil
		}
		mode, zxid, _ := strings.Cut(mode, " ")
		return fmt.Sprintf("Zookeeper version: 3.8.0-5a02, built on 2022\nLatency min/avg/max: 0/0.5/9\nReceived: 7\nConnections: 4\nZxid: 0x%s\nMode: %s\nNode count: 5\n", zxid, mode), nil
	}
}

// There is a quorum if more than half of the voters serve, one of them as the leader, whichever
// members the connect string names.
func TestQuorum(t *testing.T) {
	const three = "server.1=a:2:3:participant;1\nserver.2=b:2:3:participant;1\nserver.3=c:2:3:participant;1\n"
	for _, c := range []struct {
		what, hosts, config string
		modes               map[string]string
		quorum              bool
		members, answered   int
	}{
		{"all", "a:1", three, map[string]string{"a:1": "follower 1", "b:1": "leader 1", "c:1": "follower 1"}, true, 3, 3},
		{"one is down", "a:1,b:1,c:1", three, map[string]string{"a:1": "follower 1", "b:1": "leader 1"}, true, 3, 2},
		{"two are down", "a:1", three, map[string]string{"b:1": "leader 1"}, false, 3, 1},
		{"no leader", "a:1", three, map[string]string{"a:1": "follower 1", "c:1": "follower 1"}, false, 3, 2},
		{"none serves", "a:1", three, map[string]string{"a:1": "", "b:1": "", "c:1": ""}, false, 3, 0},
		{"read-only", "a:1", three, map[string]string{"a:1": "read-only 1", "b:1": "read-only 1"}, false, 3, 2},
		{"an observer has no vote", "a:1", three + "server.4=d:2:3:observer;1\n",
			map[string]string{"a:1": "leader 1", "b:1": "follower 1", "d:1": "observer 1"}, true, 4, 3},
		{"nor does it make up for one", "a:1", three + "server.4=d:2:3:observer;1\n",
			map[string]string{"a:1": "leader 1", "d:1": "observer 1"}, false, 4, 2},
		{"alone", "a:1", "", map[string]string{"a:1": "standalone 1"}, true, 1, 1},
		{"no configuration", "a:1,b:1,c:1", "refused", map[string]string{"a:1": "leader 1", "b:1": "follower 1"}, true, 3, 2},
		{"nobody", "a:1", "refused", nil, false, 1, 0},
	} {
		named := strings.NewReplacer("a:", "127.0.0.1:", "b:", "127.0.0.2:", "c:", "127.0.0.3:", "d:", "127.0.0.4:")
		modes := map[string]string{}
		for addr, mode := range c.modes {
			modes[named.Replace(addr)] = mode
		}
		f := &fake{hosts: strings.Split(named.Replace(c.hosts), ","), config: named.Replace(c.config), word: speaking(modes)}
		if c.config == "refused" {
			f.configErr = errors.New("no session")
		}
		s := FindServers(t.Context(), f)
		if s.Quorum != c.quorum || s.Members != c.members || s.Answered != c.answered {
			t.Errorf("%s: %+v", c.what, s)
		}
	}
}

func TestServersTable(t *testing.T) {
	f := &fake{hosts: []string{"a:1", "b:1", "c:1", "d:1", "e:1"}, word: speaking(map[string]string{"a:1": "leader 200000005", "b:1": "follower 200000003", "c:1": "follower 1000000ff", "d:1": ""})}
	s := FindServers(t.Context(), f)
	want := [][]string{
		{"a:1", "leader", "3.8.0", "0x200000005", "0", "0/0.5/9", "4", "-"},
		{"b:1", "follower", "3.8.0", "0x200000003", "2", "0/0.5/9", "4", "-"},
		{"c:1", "follower", "3.8.0", "0x1000000ff", "an epoch", "0/0.5/9", "4", "-"},
		{"d:1", "This ZooKeeper instance is not currently serving requests", "-", "-", "-", "-", "-", "-"},
		{"e:1", "no server is listening", "-", "-", "-", "-", "-", "-"},
	}
	if diff := cmp.Diff(want, s.Table().Rows); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"watches: the four-letter command mntr is not allowed; add it to 4lw.commands.whitelist on the servers"}, s.NotTold); diff != "" {
		t.Error(diff)
	}
	var text strings.Builder
	if err := s.FitText(&text, 60); err != nil || !strings.Contains(text.String(), "\nquorum: 3 of 5 servers answer\n") {
		t.Error(err, text.String())
	}
	for l := range strings.Lines(text.String()) {
		if len(l) > 60 {
			t.Errorf("%q", l)
		}
	}
}

func TestParseMembers(t *testing.T) {
	config := "server.1=zk1:2888:3888:participant;0.0.0.0:2181\nserver.2=zk2:2888:3888:observer;10.0.0.2:2182\nserver.3=[::1]:2888:3888;2183\n" +
		"server.4=zk4:2888:3888:participant\nserver.5=zk5:1:2|zk5b:1:2:participant;[::]:2185\nversion=100000000\n"
	want := []member{{"zk1:2181", false}, {"10.0.0.2:2182", true}, {"[::1]:2183", false}, {"zk4:7", false}, {"zk5:2185", false}}
	if got := parseMembers(config, "7"); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
}
