package underlock

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/zksh/zksh/internal/zktest"
)

// A difference describes lines of world show that differ under a lock.
type difference struct {
	key    string // pattern of SCENE: KEY
	flock  bool   // flock makes the same difference
	why    string // reason why it remains
	manual string // text in locks.md that users read about it
}

// differences lists all that a command can see of the lock.
var differences = []difference{
	{
		key:    `.*: environment\.ZK_LOCK_\w+`,
		why:    "the command needs to know its lock",
		manual: "zksh sets these environment variables for a command that runs under a lock",
	},
	{
		key:    `.*: group\.parents`,
		why:    "the keeper must not get the signals that the command sends to its process group",
		manual: "The command is in a process group of its own.",
	},
	{
		key:    `.*: death\.signal`,
		why:    "the kernel kills the command when the keeper is killed",
		manual: "On Linux, the kernel kills the command if the keeper dies (`PR_SET_PDEATHSIG`)",
	},
	{
		key:    `ignored (QUIT|INT): signal\.QUIT`,
		why:    "Go's runtime replaces the action before zksh can read it; a background job ignores both",
		manual: "QUIT is ignored exactly if INT is",
	},
	{
		key:    `ignored (PIPE|TERM|USR1|USR2|ALRM|WINCH|URG): signal\.\w+`,
		why:    "Go's runtime replaces the action before zksh can read it",
		manual: "Other ignored signals get their default action again.",
	},
	{
		key:    `ignored CHLD: signal\.CHLD`,
		flock:  true,
		why:    "a program that waits for the command cannot ignore this signal",
		manual: "Other ignored signals get their default action again.",
	},
	{
		key:    `blocked \w+: signal\.\w+`,
		why:    "Go's runtime unblocks signals",
		manual: "No signal is blocked.",
	},
	{
		key:    `no input: file\.0`,
		why:    "Go's runtime opens the null device in place of a closed standard file",
		manual: "If a standard file is closed, the command gets `/dev/null` instead.",
	},
	{
		key:    `variable twice: environment\.TWICE`,
		why:    "os/exec removes duplicates",
		manual: "If a variable is set twice, the command gets only one of them.",
	},
}

// A scene is a world in which a command starts.
type scene struct {
	name    string
	changes []string // arguments of world prepare
	args    []string // arguments of world show
}

func scenes() []scene {
	all := []scene{
		{name: "nothing changed"},
		{name: "arguments", args: []string{
			"", " ", "a b", "*", "$HOME", "\n", "-n", "--", "'\"", "ä", "\x01\x7f",
			"caf\xe9", "\xff\xfe", "\xed\xa0\x80", "\xef\xbf\xbd", // not UTF-8, and what would replace it
		}},
		{name: "files", changes: files(3, 20)},
		{name: "some files", changes: []string{"file=3", "file=9", "file=63", "file=255"}},
		{name: "no input", changes: []string{"close=0"}},
		{name: "variable twice", changes: []string{"twice=TWICE"}},
		{name: "session of its own", changes: []string{"session"}},
		{
			name:    "limits",
			changes: []string{"nofile=512", "core=0", "stack=1048576", "nproc=5000", "fsize=1000000", "cpu=600"},
		},
		{name: "priorities", changes: []string{"nice=3", "oom=300", "batch", "umask=027", "processor=0"}},
		{name: "no new privileges", changes: []string{"privileges"}},
		{name: "directory", changes: []string{"directory=caf\xe9"}},
		{name: "directory that is gone", changes: []string{"removed=removed"}},
	}
	for _, name := range []string{
		"HUP", "INT", "QUIT", "PIPE", "TERM", "USR1", "USR2", "ALRM", "TSTP", "TTIN", "TTOU", "WINCH", "URG", "CHLD", "CONT",
	} {
		all = append(all, scene{name: "ignored " + name, changes: []string{"ignore=" + name}})
	}
	for _, name := range []string{"HUP", "INT", "TERM", "USR1", "CHLD", "TSTP"} {
		all = append(all, scene{name: "blocked " + name, changes: []string{"block=" + name}})
	}
	return append(all, scene{name: "background job", changes: []string{"ignore=INT", "ignore=QUIT"}})
}

// files returns changes that open the files with these numbers.
func files(first, last int) (changes []string) {
	for n := first; n <= last; n++ {
		changes = append(changes, fmt.Sprint("file=", n))
	}
	return changes
}

