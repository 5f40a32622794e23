// Bench measures zksh on a real ZooKeeper server, beside zkCli.sh where it is
// installed and beside a bare loop over go-zookeeper, and prints a table.
//
//	go run ./internal/bench [-quick] [-keys] [-scripts] [-tls] [-trees] [-o FILE]
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"syscall"

	"github.com/zksh/zksh/internal/zktest"
)

// zkCliPath is where Debian's package puts it.
const zkCliPath = "/usr/share/zookeeper/bin/zkCli.sh"

func main() {
	if len(os.Args) > 2 && os.Args[1] == helperArg {
		if err := help(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	output := flag.String("o", "", "also write the table to `FILE`")
	quick := flag.Bool("quick", false, "smoke run: use small trees, and run each command once")
	var only part
	flag.BoolVar(&only.keys, "keys", false, "measure only the keyboard")
	flag.BoolVar(&only.scripts, "scripts", false, "measure only scripts")
	flag.BoolVar(&only.secure, "tls", false, "measure only TLS")
	flag.BoolVar(&only.trees, "trees", false, "measure only trees of a million znodes")
	flag.Parse()
	debug.SetGCPercent(10) // see helperArg: this process stays smaller than what it measures
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := measureAll(ctx, *output, *quick, only)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// part is what alone is to be measured; none: all.
type part struct{ keys, scripts, secure, trees bool }

func measureAll(ctx context.Context, output string, quick bool, only part) (err error) {
	dir, err := os.MkdirTemp("", "zksh-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	b := &bench{ctx: ctx, dir: dir, self: self, zksh: filepath.Join(dir, "zksh")}
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", b.zksh, "github.com/zksh/zksh")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("building zksh: %w", err)
	}
	if _, err := os.Stat(zkCliPath); err == nil {
		b.zkCli = zkCliPath
	}
	if only.secure {
		text, err := b.measureSecure(quick)
		if err == nil {
			_, err = io.WriteString(os.Stdout, text)
		}
		return err
	}
	if only.trees {
		text, err := b.measureTrees(quick)
		if err != nil {
			return err
		}
		return tell(text, output)
	}
	addr, stop, err := zktest.Serve(filepath.Join(dir, "server"), zktest.Heap(heapMB))
	if err != nil {
		return err
	}
	defer stop()
	b.addr = addr

	before, err := describe(addr)
	if err != nil {
		return err
	}
	s := full
	if quick {
		s = smoke
	}
	list := tasks(s)
	if only != (part{}) {
		list = nil
	} else if err := b.warmUp(s); err != nil {
		return err
	}
	var rows []row
	for _, t := range list {
		fmt.Fprintln(os.Stderr, "measuring", t.what)
		r, err := b.measure(t)
		if err != nil {
			return fmt.Errorf("%s: %w", t.what, err)
		}
		rows = append(rows, r...)
	}
	text := report(rows, before, quick)
	if !only.keys {
		fmt.Fprintln(os.Stderr, "measuring scripts")
		figures, err := b.measureScripts(ctx, quick)
		if err != nil {
			return fmt.Errorf("scripts: %w", err)
		}
		text += scriptTable(figures)
		fmt.Fprintln(os.Stderr, "measuring wait")
		waits, err := b.measureWait(quick)
		if err != nil {
			return fmt.Errorf("wait: %w", err)
		}
		text += waits.text()
	}
	if !only.scripts {
		fmt.Fprintln(os.Stderr, "measuring the keyboard")
		keys, err := b.measureKeys(ctx, quick)
		if err != nil {
			return fmt.Errorf("keyboard: %w", err)
		}
		text += keys.text()
	}
	if only == (part{}) {
		stop() // before the other server starts
		secured, err := b.measureSecure(quick)
		if err != nil {
			return fmt.Errorf("TLS: %w", err)
		}
		text += secured
	}
	if only == (part{}) {
		fmt.Fprintln(os.Stderr, "measuring trees of a million znodes")
		trees, err := b.measureTrees(quick)
		if err != nil {
			return fmt.Errorf("trees: %w", err)
		}
		text += trees
	}
	return tell(text, output)
}

// tell prints the report, and writes it into a file if there is to be one.
func tell(text, output string) error {
	if output != "" {
		if err := os.WriteFile(output, []byte(text), 0o644); err != nil {
			return err
		}
	}
	_, err := io.WriteString(os.Stdout, text)
	return err
}
