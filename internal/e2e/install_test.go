//go:build unix

package e2e

import (
	"archive/zip"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zksh/zksh/internal/zktest"
)

var goreleaser = flag.String("release", "", "`version` of GoReleaser with which TestRelease builds the release files for this machine, "+
	"such as github.com/goreleaser/goreleaser/v2@v2.15.1; TestGoInstall runs too; set by make full")

func onlyForReleases(t *testing.T) {
	t.Helper()
	if *goreleaser == "" {
		t.Skip("make full runs it, because it takes minutes")
	}
}

// releaseLimit is longer than it takes to compile GoReleaser, or zksh, on a slow machine.
const releaseLimit = 20 * time.Minute

// maxProgram is the maximum size of the stripped program, in bytes.
const maxProgram = 13_000_000

// GoReleaser accepts .goreleaser.yaml. The files that it builds for this machine are those that the
// installation page names, they contain what they should, and a second build has the same bytes.
func TestRelease(t *testing.T) {
	onlyForReleases(t)
	for _, program := range []string{"minisign", "dpkg", "rpm"} {
		zktest.NeedProgram(t, program, program)
	}
	ctx, cancel := context.WithTimeout(context.Background(), releaseLimit)
	defer cancel()
	run := func(dir, name string, args ...string) string {
		t.Helper()
		cmd := zktest.Command(ctx, t, name, args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %q: %v\n%s", name, args, err, out)
		}
		return string(out)
	}
	dir := t.TempDir()
	key, public := filepath.Join(dir, "key"), filepath.Join(dir, "key.pub")
	run(dir, "minisign", "-G", "-W", "-s", key, "-p", public)
	t.Setenv("MINISIGN_KEY_FILE", key)
	t.Setenv("GIT_CONFIG_COUNT", "2")
	t.Setenv("GIT_CONFIG_KEY_0", "safe.directory") // the checkout may belong to another user
	t.Setenv("GIT_CONFIG_VALUE_0", "*")
	t.Setenv("GIT_CONFIG_KEY_1", "remote.origin.url") // the checkout may have no remote
	t.Setenv("GIT_CONFIG_VALUE_1", "https://github.com/zksh/zksh")
	t.Setenv("GOBIN", dir)
	run("../..", "go", "install", *goreleaser)
	program := filepath.Join(dir, "goreleaser")
	run("../..", program, "check")

	// build runs GoReleaser for this machine only, and returns the directory of the release files.
	config := readFile(t, "../../.goreleaser.yaml")
	build := func(name, shell string) string {
		t.Helper()
		out := filepath.Join(dir, name)
		text := "dist: " + out + "\n" + config
		for all, here := range map[string]string{
			"goos: [linux, darwin, windows]": "goos: [linux]", "goarch: [amd64, arm64]": "goarch: [" + runtime.GOARCH + "]",
		} {
			if !strings.Contains(text, all) {
				t.Fatalf(".goreleaser.yaml has no line %q", all)
			}
			text = strings.ReplaceAll(text, all, here)
		}
		file := out + ".yaml"
		zktest.Must(t, os.WriteFile(file, []byte(text), 0o600))
		run("../..", "sh", "-c", shell+`; exec "$0" release --snapshot --clean -f "$1"`, program, file)
		return out
	}
	out := build("one", "umask 022")
	again := build("two", "umask 077; export TZ=Asia/Kathmandu GOFLAGS=-race CGO_ENABLED=1")
	sums := readFile(t, filepath.Join(out, "SHA256SUMS"))
	if diff := cmp.Diff(sums, readFile(t, filepath.Join(again, "SHA256SUMS"))); diff != "" {
		t.Errorf("the builds differ:\n%s", diff)
	}
	run(out, "sha256sum", "--check", "--strict", "SHA256SUMS")
	run(out, "minisign", "-V", "-p", public, "-m", "SHA256SUMS")

	var about struct{ Version string }
	zktest.Must(t, json.Unmarshal([]byte(readFile(t, filepath.Join(out, "metadata.json"))), &about))
	built := wantOnInstallPage(t, out, about.Version)

	const docs, licences = "/usr/share/doc/zksh", "/usr/share/licenses/zksh"
	files := []string{
		"/usr/bin/zksh", docs + "/CHANGELOG.md", docs + "/README.md",
		licences + "/LICENSE", licences + "/THIRD-PARTY-LICENSES", "/usr/share/man/man1/zksh.1.gz",
		"/usr/share/bash-completion/completions/zksh", "/usr/share/fish/vendor_completions.d/zksh.fish",
	}
	wantFiles := func(kind, list string, more ...string) {
		t.Helper()
		var have []string
		for name := range strings.Lines(list) {
			name = "/" + strings.TrimLeft(strings.TrimSpace(name), "./")
			if filepath.Base(name) != "zksh" || slices.Contains(files, name) { // not a folder of zksh
				have = append(have, name)
			}
		}
		have = slices.DeleteFunc(have, func(name string) bool { return strings.HasSuffix(name, "/") || name == "/PKGINFO" })
		slices.Sort(have)
		want := slices.Sorted(slices.Values(append(slices.Clone(files), more...)))
		if diff := cmp.Diff(want, have); diff != "" {
			t.Errorf("%s (-want +have):\n%s", kind, diff)
		}
	}
	root := filepath.Join(dir, "root")
	run(out, "dpkg", "-x", built[".deb"], root)
	wantFiles("deb", run(root, "find", ".", "!", "-type", "d"), "/usr/share/zsh/vendor-completions/_zksh", docs+"/copyright")
	wantFiles("rpm", run(out, "rpm", "-qlp", built[".rpm"]), "/usr/share/zsh/site-functions/_zksh")
	wantFiles("apk", run(out, "tar", "--warning=no-unknown-keyword", "-tzf", built[".apk"]), "/usr/share/zsh/site-functions/_zksh")

	unpacked := filepath.Join(dir, strings.TrimSuffix(built[".tar.gz"], ".tar.gz"))
	run(dir, "tar", "-xzf", filepath.Join(out, built[".tar.gz"]))
	names := strings.Fields(run(unpacked, "find", ".", "-type", "f"))
	slices.Sort(names)
	if diff := cmp.Diff([]string{
		"./CHANGELOG.md", "./LICENSE", "./README.md", "./THIRD-PARTY-LICENSES",
		"./completions/_zksh", "./completions/zksh.bash", "./completions/zksh.fish", "./zksh", "./zksh.1",
	}, names); diff != "" {
		t.Errorf("the archive (-want +have):\n%s", diff)
	}
	program = filepath.Join(unpacked, "zksh")
	version := strings.TrimSpace(run("../..", "git", "describe", "--tags", "--always", "--dirty"))
	if have := run(dir, program, "--version"); have != "zksh "+version+"\n" {
		t.Errorf("the version is %q, want %q", have, version)
	}
	info, err := os.Stat(program)
	zktest.Must(t, err)
	if runtime.GOARCH == "amd64" && info.Size() > maxProgram {
		t.Errorf("zksh has %d bytes; go tool nm -size -sort size lists its largest parts", info.Size())
	}
	texts := readFile(t, filepath.Join(unpacked, "THIRD-PARTY-LICENSES"))
	modules := []string{"Go " + runtime.Version()}
	for line := range strings.Lines(run(dir, "go", "version", "-m", program)) {
		if words := strings.Fields(line); words[0] == "dep" {
			modules = append(modules, words[1]+" "+words[2])
		}
	}
	for _, module := range modules {
		if !strings.Contains(texts, "==== "+module+": ") {
			t.Errorf("the licence of %s is missing", module)
		}
	}
	if len(modules) < 10 {
		t.Errorf("the program contains only the modules %q", modules)
	}
}