// A command under a lock sees the same world as without a lock and as under flock, except for the
// differences in the list.
func TestWorld(t *testing.T) {
	t.Parallel()
	zktest.NeedProgram(t, "flock", "util-linux")
	zksh, world := needPrograms(t)
	server := newServer(t)
	var mu sync.Mutex
	seen := make([]bool, len(differences))
	t.Run("scenes", func(t *testing.T) {
		for i, s := range scenes() {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				for _, found := range s.compare(t, world, zksh, server, fmt.Sprint("/world-", i)) {
					mu.Lock()
					seen[found] = true
					mu.Unlock()
				}
			})
		}
	})
	for i, d := range differences {
		if !seen[i] {
			t.Errorf("there is no difference in %s; remove it from the list and from the manual", d.key)
		}
	}
}

// compare runs world show in the scene: plain, under flock and under zksh. It returns the indexes of
// the differences that it found, and reports all others.
func (s scene) compare(t *testing.T, world, zksh, server, path string) (found []int) {
	dir := t.TempDir()
	show := func(wrapper ...string) map[string]string {
		args := append([]string{world, "prepare"}, append(s.changes, "--")...)
		args = append(append(args, wrapper...), append([]string{world, "show"}, s.args...)...)
		got := run(t, dir, args...)
		if got.status != 0 {
			t.Errorf("%q: status %d: %s", wrapper, got.status, got.out)
		}
		return parse(got.out)
	}
	plain := show()
	flock := show("/usr/bin/flock", filepath.Join(dir, "lock"))
	locked := show(zksh, "-q", "-server", server, "lock", path, "--")
	for key := range union(plain, locked) {
		if plain[key] == locked[key] {
			continue
		}
		at := slices.IndexFunc(differences, func(d difference) bool {
			return regexp.MustCompile("^(" + d.key + ")$").MatchString(s.name + ": " + key)
		})
		if at < 0 {
			t.Errorf("%s: plain %q, under flock %q, under the lock %q", key, plain[key], flock[key], locked[key])
			continue
		}
		found = append(found, at)
		if differences[at].flock != (flock[key] == locked[key]) {
			t.Errorf("%s: under flock %q, under the lock %q", key, flock[key], locked[key])
		}
	}
	return found
}

// parse returns the lines of world show as a map. A key that appears twice gets both values.
func parse(out string) map[string]string {
	lines := map[string]string{}
	for line := range strings.Lines(out) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		lines[key] += value + "\n"
	}
	return lines
}

// union returns the keys of both maps.
func union(a, b map[string]string) map[string]bool {
	keys := map[string]bool{}
	for _, m := range []map[string]string{a, b} {
		for key := range m {
			keys[key] = true
		}
	}
	return keys
}

// The manual describes all differences.
func TestManualHasTheDifferences(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../shell/manual/locks.md")
	zktest.Must(t, err)
	for _, d := range differences {
		if !strings.Contains(string(page), d.manual) {
			t.Errorf("locks.md does not say %q about %s: %s", d.manual, d.key, d.why)
		}
	}
}

// A file is a file that a test creates before it looks for a program.
type file struct {
	name, text string
	mode       os.FileMode
}

