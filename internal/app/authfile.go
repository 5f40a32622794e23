package app

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"

	"github.com/zksh/zksh/internal/zkconn"
)

// readAuthFile reads credentials: lines "scheme credential"; # starts a comment
// line. A file that others can read is refused. No error shows what a line says.
func readAuthFile(name string) ([]zkconn.Credential, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("credentials: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("credentials: %w", err)
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 { // there the mode tells nothing of others
		return nil, fmt.Errorf("credentials: %s is open to others (mode %04o); chmod 600 %s", name, info.Mode().Perm(), name)
	}
	data, err := io.ReadAll(f)
	if err != nil {
		return nil, fmt.Errorf("credentials: %w", err)
	}
	var list []zkconn.Credential
	n := 0
	for line := range strings.Lines(string(data)) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		at := strings.IndexAny(line, " \t")
		if at < 0 {
			return nil, fmt.Errorf("%s:%d: a line is SCHEME CREDENTIAL, such as digest user:password", name, n)
		}
		list = append(list, zkconn.Credential{Scheme: line[:at], Auth: []byte(strings.TrimSpace(line[at:]))})
	}
	return list, nil
}
