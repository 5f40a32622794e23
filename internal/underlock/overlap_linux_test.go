package underlock

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/zksh/zksh/internal/zktest"
)

// Two jobs never run at the same time under one lock, in whatever way they leave the session of
// zksh. Each job takes a lock of flock for as long as it works; if another job has it, they overlap.
func TestJobsDoNotOverlap(t *testing.T) {
	t.Parallel()
	zktest.NeedProgram(t, "flock", "util-linux")
	zksh, _ := needPrograms(t)
	server := newServer(t)
	const double = `import os, sys
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
os.closerange(0, 100)
os.execvp(sys.argv[1], sys.argv[1:])`
	for name, wrapper := range map[string][]string{
		"setsid":                    {"setsid"},
		"setsid -f":                 {"setsid", "-f"},
		"setsid twice":              {"setsid", "setsid", "-f"},
		"nohup setsid":              {"nohup", "setsid"},
		"env setsid":                {"env", "A=b", "setsid"},
		"nice setsid":               {"nice", "setsid"},
		"timeout setsid":            {"timeout", "60", "setsid"},
		"timeout --foreground":      {"timeout", "--foreground", "60", "setsid"},
		"all of them":               {"nohup", "env", "A=b", "nice", "timeout", "60", "setsid", "-f"},
		"python setsid":             {"python3", "-c", "import os, sys; os.setsid(); os.execvp(sys.argv[1], sys.argv[1:])"},
		"double fork, closed files": {"python3", "-c", double},
		"background of a shell":     {"sh", "-c", `setsid "$@" & exit 0`, "sh"},
		"orphan in the group":       {"sh", "-c", `("$@" &) & exit 0`, "sh"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			zktest.NeedProgram(t, wrapper[0], "python3 coreutils util-linux")
			dir := t.TempDir()
			log := filepath.Join(dir, "log")
			const job = `if flock -n "$0.mutex" sh -c 'echo begin >> "$0"; sleep 0.3; echo end >> "$0"' "$0"
				then exit 5; else echo overlap >> "$0"; fi`
			path := "/" + filepath.Base(filepath.Dir(dir))
			args := append([]string{zksh, "-q", "-server", server, "lock", path, "--"}, wrapper...)
			args = append(args, "sh", "-c", job, log)
			const jobs = 3
			var running sync.WaitGroup
			results := make([]result, jobs)
			for i := range results {
				running.Go(func() { results[i] = run(t, dir, args...) })
			}
			running.Wait()
			// setsid forks only if it is the leader of a process group, which it must not be here.
			want := 5
			if strings.Contains(strings.Join(wrapper, " "), " -f") || name == "double fork, closed files" || wrapper[0] == "sh" {
				want = 0
			}
			for _, got := range results {
				if got.status != want {
					t.Errorf("status %d, want %d: %s", got.status, want, got.out)
				}
			}
			text, err := os.ReadFile(log)
			zktest.Must(t, err)
			if string(text) != strings.Repeat("begin\nend\n", jobs) {
				t.Errorf("the jobs ran like this: %q", text)
			}
		})
	}
}
