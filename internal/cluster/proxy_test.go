package cluster

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/zksh/zksh/internal/zkconn/wire"
	"github.com/zksh/zksh/internal/zktest"
)

// A request to the AdminServer goes through the proxy, which resolves the server's name.
func TestAdminServerThroughProxy(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, err := io.WriteString(w, `{"connections":[{"remote_socket_address":"10.0.0.1:5","session_id":7}]}`)
		zktest.Check(t, err)
	}))
	defer web.Close()
	socks := zktest.NewSOCKS(t, map[string]string{"zk1.invalid:8080": web.Listener.Addr().String()}, "", "")
	proxy, err := wire.ParseProxy("socks5://" + socks.Addr())
	zktest.Must(t, err)
	conns, err := askAdmin(zktest.Within(t), proxy.Dialer(new(net.Dialer).DialContext), "zk1.invalid:8080")
	if err != nil || !slices.Equal(conns, []connection{{session: 7, addr: "10.0.0.1:5"}}) {
		t.Errorf("%+v, %v", conns, err)
	}
}
