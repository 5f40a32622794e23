package commands

import (
	"context"

	"github.com/go-zookeeper/zk"
	"github.com/spf13/pflag"

	"github.com/zksh/zksh/internal/render"
)

var setCommand = &Command{
	Name: "set", Group: "Writing", Effect: Writes | Destroys | OneRequest | Joins | Quotas,
	Except:  ByFlag(map[string]Effect{"file": OneRequest}),
	Args:    "[-s] [-v version] [-b] [-f file] [--null] path [data] [version]",
	Summary: "write a znode's data",
	Help: "With a version, set writes the data only if the znode's current dataVersion matches that version.\n\n" +
		"With -f, set reads the data from a file. With -f -, set reads the data from standard input.",
	Limits:   []string{"-f - works only if set is on zksh's own command line: zksh set -f - /app < FILE."},
	Examples: []string{`set -v 3 /app/config "threads=4"`, "set -f config.json /app/config"},
	Params:   []Param{pathParam, {Name: "data", Kind: Data, Optional: true}, {Name: "version", Kind: Data, Optional: true}},
	Look:     lookWith("get -s"),
	Flags: func(fs *pflag.FlagSet) Run {
		stat := fs.BoolP("stat", "s", false, "print the znode's new stat")
		version := numberFlag(fs, 32, "version", "v", -1, "write only if the dataVersion equals this `version`")
		source := newDataFlags(fs)
		null := fs.Bool("null", false, "store null, which is not the same as empty data")
		return func(ctx context.Context, env *Env, args []string) error {
			if *null && (source.fromFile() || *source.base64) {
				return Misuse("--null cannot be combined with data, -f or -b")
			}
			if source.fromFile() || *null {
				args = withoutData(args)
			}
			switch {
			case len(args) < 2:
				return Misuse("missing data")
			case len(args) > 3:
				return Misuse("unexpected word %q: the data is already given by a flag", args[2])
			}
			v, err := versionArg(fs, args, 2, version)
			if err != nil {
				return err
			}
			var data []byte
			if !*null {
				if data, err = source.read(ctx, env, args[1:]); err != nil {
					return err
				}
			}
			if err := guardQuota(env, args[0], data); err != nil {
				return err
			}
			st, err := env.Overwrite(ctx, "set", args[0], data, v)
			return env.answer(err, writeAnswer("set", args[0], st, *stat))
		}
	},
}

// writeAnswer returns the result of the commands set and setAcl. In text output, it shows the
// znode's stat only if show is true.
func writeAnswer(name, path string, stat *zk.Stat, show bool) render.Answer {
	answer := done(name, path, "stat", (*render.Stat)(stat))
	if st := statIfWanted(show, stat); st != nil {
		answer.Stat, answer.Grid = st, st.Table()
	}
	return answer
}
