//go:build unix && !aix && !solaris

package child

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/tty"
)

// scriptVariable is the environment variable with the script that this test binary runs.
const scriptVariable = "ZKSH_TEST_CHILD"

// treeVariable is the environment variable with the process whose descendants this test binary describes.
const treeVariable = "ZKSH_TEST_TREE"

// leaseVariable is the environment variable with the length of the lease, which is never
// renewed.
const leaseVariable = "ZKSH_TEST_LEASE"

// TestMain runs the tests. In other processes it is the keeper of a program, or the helper.
func TestMain(m *testing.M) {
	if Keeper() {
		return
	}
	if os.Getenv("GORACE") == "" { // otherwise each keeper built with -race sleeps for a second at its end
		os.Setenv("GORACE", "atexit_sleep_ms=0")
	}
	if pid, err := strconv.Atoi(os.Getenv(treeVariable)); err == nil {
		fmt.Print(describeTree(pid))
		return
	}
	if text := os.Getenv(scriptVariable); text != "" {
		runScript(text)
		return
	}
	m.Run()
}

// helper returns a command that runs this test binary with a script.
func helper(t *testing.T, text string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), scriptVariable+"="+text)
	return cmd
}

// runScript runs a script as a child and prints the result.
func runScript(text string) {
	before := openTerminal(nil)
	modes, _ := tty.GetModes(before.file) // nil if there is no terminal
	ours := make(chan os.Signal, 8)
	if !signal.Ignored(os.Interrupt) {
		signal.Notify(ours, os.Interrupt)
	}
	listener := Listen()
	defer listener.Close()
	lease, grace := 24*time.Hour, time.Second
	if short, err := time.ParseDuration(os.Getenv(leaseVariable)); err == nil {
		lease, grace = short, short/2
	}
	end := time.Now().Add(lease)
	left := func() time.Duration { return time.Until(end) }
	status, err := Run(Spec{
		Argv: []string{"sh", "-c", text}, Grace: grace, Left: left, Signals: listener,
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		Alert: func(text string) { fmt.Fprintf(os.Stderr, "alert: %s\n", text) },
	}, nil)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if listener.keyUnshared {
		stop := context.AfterFunc(ctx, func() { panic("Ctrl-C does not arrive") })
		go func() { // ends with Ctrl-C
			sig := <-ours
			ours <- sig
			stop()
			cancel()
		}()
	}
	if _, err := listener.PassKeyOn(ctx); err != nil {
		panic(err)
	}
	signal.Stop(ours)
	fmt.Fprintf(os.Stderr, "helper: status %d, %v, %d interrupts, terminal ours: %t", status, err, len(ours), before.isOurs())
	if after, err := tty.GetModes(before.file); err == nil {
		fmt.Fprintf(os.Stderr, ", modes as before: %t", *after == *modes)
	}
	fmt.Fprintln(os.Stderr)
}
