package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/sandbox"
)

// The bench runs itself for all that needs a connection. On Linux a child's peak
// memory is never below its parent's when it was started, so the parent, whose
// children are measured, holds no trees and no connection.
const helperArg = "helper"

// tree is a subtree with a number of znodes, the root included, each with up to
// fan children, filled level by level.
type tree struct {
	root       string
	nodes, fan int
}

// helper is a run of this program that does one of the jobs of help.
func (b *bench) helper(verb string, t tree, n int) job {
	return job{path: b.self, args: []string{helperArg, verb, b.addr, t.root, strconv.Itoa(n), strconv.Itoa(t.fan)}}
}

// make makes the tree, which must not exist.
func (b *bench) make(t tree) { b.run(b.helper("make", t, t.nodes)) }

// remove removes the tree.
func (b *bench) remove(t tree) {
	b.run(b.shell(b.zksh, "deleteall", t.root))
	b.gone(t)
}

// gone checks that the tree has been removed.
func (b *bench) gone(t tree) { b.run(b.helper("gone", t, 0)) }

// fresh has the tree made anew for each run of j, and removed or missed after it.
func (b *bench) fresh(t tree, j job, after func(tree)) job {
	j.before, j.after = func() { b.make(t) }, func() { after(t) }
	return j
}

// help does a job: VERB SERVER ROOT N FAN.
func help(args []string) {
	if len(args) == 1 && args[0] == "sandbox" {
		serveSandbox()
		return
	}
	if len(args) != 5 {
		check(fmt.Errorf("helper: invalid arguments %q: want JOB SERVER ROOT N FAN", args))
	}
	t := tree{args[2], must(strconv.Atoi(args[3])), must(strconv.Atoi(args[4]))}
	conn, _, err := zk.Connect([]string{args[1]}, 10*time.Second, zk.WithLogInfo(false))
	check(err)
	defer conn.Close()
	switch args[0] {
	case "make":
		t.make(conn)
	case "gone":
		there, _, err := conn.Exists(t.root)
		if err == nil && there {
			err = errors.New(t.root + " still exists")
		}
		check(err)
	case "loop":
		t.creates(conn, 1)
	case "window":
		t.creates(conn, inFlight)
	}
}

// make creates the tree in transactions of a thousand.
func (t tree) make(conn *zk.Conn) {
	paths := make([]string, 0, t.nodes)
	var ops []any
	for i := range t.nodes {
		path := t.root
		if i > 0 {
			path = fmt.Sprintf("%s/node-%05d", paths[(i-1)/t.fan], i)
		}
		paths = append(paths, path)
		ops = append(ops, &zk.CreateRequest{Path: path, Acl: zk.WorldACL(zk.PermAll)})
		if len(ops) == 1000 || i == t.nodes-1 {
			must(conn.Multi(ops...))
			ops = ops[:0]
		}
	}
}

// creates is the bare loop: it creates the root's children, with so many requests
// in flight, and reports them in order.
func (t tree) creates(conn *zk.Conn, window int) {
	type answer struct {
		made string
		err  error
	}
	answers := make(chan chan answer, window-1) // with the one that is waited for
	go func() {                                 // ends with the tree, or with the program
		defer close(answers)
		for i := range t.nodes {
			a := make(chan answer, 1)
			answers <- a
			go func() {
				made, err := conn.Create(childPath(t.root, i), []byte("data"), 0, zk.WorldACL(zk.PermAll))
				a <- answer{made, err}
			}()
		}
	}()
	for a := range answers {
		got := <-a
		check(got.err)
		fmt.Println("Created", got.made)
	}
}

// childPath names the znodes that the loop and the shells create.
func childPath(root string, i int) string { return fmt.Sprintf("%s/node-%d", root, i) }

// createLines is the script that creates n children of root.
func createLines(root string, n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString("create " + childPath(root, i) + " data\n")
	}
	return b.String()
}

// serveSandbox serves a sandbox until standard input ends. It prints its address.
func serveSandbox() {
	s := sandbox.New(sandbox.Options{MaxTreeBytes: 4 << 30})
	fmt.Println(must(s.Listen("127.0.0.1:0")))
	_, err := io.Copy(io.Discard, os.Stdin)
	check(errors.Join(err, s.Close()))
}
