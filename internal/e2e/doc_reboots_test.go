//go:build unix

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zktest"
)

// The scripts and the unit of the page on reboots do what the page says, on the sandbox and on a
// real server. The machines are processes; their reboot is a second in which no other machine
// may reboot.
func TestDocReboots(t *testing.T) {
	t.Parallel()
	const page = "../../shell/manual/reboots.md"
	for name, server := range map[string]string{"Sandbox": zktest.Sandbox(t, sandbox.Options{}).Addr(), "Real": zktest.Shared(t).Addr()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := machines{dir: t.TempDir(), server: server}
			w.install(t, "systemctl", `
test "$1" = reboot || exit 0
mkdir "$DIR/rebooting" || { echo overlap >> "$DIR/log"; exit; }
sleep 0.2
echo "$HOST reboots" >> "$DIR/log"
rmdir "$DIR/rebooting"
`)
			w.install(t, "hostname", `echo "$HOST"`)
			w.install(t, "ssh", `shift; exec "$@"`)
			w.install(t, "app-is-healthy", `test ! -e "$DIR/broken"`)
			w.install(t, "reboot-if-needed", strings.ReplaceAll(docFile(t, page, "/usr/local/sbin/reboot-if-needed"), "/run/", `"$DIR"/`))
			w.install(t, "restart-all", docFile(t, page, "restart-all"))
			unit := docFile(t, page, "/etc/systemd/system/reboot-done.service")
			start := regexp.MustCompile(`(?m)^ExecStart=/usr/bin/(.*)$`).FindStringSubmatch(unit)
			if start == nil {
				t.Fatalf("the unit has no command:\n%s", unit)
			}
			w.install(t, "reboot-done", strings.ReplaceAll(start[1], "%H", `"$HOST"`))

			if out, err := w.run("web-0", "reboot-if-needed"); err != nil || w.log(t) != "" {
				t.Fatalf("without a need to reboot: %v, %s; log %q", err, out, w.log(t))
			}
			zktest.Must(t, os.WriteFile(filepath.Join(w.dir, "reboot-required"), nil, 0o600))
			var all sync.WaitGroup
			for _, host := range []string{"web-1", "web-2", "web-3", "web-4"} {
				all.Go(func() {
					for _, script := range []string{"reboot-if-needed", "reboot-done"} {
						if out, err := w.run(host, script); err != nil {
							t.Errorf("%s on %s: %v\n%s", script, host, err, out)
						}
					}
				})
			}
			all.Wait()
			if log := w.log(t); strings.Contains(log, "overlap") || strings.Count(log, "reboots") != 4 {
				t.Errorf("log:\n%s", log)
			}

			broken := filepath.Join(w.dir, "broken")
			zktest.Must(t, os.WriteFile(broken, nil, 0o600))
			if out, err := w.run("admin", "restart-all"); err == nil {
				t.Errorf("restart-all goes on behind a broken machine:\n%s", out)
			}
			if out, err := w.run("admin", "zksh lock --owner web-2 -n /locks/restart"); err == nil || !strings.Contains(out, "owned by web-1") {
				t.Errorf("the lock of the broken machine: %v\n%s", err, out)
			}
			zktest.Must(t, os.Remove(broken))
			if out, err := w.run("admin", "restart-all"); err != nil || strings.Count(out, "unlocked") != 3 {
				t.Errorf("restart-all: %v\n%s", err, out)
			}
		})
	}
}

// machines run the scripts of a document.
type machines struct{ dir, server string }

// install creates a program with this text.
func (w machines) install(t *testing.T, name, text string) {
	t.Helper()
	zktest.Must(t, os.WriteFile(filepath.Join(w.dir, name), []byte("#!/bin/sh\n"+text), 0o755))
}

// run runs a command of a POSIX shell on a machine.
func (w machines) run(host, command string) (out string, err error) {
	cmd := exec.Command("sh", "-c", command)
	cmd.Env = append(os.Environ(), "PATH="+w.dir+":"+os.Getenv("PATH"), "DIR="+w.dir, "HOST="+host, "ZKSH_SERVER="+w.server,
		"XDG_CONFIG_HOME="+w.dir, "XDG_STATE_HOME="+w.dir)
	text, err := cmd.CombinedOutput()
	return string(text), err
}

// log returns what the machines have recorded.
func (w machines) log(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(w.dir, "log"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(text)
}

// docFile returns the block of a document that begins with a comment with this name, perhaps
// after the line of the interpreter.
func docFile(t *testing.T, page, name string) string {
	t.Helper()
	pattern := regexp.MustCompile("(?s)```[a-z]+\n(?:#![^\n]*\n)?# " + regexp.QuoteMeta(name) + "\n(.*?)```")
	m := pattern.FindStringSubmatch(readFile(t, page))
	if m == nil {
		t.Fatalf("%s has no file %s", page, name)
	}
	return m[1]
}
