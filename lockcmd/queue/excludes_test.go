package queue

import (
	"strings"
	"testing"
)

func TestWarnings(t *testing.T) {
	const note = `{"host":"h","pid":1}`
	node := func(name, data string) *node {
		parsed := map[string]string{
			"C": uuid + "-lock-0000000001", "W": uuid + "-__WRIT__0000000001", "R": uuid + "-__READ__0000000001",
			"K": hex32 + "__lock__0000000001", "k": hex32 + "__rlock__0000000001", "G": guid + "-lock-0000000001",
			"Z": "x-1-0000000001", "L": uuid + "-latch-0000000001", "S": hex32,
		}[name]
		n := newTestNode(t, parsed)
		n.Data = []byte(data)
		return n
	}
	for pair, want := range map[string]string{
		"CC": "", "CG": "", "GC": "", "WR": "", "RW": "", "Kk": "", "kK": "", "Rk": "", "RR": "",
		"CK": "Curator mutexes and kazoo locks do not exclude each other: both _c_…-lock-… and …__lock__… can hold the lock at the same time",
		"KC": "Curator mutexes and kazoo locks do not exclude each other: both _c_…-lock-… and …__lock__… can hold the lock at the same time",
		"CR": "Curator mutexes and Curator read/write locks do not exclude each other",
		"CW": "Curator mutexes and Curator read/write locks do not exclude each other",
		"WK": "Curator read/write locks and kazoo locks do not exclude each other",
		"GK": "kazoo locks do not wait for go-zookeeper locks",
		"GW": "Curator read/write locks do not wait for go-zookeeper locks",
		"CZ": "Curator mutexes do not wait for locks of ZooKeeper's recipe",
		"ZK": "kazoo locks and locks of ZooKeeper's recipe do not exclude each other",
		"CL": "Curator mutexes and Curator latches do not exclude each other",
		"CS": "Curator mutexes and kazoo semaphores do not exclude each other",
	} {
		a, b := newContender(node(pair[:1], "")), newContender(node(pair[1:], ""))
		got := strings.Join(warnings([]*Contender{a, b, a, b}), "; ")
		if !strings.HasPrefix(got, want) || (want == "") != (got == "") {
			t.Errorf("%s: %q, want %q", pair, got, want)
		}
	}
	// zksh waits for the locks of every family, whatever the names of its own znodes.
	a, b := newContender(node("C", note)), newContender(node("K", ""))
	if got := warnings([]*Contender{a, b}); len(got) != 1 || !strings.HasPrefix(got[0], "kazoo locks do not wait for Curator mutexes") {
		t.Errorf("%q", got)
	}
	b = newContender(node("K", note))
	if got := warnings([]*Contender{a, b}); len(got) != 0 {
		t.Errorf("%q", got)
	}
}