// zksh finds the same program as execvp, and runs the same files.
func TestFindsPrograms(t *testing.T) {
	t.Parallel()
	zktest.NeedProgram(t, "flock", "util-linux")
	zksh, world := needPrograms(t)
	server := newServer(t)
	script := func(name string) file {
		return file{name, "#!/bin/sh\necho \"$0 ran with $# arguments: $*\"\nexit 4\n", 0o755}
	}
	bare := func(name, first string) file {
		return file{name, first + "\necho \"bare $0 ran with $# arguments: $*\"\nexit 5\n", 0o755}
	}
	long := strings.Repeat("x", 300)
	for i, c := range []struct {
		name  string
		files []file
		path  string // "unset" removes it from the environment
		args  []string
	}{
		{name: "PATH unset", path: "unset", args: []string{"true"}},
		{
			name: "PATH unset, with a program here", path: "unset",
			files: []file{script("prog")}, args: []string{"prog"},
		},
		{name: "PATH empty", path: "", files: []file{script("prog")}, args: []string{"prog", "a"}},
		{name: "dot", path: ".:/bin", files: []file{script("prog")}, args: []string{"prog", "a"}},
		{name: "empty entry first", path: ":/bin", files: []file{script("prog")}, args: []string{"prog"}},
		{
			name: "empty entry in the middle", path: "/bin::/usr/bin",
			files: []file{script("prog")}, args: []string{"prog"},
		},
		{name: "empty entry last", path: "/bin:", files: []file{script("prog")}, args: []string{"prog"}},
		{name: "relative folder", path: "b:/bin", files: []file{script("b/prog")}, args: []string{"prog", "x y"}},
		{name: "folder above", path: "../up:/bin", files: []file{script("../up/prog")}, args: []string{"prog"}},
		{
			name: "denied, then found", path: "b:c:/bin",
			files: []file{{"b/prog", "x", 0o644}, script("c/prog")}, args: []string{"prog"},
		},
		{name: "denied only", path: "b:/bin", files: []file{{"b/prog", "x", 0o644}}, args: []string{"prog"}},
		{
			name: "a folder of that name, then found", path: "b:c:/bin",
			files: []file{script("b/prog/inner"), script("c/prog")}, args: []string{"prog"},
		},
		{
			name: "a file in place of a folder", path: "b/prog:c:/bin",
			files: []file{script("b/prog"), script("c/prog")}, args: []string{"prog"},
		},
		{
			name: "a folder that does not exist", path: "/nowhere:b:/bin",
			files: []file{script("b/prog")}, args: []string{"prog"},
		},
		{
			name: "bare script, then another", path: "b:c:/bin",
			files: []file{bare("b/prog", ""), script("c/prog")}, args: []string{"prog", "z"},
		},
		{
			name: "missing interpreter, then found", path: "b:c:/bin",
			files: []file{{"b/prog", "#!/nowhere\n", 0o755}, script("c/prog")}, args: []string{"prog"},
		},
		{name: "not found", path: "/bin", args: []string{"no-such-program"}},
		{name: "no such file", path: "/bin", args: []string{"./no-such-file"}},
		{name: "empty name", path: "/bin", args: []string{""}},
		{name: "a folder", path: "/bin", args: []string{"/tmp"}},
		{name: "a long name", path: "/bin", args: []string{long}},
		{name: "not executable", path: "/bin", files: []file{{"prog", "x", 0o644}}, args: []string{"./prog"}},
		{
			name: "missing interpreter", path: "/bin",
			files: []file{{"prog", "#!/nowhere/x\n", 0o755}}, args: []string{"./prog"},
		},
		{
			name: "script with a slash", path: "/bin",
			files: []file{script("prog")}, args: []string{"./prog", "", "a b"},
		},
		{
			name: "path not in UTF-8", path: "/bin",
			files: []file{script("d\xff/p\xe9")}, args: []string{"./d\xff/p\xe9", "\xe9"},
		},
		{name: "PATH not in UTF-8", path: "d\xff:/bin", files: []file{script("d\xff/prog")}, args: []string{"prog"}},
		{name: "bare script", path: "/bin", files: []file{bare("prog", "")}, args: []string{"./prog", "a", "b c"}},
		{
			name: "bare script with a comment", path: "/bin",
			files: []file{bare("prog", "# comment")}, args: []string{"./prog"},
		},
		{
			name: "bare script with a colon", path: "/bin",
			files: []file{bare("prog", ":")}, args: []string{"./prog", "-n"},
		},
		{
			name: "bare script with a space first", path: "/bin",
			files: []file{bare("prog", " #!/bin/sh")}, args: []string{"./prog"},
		},
		{name: "bare script in PATH", path: ".:/bin", files: []file{bare("prog", "")}, args: []string{"prog", "a"}},
		{
			name: "bare script named like an option", path: ".:/bin",
			files: []file{bare("-x", "")}, args: []string{"-x", "a"},
		},
		{name: "empty file", path: "/bin", files: []file{{"prog", "", 0o755}}, args: []string{"./prog"}},
		{name: "garbage", path: "/bin", files: []file{{"prog", "\x7fELF\x00", 0o755}}, args: []string{"./prog"}},
	} {
		dir := filepath.Join(t.TempDir(), "here")
		zktest.Must(t, os.Mkdir(dir, 0o755))
		for _, f := range c.files {
			name := filepath.Join(dir, f.name)
			zktest.Must(t, os.MkdirAll(filepath.Dir(name), 0o755))
			zktest.Must(t, os.WriteFile(name, []byte(f.text), f.mode))
		}
		try := func(wrapper ...string) result {
			change := "path=" + c.path
			if c.path == "unset" {
				change = "unset=PATH"
			}
			args := append([]string{world, "prepare", change, "--"}, wrapper...)
			return run(t, dir, append(args, c.args...)...)
		}
		plain, locked := try(), try(zksh, "-q", "-server", server, "lock", fmt.Sprint("/find-", i), "--")
		if plain.status == 126 || plain.status == 127 { // plain prints an error of its own
			plain.out, locked.out = "", ""
		}
		if locked != plain {
			flock := try("/usr/bin/flock", filepath.Join(dir, "..", "lock"))
			t.Errorf("%s: plain %+v, under flock %+v, under the lock %+v", c.name, plain, flock, locked)
		}
	}
}
