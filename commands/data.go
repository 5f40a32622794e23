package commands

import (
	"context"
	"encoding/base64"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// dataFlags are the flags of create and set that say where the data comes from.
type dataFlags struct {
	flags  *pflag.FlagSet
	base64 *bool
	file   *string
}

func newDataFlags(flags *pflag.FlagSet) dataFlags {
	d := dataFlags{flags: flags}
	d.base64 = flags.BoolP("base64", "b", false, "decode the data from base64")
	d.file = flags.StringP("file", "f", "", "read the data from this `file`")
	FlagFile(flags, "file")
	return d
}

// fromFile reports whether the data comes from a file, so that the line has no data argument.
func (d dataFlags) fromFile() bool { return d.flags.Changed("file") }

// withoutData returns the arguments of a line without a data argument, as if it had an empty one after
// the path.
func withoutData(args []string) []string { return slices.Insert(slices.Clone(args), 1, "") }

// read returns the data from the file, or else that of the first argument. Without both, it is null.
func (d dataFlags) read(ctx context.Context, env *Env, args []string) (data []byte, err error) {
	switch {
	case d.fromFile():
		data, err = LoadFile(ctx, env, *d.file)
	case len(args) > 0:
		data = []byte(args[0])
		noteDash(env, args[0])
	}
	if err != nil || !*d.base64 {
		return data, err
	}
	if data, err = decodeBase64(string(data)); err != nil {
		return nil, Misuse("the data is not valid base64: %s", err)
	}
	return data, nil
}

// noteDash tells the user what a data argument that consists of a lone dash means. To many other
// programs, it means standard input.
func noteDash(env *Env, data string) {
	if data == "-" {
		env.Screen.Note("the data is the character -; to read the data from standard input, use -f -")
	}
}

// decodeBase64 decodes text in the standard base64 alphabet, with or without padding. It ignores
// line breaks.
func decodeBase64(s string) ([]byte, error) {
	s = strings.TrimRight(strings.NewReplacer("\r", "", "\n", "").Replace(s), "=")
	b, err := base64.RawStdEncoding.DecodeString(s)
	if b == nil && err == nil {
		b = []byte{}
	}
	return b, err
}
