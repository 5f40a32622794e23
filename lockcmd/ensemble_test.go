package lockcmd

import "testing"

// plainPort matches the client port in each member's line. With TLS, this is not the port of
// the clients.
func TestPlainPort(t *testing.T) {
	const config = "server.1=zk1:2888:3888:participant;0.0.0.0:2181\nserver.2=zk2:2888:3888:observer;2181\n" +
		"server.3=[::1]:2888:3888:participant;[::]:2181\nserver.4=zk4:2888:3888\nversion=100000000"
	const want = "server.1=zk1:2888:3888:participant\nserver.2=zk2:2888:3888:observer\n" +
		"server.3=[::1]:2888:3888:participant\nserver.4=zk4:2888:3888\nversion=100000000"
	if got := plainPort.ReplaceAllString(config, ""); got != want {
		t.Errorf("%s", got)
	}
}
