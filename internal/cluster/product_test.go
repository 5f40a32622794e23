package cluster

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestProductOf(t *testing.T) {
	for line, want := range map[string][2]string{
		"Zookeeper version: 3.8.0-5a02, built on 2022":        {"", "3.8.0"},
		"ZooKeeper version: 3.10.0":                           {"", "3.10.0"},
		"ClickHouse Keeper version: v24.3.1.1-lts-1f2e":       {"ClickHouse Keeper", "v24.3.1.1"},
		"RaftKeeper version: RaftKeeper 2.1.0\nLatency: none": {"RaftKeeper", "2.1.0"},
		"This instance is not currently serving requests":     {"", ""},
		"": {"", ""},
	} {
		if product, version := productOf(line); [2]string{product, version} != want {
			t.Errorf("%q: %q %q", line, product, version)
		}
	}
}

func TestParseConsOfOthers(t *testing.T) {
	a := parseCons(" 127.0.0.1:51234(recved=9,sent=9,sid=0x12,lop=Get,est=1795188561000,to=30000)\n" +
		" [::1]:51235(recved=1,sent=0,sid=0x13)\n /[0:0:0:0:0:0:0:1]:51236[1](queued=0,recved=1,sent=0,sid=0x14)\n 127.0.0.1:51237(recved=1,sent=0)\n")
	want := []connection{
		{session: 0x12, addr: "127.0.0.1:51234", since: time.UnixMilli(1795188561000), timeout: 30 * time.Second},
		{session: 0x13, addr: "[::1]:51235"}, {session: 0x14, addr: "[0:0:0:0:0:0:0:1]:51236"},
	}
	if a.err != nil || fmt.Sprint(a.conns) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", a, want)
	}
	if a := parseCons(" 127.0.0.1:51237(recved=1,sent=0)\n"); a.err != nil {
		t.Error(a.err)
	}
}

// Zxids of other servers may be decimal. None of their four-letter commands that change a server
// (rcvr, rclc, ydld, rqld, csnp) is ever sent.
func TestServersOfOthers(t *testing.T) {
	for srvr, want := range map[string][]string{
		"ClickHouse Keeper version: v24.3.1.1-lts\nLatency min/avg/max: 0/1/2\nConnections: 1\nZxid: 0x1f\nMode: leader\n":   {"ClickHouse Keeper v24.3.1.1", "0x1f"},
		"RaftKeeper version: RaftKeeper 2.1.0\nLatency min/avg/max: 0/1/2\nSent : 1\nZxid: 31\nMode: standalone\nother: x\n": {"RaftKeeper 2.1.0", "0x1f"},
	} {
		var mu sync.Mutex
		var words []string
		f := &fake{hosts: []string{"h:2181"}, word: func(_ context.Context, _, word string) (string, error) {
			mu.Lock()
			defer mu.Unlock()
			words = append(words, word)
			if word == "srvr" {
				return srvr, nil
			}
			return "Sessions dump (1):\n0x1\nSessions with Ephemerals (1):\n0x1:\n\t/e\n", nil
		}}
		s := FindServers(t.Context(), f)
		row := s.Table().Rows[0]
		if diff := cmp.Diff(want, row[2:4]); diff != "" {
			t.Error(diff)
		}
		if !s.Quorum {
			t.Errorf("no quorum: %+v", s)
		}
		if _, err := FindSession(t.Context(), f, 1); err != nil {
			t.Error(err)
		}
		if _, err := Ephemerals(t.Context(), f); err != nil {
			t.Error(err)
		}
		FindClients(t.Context(), f)
		for _, w := range words {
			if !slices.Contains([]string{"srvr", "mntr", "cons", "dump", "conf"}, w) {
				t.Errorf("%s was sent", w)
			}
		}
	}
}