// wantOnInstallPage compares the names of the files in the directory of a release with those on the
// installation page. The page has version 0.1.0 and amd64 for Linux. It returns the names by their
// extension.
func wantOnInstallPage(t *testing.T, dir, version string) map[string]string {
	t.Helper()
	page := readFile(t, "../../shell/manual/install.md")
	pattern := regexp.MustCompile(`zksh_0\.1\.0_(\w+?)_[a-z0-9]+((?:\.[a-z]+)+)`)
	named := map[string]bool{}
	for _, name := range pattern.FindAllStringSubmatch(page, -1) {
		named[name[1]+name[2]] = true
	}
	for _, name := range []string{"SHA256SUMS", "SHA256SUMS.minisig"} {
		named[name] = strings.Contains(page, "`"+name+"`")
	}
	want := map[string]bool{"darwin.tar.gz": true, "windows.zip": true} // not built here
	built := map[string]string{}
	entries, err := os.ReadDir(dir)
	zktest.Must(t, err)
	for _, e := range entries {
		name := e.Name()
		here := "zksh_" + version + "_linux_" + runtime.GOARCH
		extension, ours := strings.CutPrefix(name, here)
		switch {
		case e.IsDir(), filepath.Ext(name) == ".json", filepath.Ext(name) == ".yaml": // GoReleaser's own files
		case ours:
			built[extension] = name
			want["linux"+extension] = true
		default:
			want[name] = true
		}
	}
	if diff := cmp.Diff(want, named); diff != "" {
		t.Errorf("the files on the installation page (-built +named):\n%s", diff)
	}
	return built
}

