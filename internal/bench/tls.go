package main

import (
	"os"
	"path/filepath"
	"time"

	"github.com/zksh/zksh/internal/zktest"
)

// measureTLS measures commands and scripts over TLS with client certificates. It compares them
// with zkCli, and with scripts that use the server's other port, which has no TLS.
func (b *bench) measureTLS() []*figure {
	dir := must(os.MkdirTemp(b.dir, "tls-"))
	authority := must(zktest.NewAuthority(dir, "ca"))
	server, client := must(authority.Issue(zktest.Cert{Name: "127.0.0.1"})), must(authority.Issue(zktest.Cert{Name: "bench"}))
	plain, secure, stop, err := zktest.ServeSecure(dir, zktest.Heap(heapMB), zktest.Secure(server.File, authority.File),
		zktest.JavaProperty("zookeeper.forceSync", "yes"))
	check(err)
	defer stop()
	b.addr = plain
	options := []string{"-server", secure, "--cacert", authority.File, "--cert", client.File}
	properties := filepath.Join(dir, "client.properties")
	check(os.WriteFile(properties, []byte("zookeeper.client.secure=true\nzookeeper.clientCnxnSocket=org.apache.zookeeper.ClientCnxnSocketNetty\n"+
		"zookeeper.ssl.trustStore.location="+authority.File+"\nzookeeper.ssl.keyStore.location="+client.File+"\n"), 0o600))

	list := job{path: b.zksh, args: append(options, "ls", "/"), expect: "zookeeper]", times: 1}
	java := list
	java.path, java.every, java.args = "java", 8, []string{"-Dorg.slf4j.simpleLogger.defaultLogLevel=off", "-cp", zktest.ZkCliPath(),
		"org.apache.zookeeper.ZooKeeperMain", "-server", secure, "-client-configuration", properties, "ls", "/"}
	// Warm up the server until Java has compiled the code of the TLS handshake.
	for range b.size(400, 1) {
		b.run(list)
	}
	lists := b.byTurns(b.size(21, 1), list, java)

	const count = 1000
	root := tree{"/one", 1, 1}
	with := job{path: b.zksh, args: options, input: createLines(root.root, count), expect: "Created /one/", times: count}
	without := with
	without.args = []string{"-server", plain}
	with, without = b.onFreshTree(root, with, b.remove), b.onFreshTree(root, without, b.remove)
	for range b.size(12, 1) { // warm up the server
		b.runOnce(with)
		b.runOnce(without)
	}
	creates := b.byTurns(b.size(11, 1), with, without)

	ours, theirs := median(times(lists[0])), median(times(lists[1]))
	size := float64(must(os.Stat(b.zksh)).Size()) / (1 << 20)
	return []*figure{
		(&figure{name: "`ls /` as a single command, until exit"}).time(ours, 25*time.Millisecond).atLeast(float64(theirs)/float64(ours), 25, "zkCli's "+duration(theirs)),
		(&figure{name: thousands(count) + " piped creates"}).time(median(times(creates[0])), 0).
			atMost(medianRatio(creates[0], creates[1]), 1.3, "the "+duration(median(times(creates[1])))+" without TLS"),
		(&figure{name: "size of the program"}).add("%.1f MiB", size),
	}
}
