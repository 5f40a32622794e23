//go:build unix && !aix && !solaris

package child

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"testing"
	"time"
)

// scriptName is the variable with the script that this test binary is to run.
const scriptName = "ZKSH_TEST_CHILD"

// TestMain runs the tests, or is the process that helper makes.
func TestMain(m *testing.M) {
	if text := os.Getenv(scriptName); text != "" {
		runScript(text)
		return
	}
	m.Run()
}

// helper is this test binary as a process of its own that runs a script.
func helper(t *testing.T, text string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), scriptName+"="+text)
	return cmd
}

// runScript runs a script as a child and tells what became of it.
func runScript(text string) {
	before := openTerminal()
	ours := make(chan os.Signal, 8)
	signal.Notify(ours, os.Interrupt)
	listener := Listen()
	defer listener.Close()
	status, err := Run(Spec{
		Argv: []string{"sh", "-c", text}, Grace: time.Hour, Signals: listener,
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		Alert: func(text string) { fmt.Fprintf(os.Stderr, "alert: %s\n", text) },
	}, nil)
	signal.Stop(ours)
	fmt.Fprintf(os.Stderr, "helper: status %d, %v, %d interrupts, terminal ours: %t", status, err, len(ours), before.ours())
	if after := openTerminal(); after != nil {
		fmt.Fprintf(os.Stderr, ", modes as before: %t", *after.modes == *before.modes)
	}
	fmt.Fprintln(os.Stderr)
}
