package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/go-zookeeper/zk"
)

// The bench runs itself for what needs a connection. On Linux a child's peak
// memory is never below its parent's when it was started, so the parent, whose
// children are measured, holds no trees and no connection.
const helperArg = "helper"

// tree is a subtree with a number of nodes, the root included, each with up to
// fan children, filled level by level.
type tree struct {
	root       string
	nodes, fan int
}

func (t tree) args(verb string) []string {
	return []string{verb, t.root, strconv.Itoa(t.nodes), strconv.Itoa(t.fan)}
}

// help does one of the helper's jobs: SERVER VERB ROOT NODES FAN.
func help(args []string) error {
	if len(args) == 1 && args[0] == "sandbox" {
		return serveSandbox()
	}
	if len(args) != 5 {
		return fmt.Errorf("helper: invalid arguments %q: want SERVER JOB ROOT NODES FAN", args)
	}
	nodes, err := strconv.Atoi(args[3])
	if err != nil {
		return err
	}
	fan, err := strconv.Atoi(args[4])
	if err != nil {
		return err
	}
	t := tree{args[2], nodes, fan}
	conn, _, err := zk.Connect([]string{args[0]}, 10*time.Second, zk.WithLogInfo(false))
	if err != nil {
		return err
	}
	defer conn.Close()
	switch args[1] {
	case "make":
		return t.make(conn)
	case "gone":
		return t.gone(conn)
	case "creates":
		return t.creates(conn)
	case "window":
		return t.window(conn)
	}
	return fmt.Errorf("helper: unknown job %q", args[1])
}

// make creates the tree in transactions of a thousand. It fails if the root is there.
func (t tree) make(conn *zk.Conn) error {
	const batch = 1000
	paths := make([]string, 0, t.nodes)
	var ops []any
	for i := range t.nodes {
		path := t.root
		if i > 0 {
			path = fmt.Sprintf("%s/node-%05d", paths[(i-1)/t.fan], i)
		}
		paths = append(paths, path)
		ops = append(ops, &zk.CreateRequest{Path: path, Acl: zk.WorldACL(zk.PermAll)})
		if len(ops) == batch || i == t.nodes-1 {
			if _, err := conn.Multi(ops...); err != nil {
				return fmt.Errorf("cannot create the tree %s: %w", t.root, err)
			}
			ops = ops[:0]
		}
	}
	return nil
}

// gone fails if the root is there.
func (t tree) gone(conn *zk.Conn) error {
	there, _, err := conn.Exists(t.root)
	if err == nil && there {
		err = errors.New(t.root + " still exists")
	}
	return err
}

// creates is the bare loop: it creates the root's children one after another.
func (t tree) creates(conn *zk.Conn) error {
	for i := range t.nodes {
		made, err := conn.Create(childPath(t.root, i), []byte("data"), 0, zk.WorldACL(zk.PermAll))
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(os.Stdout, "Created", made); err != nil {
			return err
		}
	}
	return nil
}

// window is the bare loop with many creates in flight, of which each is answered in its
// turn.
func (t tree) window(conn *zk.Conn) error {
	type answer struct {
		made string
		err  error
	}
	answers := make(chan chan answer, inFlight-1) // with the one that is waited for
	go func() {                                   // ends with the tree, or with the program
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
		if got.err != nil {
			return got.err
		}
		if _, err := fmt.Fprintln(os.Stdout, "Created", got.made); err != nil {
			return err
		}
	}
	return nil
}

// childPath names the nodes that the loop and the shells create.
func childPath(root string, i int) string { return fmt.Sprintf("%s/node-%d", root, i) }
