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

// helperArg is the first argument of a helper, a process of this program that connects to
// a server or runs a sandbox. Linux never reports a lower peak memory for a child than its
// parent had when it started the child. So the parent, whose children are measured, stays
// small: it holds no trees and no connection.
const helperArg = "helper"

// A tree is a subtree of znodes, filled level by level.
type tree struct {
	root  string
	nodes int // number of znodes, including the root
	fan   int // maximum number of children of a znode
}

// helper returns a job that runs a helper; see runHelper for the verbs.
func (b *bench) helper(verb string, t tree, n int) job {
	return job{path: b.self, args: []string{helperArg, verb, b.addr, t.root, strconv.Itoa(n), strconv.Itoa(t.fan)}}
}

// make creates the tree, which must not exist.
func (b *bench) make(t tree) { b.run(b.helper("make", t, t.nodes)) }

// remove removes the tree.
func (b *bench) remove(t tree) {
	b.run(b.shell(b.zksh, "deleteall", t.root))
	b.checkRemoved(t)
}

// checkRemoved checks that the tree does not exist.
func (b *bench) checkRemoved(t tree) { b.run(b.helper("gone", t, 0)) }

// onFreshTree returns the job j, with functions that create the tree before each run and
// call after(t) after it. The function after is remove or checkRemoved.
func (b *bench) onFreshTree(t tree, j job, after func(tree)) job {
	j.before, j.after = func() { b.make(t) }, func() { after(t) }
	return j
}

// runHelper does a job: VERB SERVER ROOT N FAN.
func runHelper(args []string) {
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

// creates is the bare loop. It creates children of the root, with window requests in flight,
// and prints the created paths in order.
func (t tree) creates(conn *zk.Conn, window int) {
	type reply struct {
		made string
		err  error
	}
	answers := make(chan chan reply, window-1) // plus the one that the loop below waits for
	go func() {                                // ends after the last create, or with the program
		defer close(answers)
		for i := range t.nodes {
			a := make(chan reply, 1)
			answers <- a
			go func() {
				made, err := conn.Create(childPath(t.root, i), []byte("data"), 0, zk.WorldACL(zk.PermAll))
				a <- reply{made, err}
			}()
		}
	}()
	for a := range answers {
		got := <-a
		check(got.err)
		fmt.Println("Created", got.made)
	}
}

// childPath returns the path of child i that the loop and the shells create.
func childPath(root string, i int) string { return fmt.Sprintf("%s/node-%d", root, i) }

// createLines returns a script that creates n children of root.
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
