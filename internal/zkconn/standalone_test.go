package zkconn_test

import (
	"testing"
	"time"

	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/internal/zktest/zksession"
)

// Standalone distinguishes a standalone server from members of an ensemble, including the
// leader, even if the chroot does not exist.
func TestStandalone(t *testing.T) {
	t.Parallel()
	alone := func(server *zktest.Server) bool {
		t.Helper()
		s := zksession.Open(t, zkconn.Config{Servers: server.Addr() + "/not/there", Timeout: 10 * time.Second})
		p, err := s.Ensemble().Pin(zktest.Within(t))
		zktest.Must(t, err)
		yes, err := p.Standalone(zktest.Within(t))
		zktest.Must(t, err)
		return yes
	}
	if !alone(zktest.Shared(t)) {
		t.Error("the server alone is taken for a member of an ensemble")
	}
	for _, member := range zktest.Ensemble(t, 3) {
		if alone(member) {
			t.Errorf("a member of an ensemble counts as alone (it leads: %t)", member.Leads())
		}
	}
}
