package queue

import (
	"strings"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/cluster"
)

func TestServersClock(t *testing.T) {
	ahead := time.Now().Add(time.Hour)
	n := newTestNode(t, uuid+"-lock-0000000001")
	n.Stat.Ctime = ahead.Add(-2 * time.Minute).UnixMilli()
	q := newQueue("/l", contents{nodes: []*node{n}})
	q.addClients(&cluster.Clients{Addrs: map[int64]string{1: "h:1"}, Skew: time.Hour})
	if got := q.Contenders[0].Age; !strings.HasPrefix(got, "2m") && !strings.HasPrefix(got, "1m5") {
		t.Errorf("age %s", got)
	}
}
