//go:build unix

package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// The image has the OCI format, and its program runs as the image's user, also as a health
// check (servers -q).
func TestImage(t *testing.T) {
	data, err := os.ReadFile(only(t, "_image.tar"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	unpack(t, data, dir)
	files := contents(t, dir)
	if got := string(files["oci-layout"]); got != `{"imageLayoutVersion":"1.0.0"}` {
		t.Errorf("oci-layout: %s", got)
	}
	var top, images index
	decode(t, files["index.json"], &top)
	if len(top.Manifests) != 1 || top.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != testVersion {
		t.Fatalf("%+v", top)
	}
	decode(t, blob(t, files, top.Manifests[0], typeIndex), &images)
	tested := false
	for _, d := range images.Manifests {
		var m manifest
		var c imageConfig
		decode(t, blob(t, files, d, typeManifest), &m)
		decode(t, blob(t, files, m.Config, typeConfig), &c)
		if d.Platform == nil || *d.Platform != c.platform || c.OS != "linux" || len(m.Layers) != 1 {
			t.Fatalf("%+v, %+v, %+v", d, c, m)
		}
		layer := gunzip(t, blob(t, files, m.Layers[0], typeLayer))
		if got := fmt.Sprintf("sha256:%x", sha256.Sum256(layer)); len(c.RootFS.DiffIDs) != 1 || got != c.RootFS.DiffIDs[0] {
			t.Errorf("the layer is %s, and said to be %v", got, c.RootFS.DiffIDs)
		}
		if c.Architecture == runtime.GOARCH {
			tested = true
			runImage(t, layer, c.Config)
		}
	}
	if !tested || len(files) != 3+3*len(images.Manifests) {
		t.Errorf("%d files for %d images", len(files), len(images.Manifests))
	}
}

// blob returns the blob of a descriptor. It ends the test if media type, size or checksum
// differ.
func blob(t *testing.T, files map[string][]byte, d descriptor, mediaType string) []byte {
	t.Helper()
	data := files["blobs/"+strings.Replace(d.Digest, ":", "/", 1)]
	if d.MediaType != mediaType || len(data) != d.Size || fmt.Sprintf("sha256:%x", sha256.Sum256(data)) != d.Digest {
		t.Fatalf("%+v: want %s; %d bytes", d, mediaType, len(data))
	}
	return data
}

// decode decodes JSON into v, which must have all its fields.
func decode(t *testing.T, data []byte, v any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
}

func runImage(t *testing.T, layer []byte, c runConfig) {
	root := t.TempDir()
	unpack(t, layer, root)
	if c.User != "65532:65532" || strings.Join(c.Entrypoint, " ") != "/usr/bin/zksh" {
		t.Fatalf("%+v", c)
	}
	container := func(args ...string) *exec.Cmd {
		cmd := inRoot(t, root, nobody, c.Entrypoint[0], args...)
		cmd.Dir, cmd.Env = c.WorkingDir, c.Env
		return cmd
	}
	wantVersion(t, container())
	server := serve(t, container("--sandbox", "--listen", "127.0.0.1:0"))
	if out, err := container("--server", server, "servers", "-q").CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("a server that serves: %v\n%s", err, out)
	}
	out, err := container("--server", "127.0.0.1:1", "--timeout", "1000", "servers", "-q").CombinedOutput()
	if err == nil {
		t.Errorf("no server: %v\n%s", err, out)
	}
	t.Run("lock", func(t *testing.T) { testLock(t, root, c) })
}

// testLock makes the program in the image run a command under a lock. For this it mounts
// /proc and /dev, as container runtimes do.
func testLock(t *testing.T, root string, c runConfig) {
	if err := exec.Command("unshare", "-m", "mount", "--bind", "/proc", "/mnt").Run(); err != nil {
		t.Skipf("NOT TESTED: a command under a lock in the image, as nothing can be mounted here, which no package changes: %v", err)
	}
	for _, dir := range []string{"proc", "dev"} {
		if err := os.Mkdir(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	script := `root=$1 user=$2; shift 2; mount --rbind /proc "$root/proc" && mount --rbind /dev "$root/dev" && exec chroot --userspec="$user" "$root" "$@"`
	zksh := c.Entrypoint[0]
	out, err := run("", c.Env[1:], "unshare", "-m", "sh", "-c", script, "sh", root, c.User, zksh, "--sandbox", "lock", "/l", "--", zksh, "--version")
	if want := "zksh " + testVersion + "\n"; err != nil || string(out) != want {
		t.Errorf("%v, %q, want %q", err, out, want)
	}
}

// serve starts a sandbox that ends with the test, and returns its address.
func serve(t *testing.T, cmd *exec.Cmd) (addr string) {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait() // reports the signal as an error
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	_, rest, _ := strings.Cut(line, " on ")
	addr, _, found := strings.Cut(rest, ";")
	if err != nil || !found {
		t.Fatal(line, err)
	}
	return addr
}

// The bill of materials contains the modules in the program's build information, and the
// licences of all of them are in the archive.
func TestSBOM(t *testing.T) {
	data, err := os.ReadFile(only(t, here+".cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	var b bom
	decode(t, data, &b)
	archive, err := os.ReadFile(only(t, here+".tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	program := filepath.Join(root, unpack(t, gunzip(t, archive), root), "zksh")
	out, err := run("", nil, "go", "version", "-m", program)
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{"std " + strings.TrimPrefix(runtime.Version(), "go"): true}
	for line := range strings.Lines(string(out)) {
		if words := strings.Fields(line); words[0] == "dep" {
			named[words[1]+" "+words[2]] = true
		}
	}
	text, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := b.Metadata.Component.Hashes[0].Content, fmt.Sprintf("%x", sha256.Sum256(text)); got != want {
		t.Errorf("it is of the program %s, not of %s", got, want)
	}
	if len(named) < 10 || len(b.Components) != len(named) || len(b.Dependencies[0].DependsOn) != len(named) {
		t.Errorf("%d parts, and the program has %d", len(b.Components), len(named))
	}
	licences, err := os.ReadFile(filepath.Join(filepath.Dir(program), notices))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range b.Components {
		if c.Name != "std" && !bytes.Contains(licences, []byte("==== "+c.Name+" "+c.Version+": ")) {
			t.Errorf("the licence of %s is missing", c.Name)
		}
		if !named[c.Name+" "+c.Version] || c.Purl != "pkg:golang/"+c.Name+"@"+c.Version {
			t.Errorf("%+v", c)
		}
	}
	// The program must not be larger than 16 MB.
	if len(text) > 16_000_000 {
		t.Errorf("the program has %d bytes", len(text))
	}
}
