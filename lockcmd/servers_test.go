package lockcmd

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/commands/commandtest"
	"github.com/zksh/zksh/internal/cluster"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zktest"
)

// servers queries all three servers of an ensemble although the connect string names one, and
// reports the loss of the quorum.
func TestServersOfThree(t *testing.T) {
	servers := zktest.Ensemble(t, 3)
	b := newFixture(t, servers[0].Addr())
	ask := func() (s cluster.Servers) { // a busy server may answer late; the exit status must match Quorum
		st := newTestEnv(b.Session, render.JSON)
		err := commandtest.Run(zktest.Within(t), serversCommand, &st.Env)
		if jsonErr := json.Unmarshal([]byte(st.Printed()), &s); jsonErr != nil || (err == nil) != s.Quorum {
			t.Fatalf("%v, %v: %s", err, jsonErr, st.Printed())
		}
		return s
	}
	var all cluster.Servers
	zktest.Eventually(t, "all three tell all", func() bool {
		all = ask()
		return all.Answered == 3 && all.Quorum && !slices.ContainsFunc(all.Servers, func(v *cluster.Server) bool { return v.Watches == "" })
	})
	var names []string
	for _, v := range all.Servers {
		names = append(names, v.Role)
	}
	if got := strings.Join(names, " "); strings.Count(got, "follower") != 2 || strings.Count(got, "leader") != 1 {
		t.Fatalf("%s: %+v", got, all)
	}
	for _, v := range all.Servers {
		if v.Version != "3.8.0" || v.Watches == "" || v.Lag == "" || v.Connections == "" || v.Latency == "" {
			t.Errorf("%+v", v)
		}
	}
	elsewhere := open(t, servers[1].Addr(), usualTimeout)
	var f map[string]string
	zktest.Eventually(t, "all three are asked for the session", func() bool {
		f = facts(t, b.Session, render.Hex(elsewhere.Info().ID))
		return f["state"] == "connected"
	})
	if f["server"] != servers[1].Addr() {
		t.Errorf("%v", f)
	}
	follower := servers[1]
	if follower.Leads() {
		follower = servers[2]
	}
	follower.Stop()
	zktest.Eventually(t, "two of three", func() bool { s := ask(); return s.Answered == 2 && s.Quorum })
	for _, s := range servers {
		if s != follower && s != servers[0] {
			s.Stop()
		}
	}
	st := newTestEnv(b.Session, render.Text)
	zktest.Eventually(t, "the probe says no", func() bool {
		return errors.As(commandtest.Run(zktest.Within(t), serversCommand, &st.Env, "-q"), new(*commands.StatusError))
	})
	if st.Printed()+st.Notes() != "" {
		t.Errorf("%q %q", st.Printed(), st.Notes())
	}
}
