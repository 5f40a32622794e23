package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/zksh/zksh/internal/zktest"
)

// What TLS on both sides may cost.
const (
	secureTime   = 25 * time.Millisecond // of ls /, one-shot
	secureFaster = 25.0                  // times as fast as zkCli, at least
	secureRatio  = 1.3                   // times the plain creates' time, at most
)

// measureSecure measures on a server of its own, which takes clients with
// certificates on one port and plain ones on the other.
func (b *bench) measureSecure(quick bool) (string, error) {
	fmt.Fprintln(os.Stderr, "measuring TLS")
	dir := filepath.Join(b.dir, "secure")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	options, own, ca, err := certify(dir)
	if err != nil {
		return "", err
	}
	plain, secure, stop, err := zktest.ServeSecure(dir, zktest.Heap(heapMB), zktest.Secure(own, ca), zktest.JavaProperty("zookeeper.forceSync", "yes"))
	if err != nil {
		return "", err
	}
	defer stop()
	at := func(addr string, args ...string) program {
		return program{path: b.zksh, args: append([]string{"-server", addr}, args...)}
	}
	list := task{what: "`ls /`", expect: "zookeeper]", times: 1}
	ls := at(secure, append(options, "ls", "/")...)
	cli, err := zkCliWithTLS(dir, secure, options)
	if err != nil {
		return "", err
	}
	n, pairs, cliRuns, warmUps := 21, 11, 3, 400
	if quick {
		n, pairs, cliRuns, warmUps = 1, 1, 1, 1
	}
	if _, err := b.runAll(ls, list, warmUps); err != nil { // java compiles what a handshake needs
		return "", err
	}
	ours, err := b.runAll(ls, list, n)
	if err != nil {
		return "", err
	}
	theirs, err := b.runAll(cli, list, cliRuns)
	if err != nil {
		return "", err
	}
	const count = 1000
	creates := task{input: createLines("/one", count), expect: "Created /one/", times: count}
	var with, without []sample
	const warm = 12 // java compiles meanwhile
	for i := range pairs + warm {
		var pair [2]sample
		for j := range 2 { // neither always has the first turn
			which := (i + j) % 2
			if pair[which], err = b.creates(creates, []program{at(secure, options...), at(plain)}[which], at(plain)); err != nil {
				return "", err
			}
		}
		if i >= warm {
			with, without = append(with, pair[0]), append(without, pair[1])
		}
	}
	r := row{zksh: with, bare: without}
	size, err := os.Stat(b.zksh)
	if err != nil {
		return "", err
	}
	faster := float64(medianTime(theirs)) / float64(medianTime(ours))
	return "\n## TLS\n\n`go run ./internal/bench -tls`. TLS 1.3 with certificates on both sides, on a warmed-up server with Netty and fsync. zkCli is Java alone, without its script.\n\n" +
		table("measured", atMost("`ls /` as a single command, until exit", medianTime(ours), secureTime),
			figure{"zkCli's time for the same", fmt.Sprintf("%s, %.0f ×", duration(medianTime(theirs)), faster), fmt.Sprintf("≥ %.0f ×", secureFaster), faster >= secureFaster},
			figure{"1,000 piped creates", fmt.Sprintf("%s = %.2f × the %s without TLS", duration(medianTime(with)), r.bareRatio(), duration(medianTime(without))),
				fmt.Sprintf("≤ %.1f ×", secureRatio), r.bareRatio() <= secureRatio}) +
		fmt.Sprintf("\nThe program has %s.\n", mebibytes(size.Size())), nil
}

// certify makes an authority, and a certificate for each side.
func certify(dir string) (options []string, own, ca string, err error) {
	authority, err := zktest.NewAuthority(dir, "ca")
	if err != nil {
		return nil, "", "", err
	}
	server, err := authority.Issue(zktest.Cert{Name: "127.0.0.1"})
	if err != nil {
		return nil, "", "", err
	}
	client, err := authority.Issue(zktest.Cert{Name: "bench"})
	if err != nil {
		return nil, "", "", err
	}
	return []string{"--cacert", authority.File, "--cert", client.File}, server.File, authority.File, nil
}

// zkCliWithTLS is zkCli with the files that the options name.
func zkCliWithTLS(dir, addr string, options []string) (program, error) {
	file := filepath.Join(dir, "client.properties")
	text := "zookeeper.client.secure=true\nzookeeper.clientCnxnSocket=org.apache.zookeeper.ClientCnxnSocketNetty\n" +
		"zookeeper.ssl.trustStore.location=" + options[1] + "\nzookeeper.ssl.keyStore.location=" + options[3] + "\n"
	return program{path: "java", args: []string{"-Dorg.slf4j.simpleLogger.defaultLogLevel=off", "-cp", zktest.ZkCliPath(),
		"org.apache.zookeeper.ZooKeeperMain", "-server", addr, "-client-configuration", file, "ls", "/"}}, os.WriteFile(file, []byte(text), 0o600)
}

// runAll runs a program so often.
func (b *bench) runAll(p program, t task, times int) (all []sample, err error) {
	for range times {
		s, err := b.run(p, t)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// creates makes the root, measures the creates, and removes all of it.
func (b *bench) creates(t task, p, plain program) (sample, error) {
	around := func(args ...string) error {
		_, err := b.run(program{path: plain.path, args: append(append([]string(nil), plain.args...), args...)}, task{})
		return err
	}
	if err := around("create", "/one"); err != nil {
		return sample{}, err
	}
	s, err := b.run(p, t)
	if err != nil {
		return s, err
	}
	return s, around("deleteall", "/one")
}
