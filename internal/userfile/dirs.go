package userfile

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// folder is the name of zksh's folder in the directories that ConfigDir and StateDir return.
const folder = "zksh"

// ConfigDir returns the directory of the user's configuration files.
func ConfigDir() (string, error) {
	switch runtime.GOOS {
	case "darwin", "ios", "plan9", "windows": // these systems have a directory of their own
		return os.UserConfigDir()
	}
	return xdg("XDG_CONFIG_HOME", ".config")
}

// StateDir returns the directory in which programs store files about their own work, such as
// histories. It returns an error if zksh's folder in this directory belongs to another user, because
// that user could replace the files in it.
func StateDir() (string, error) {
	dir, err := xdg("XDG_STATE_HOME", ".local", "state")
	if runtime.GOOS == "windows" && !filepath.IsAbs(os.Getenv("XDG_STATE_HOME")) {
		dir, err = os.UserCacheDir() // AppData\Local; on other systems, files in the cache directory may be deleted at any time
	}
	if err != nil {
		return "", err
	}
	own := filepath.Join(dir, folder)
	if info, err := os.Stat(own); err == nil {
		if err := checkOwner(own, info); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// xdg returns the directory that the environment variable name sets. If it sets none, xdg returns the
// directory below in the user's home directory. As the XDG Base Directory Specification requires, it
// ignores a variable whose value is not an absolute path.
func xdg(name string, below ...string) (string, error) {
	dir := os.Getenv(name)
	if filepath.IsAbs(dir) {
		return dir, nil
	}
	home, err := homeDir()
	switch {
	case err == nil:
		return filepath.Join(append([]string{home}, below...)...), nil
	case dir == "":
		return "", fmt.Errorf("%s is not set, and %w", name, err)
	}
	return "", fmt.Errorf("%s is not an absolute path, and %w", name, err)
}

// homeDir returns the user's home directory. It returns an error if the environment does not set it to
// an absolute path. A relative path would mean another directory in each current directory.
func homeDir() (string, error) {
	home, err := os.UserHomeDir()
	if err == nil && !filepath.IsAbs(home) {
		err = fmt.Errorf("the home directory %q is not an absolute path", home)
	}
	return home, err
}
