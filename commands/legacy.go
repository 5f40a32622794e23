package commands

import (
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// versionArg returns the version of a line: the positional word i, as in ZooKeeper 3.4, or the
// value of the flag -v.
func versionArg(fs *pflag.FlagSet, args []string, i int, flag *int64) (int32, error) {
	if i >= len(args) {
		return int32(*flag), nil
	}
	if fs.Changed("version") {
		return 0, Misuse("unexpected word %q: the version is already given with -v", args[i])
	}
	v, err := strconv.ParseInt(args[i], 10, 32)
	if err != nil {
		return 0, Misuse("unexpected word %q: a version must be a whole number; quote a value that contains spaces", args[i])
	}
	return int32(v), nil
}

// watchArg reports whether a line asks for a watch, with the flag or with the positional word i,
// as in ZooKeeper 3.4. For the word, it prints a reminder to use the flag.
func watchArg(env *Env, args []string, i int, flag bool, old, now string) (bool, error) {
	if i >= len(args) {
		return flag, nil
	}
	switch args[i] {
	case "watch", "true", "1":
		env.Screen.Note("'" + old + "' has been deprecated. Please use '" + now + "' instead.")
		return true, nil
	}
	if strings.HasPrefix(args[i], ">") || strings.HasPrefix(args[i], "|") {
		return false, Misuse("unexpected word %q after the path", args[i]) // the shell adds the reason
	}
	return false, Misuse("unexpected word %q after the path; to set a watch, use -w", args[i])
}