// A program that go install builds from a module proxy prints its version. The proxy is a
// directory here.
func TestGoInstall(t *testing.T) {
	onlyForReleases(t)
	const path, version = "github.com/zksh/zksh", "v0.98.7"
	proxy, work := t.TempDir(), t.TempDir()
	dir := filepath.Join(proxy, path, "@v")
	zktest.Must(t, os.MkdirAll(dir, 0o755))
	out, err := os.Create(filepath.Join(dir, version+".zip"))
	zktest.Must(t, err)
	archive := zip.NewWriter(out)
	for _, name := range sourceFiles(t) {
		w, err := archive.Create(path + "@" + version + "/" + name)
		zktest.Must(t, err)
		_, err = w.Write([]byte(readFile(t, filepath.Join("../..", name))))
		zktest.Must(t, err)
	}
	zktest.Must(t, errors.Join(archive.Close(), out.Close()))
	for name, text := range map[string]string{
		"list": version + "\n", version + ".mod": readFile(t, "../../go.mod"), version + ".info": `{"Version":"` + version + `"}`,
	} {
		zktest.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	ctx, cancel := context.WithTimeout(context.Background(), releaseLimit)
	defer cancel()
	goCommand := func(env []string, args ...string) string {
		cmd := zktest.Command(ctx, t, "go", args...)
		cmd.Dir, cmd.Env = work, append(os.Environ(), env...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("go %q: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	// The dependencies come from the module cache, but this version must not get into it.
	downloads := filepath.Join(goCommand(nil, "env", "GOMODCACHE"), "cache", "download")
	goCommand([]string{
		"GOPROXY=file://" + proxy + ",file://" + downloads, "GOSUMDB=off", "GOMODCACHE=" + filepath.Join(work, "mod"),
		"GOBIN=" + filepath.Join(work, "bin"), "GOFLAGS=-modcacherw -trimpath", "CGO_ENABLED=0",
	}, "install", path+"@"+version)
	have, err := zktest.Command(zktest.Within(t), t, filepath.Join(work, "bin", "zksh"), "--version").Output()
	if want := "zksh " + version + "\n"; err != nil || string(have) != want {
		t.Errorf("%v, %q, want %q", err, have, want)
	}
}

// sourceFiles returns the source files of zksh, tracked by git or not yet committed. If the tree
// is not a git repository, it returns all files except hidden ones and build output.
func sourceFiles(t *testing.T) (names []string) {
	t.Helper()
	cmd := zktest.Command(zktest.Within(t), t, "git", "-c", "safe.directory=*", "ls-files", "--cached", "--others", "--exclude-standard")
	cmd.Dir = "../.."
	if out, err := cmd.Output(); err == nil {
		return slices.DeleteFunc(strings.Fields(string(out)), func(name string) bool {
			_, err := os.Stat(filepath.Join("../..", name))
			return err != nil // removed, and not committed
		})
	}
	err := fs.WalkDir(os.DirFS("../.."), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name != "." && strings.HasPrefix(d.Name(), "."), name == "bin", name == "dist":
			if d.IsDir() {
				return fs.SkipDir
			}
		case !d.IsDir():
			names = append(names, name)
		}
		return nil
	})
	zktest.Must(t, err)
	return names
}
