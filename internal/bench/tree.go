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

// helperArg is the first argument of a helper process: this program, run as a client of a server or
// as a sandbox.
//
// Helpers keep the memory of the main process small. The main process measures the peak memory of
// its child processes, and Linux never reports a lower peak for a child than its parent had when it
// started the child.
const helperArg = "helper"

// A tree is a subtree of znodes to create. Each level is full before the next level begins.
type tree struct {
	root  string
	nodes int // number of znodes, including the root of the subtree
	fan   int // maximum number of children of a znode
}

// helper returns a job that starts this program as a helper process, which runs one of the commands
// of runHelper, such as "make", on the tree t.
func (b *bench) helper(command string, t tree, n int) job {
	return job{path: b.self, args: []string{helperArg, command, b.addr, t.root, strconv.Itoa(n), strconv.Itoa(t.fan)}}
}

// make creates the znodes of the tree t, which must not exist yet.
func (b *bench) make(t tree) { b.run(b.helper("make", t, t.nodes)) }

// remove deletes the znodes of the tree t.
func (b *bench) remove(t tree) {
	b.run(b.shell(b.zksh, "deleteall", t.root))
	b.checkRemoved(t)
}

// checkRemoved ends the whole measurement if the tree t still exists.
func (b *bench) checkRemoved(t tree) { b.run(b.helper("gone", t, 0)) }

// onFreshTree returns a copy of the job j that has a fresh tree t for each run. The copy creates t
// before the run, and calls cleanUp(t) after it. cleanUp is b.remove or b.checkRemoved.
func (b *bench) onFreshTree(t tree, j job, cleanUp func(tree)) job {
	j.before, j.after = func() { b.make(t) }, func() { cleanUp(t) }
	return j
}

// runHelper is the main function of a helper process. Its arguments are either the word sandbox,
// or COMMAND SERVER ROOT N FAN, with the number N and the maximum number of children FAN. Commands:
//
//	make    create a tree of N znodes
//	gone    fail if the tree exists
//	loop    create N children of ROOT, one after the other
//	window  create N children of ROOT, with as many requests in flight as zksh has
func runHelper(args []string) {
	if len(args) == 1 && args[0] == "sandbox" {
		serveSandbox()
		return
	}
	if len(args) != 5 {
		check(fmt.Errorf("helper: invalid arguments %q: want COMMAND SERVER ROOT N FAN", args))
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

// make creates the znodes of the tree, in transactions of at most a thousand znodes.
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

// creates is the bare loop over go-zookeeper that is compared with zksh. It creates the children of
// the root, keeps at most window requests in flight, and prints the paths in order.
func (t tree) creates(conn *zk.Conn, window int) {
	type reply struct {
		made string
		err  error
	}
	// The capacity is one less than window, because the loop below waits for one more reply.
	answers := make(chan chan reply, window-1)
	go func() { // ends after the last create, or with the program
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

// childPath returns the path of child i of root. The bare loop and the scripts create the same
// paths.
func childPath(root string, i int) string { return fmt.Sprintf("%s/node-%d", root, i) }

// createLines returns a script with n create commands, one for each child of root.
func createLines(root string, n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString("create " + childPath(root, i) + " data\n")
	}
	return b.String()
}

// serveSandbox prints the address of a new sandbox, and runs it until standard input ends.
func serveSandbox() {
	s := sandbox.New(sandbox.Options{MaxTreeBytes: 4 << 30})
	fmt.Println(must(s.Listen("127.0.0.1:0")))
	_, err := io.Copy(io.Discard, os.Stdin)
	check(errors.Join(err, s.Close()))
}
