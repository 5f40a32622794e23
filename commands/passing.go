package commands

import "github.com/spf13/pflag"

// watchPasses is the function Command.Passing of commands with the flag -w or, as in ZooKeeper 3.4,
// the word watch after the path.
func watchPasses(fs *pflag.FlagSet, args []string) string {
	if flag, _ := fs.GetBool("watch"); !flag && len(args) < 2 { // ls2 does not have the flag
		return ""
	}
	return watchPassed(fs, args)
}

// watchPassed is the function Command.Passing of addWatch.
func watchPassed(*pflag.FlagSet, []string) string {
	return "the watch ended with this command; to wait for a change, use the command wait or watch"
}

// ephemeralPasses is the function Command.Passing of create.
func ephemeralPasses(fs *pflag.FlagSet, _ []string) string {
	if ephemeral, err := fs.GetBool("ephemeral"); err != nil || !ephemeral {
		return ""
	}
	return "the ephemeral znode was deleted when this command ended; to hold a lock while a program runs, use " +
		"lock PATH -- COMMAND; to keep the znode for several commands, write them to a script"
}

// authPasses is the function Command.Passing of addauth.
func authPasses(*pflag.FlagSet, []string) string {
	return "the credential was used only for this command; to use it for another command, put --auth-file FILE before that command"
}
