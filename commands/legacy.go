package commands

import (
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// versionArg returns the znode version that a command line requires. The version is the positional
// argument with the given index, as in ZooKeeper 3.4, or else the value of the flag -v.
func versionArg(fs *pflag.FlagSet, args []string, index int, flag *int64) (int32, error) {
	if index >= len(args) {
		return int32(*flag), nil
	}
	if fs.Changed("version") {
		return 0, Misuse("unexpected word %q: the version is already given with -v", args[index])
	}
	v, err := strconv.ParseInt(args[index], 10, 32)
	if err != nil {
		return 0, Misuse("unexpected word %q: a version must be a whole number; quote a value that contains spaces", args[index])
	}
	return int32(v), nil
}

// watchArg reports whether a command line asks for a watch. The line can do so with a flag or, as
// in ZooKeeper 3.4, with the positional argument at the given index. For the positional argument,
// watchArg prints a reminder to use the flag.
func watchArg(env *Env, args []string, index int, flag bool, old, now string) (bool, error) {
	if index >= len(args) {
		return flag, nil
	}
	switch args[index] {
	case "watch", "true", "1":
		env.Screen.Note("'" + old + "' has been deprecated. Please use '" + now + "' instead.")
		return true, nil
	}
	if strings.HasPrefix(args[index], ">") || strings.HasPrefix(args[index], "|") {
		return false, Misuse("unexpected word %q after the path", args[index]) // the shell adds to the error why the word is unexpected
	}
	return false, Misuse("unexpected word %q after the path; to set a watch, use -w", args[index])
}
