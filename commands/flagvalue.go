package commands

import (
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"github.com/zksh/zksh/internal/userfile"
)

// Keys of pflag annotations. flagEmpty marks flags whose empty value has a meaning. The others tell
// the completion which kind of value a flag has.
const (
	flagWords = "words"
	flagFile  = "file"
	flagLine  = "line"
	flagACL   = "acl"
	flagEmpty = "empty"
)

// FlagWords declares which words the flag with this name accepts, so that they can be completed.
func FlagWords(fs *pflag.FlagSet, name string, words ...string) {
	annotate(fs, name, map[string][]string{flagWords: words})
}

// Annotations shared by all flags of the same kind. Flags are declared again for each command line,
// so sharing the annotations saves allocations.
var (
	fileFlag = map[string][]string{flagFile: nil}
	lineFlag = map[string][]string{flagLine: nil}
	aclFlag  = map[string][]string{flagACL: nil}

	emptyFlag = map[string][]string{flagEmpty: nil}
)

// FlagFile declares that the value of the named flag is a file on this machine, so that it can be
// completed and may begin with ~/.
func FlagFile(fs *pflag.FlagSet, name string) {
	annotate(fs, name, fileFlag)
	f := fs.Lookup(name)
	f.Value = fileValue{f.Value}
}

var _ pflag.Value = fileValue{}

// fileValue is the value of a flag that takes the name of a file.
type fileValue struct{ pflag.Value }

// Set implements pflag.Value.
func (v fileValue) Set(name string) error { return v.Value.Set(userfile.Home(name)) }

// FlagLine declares that the value of the named flag is a zksh command line, so that it can be
// completed.
func FlagLine(fs *pflag.FlagSet, name string) { annotate(fs, name, lineFlag) }

// FlagMayBeEmpty declares that an empty value of the named flag has a meaning. Reorder rejects an
// empty value of any other flag.
func FlagMayBeEmpty(fs *pflag.FlagSet, name string) { annotate(fs, name, emptyFlag) }

// annotate sets the annotations of the flag with this name. It panics if there is no such flag,
// which is a programming error.
func annotate(fs *pflag.FlagSet, name string, annotations map[string][]string) {
	fs.Lookup(name).Annotations = annotations
}

// FlagParam describes the value of a flag as a positional argument, for the completion.
func FlagParam(f *pflag.Flag) Param {
	if words := f.Annotations[flagWords]; words != nil {
		return Param{Kind: Choice, Words: words}
	}
	if _, is := f.Annotations[flagFile]; is {
		return Param{Kind: File}
	}
	if _, is := f.Annotations[flagLine]; is {
		return Param{Kind: WholeLine}
	}
	if _, is := f.Annotations[flagACL]; is {
		return Param{Kind: ACL}
	}
	return Param{Kind: Data}
}

// funcValue implements pflag.Value. The function set parses a value and stores it. kind is the type
// of the value in help texts.
type funcValue struct {
	kind string
	set  func(string) error
}

var _ pflag.Value = funcValue{}

func (p funcValue) Set(s string) error { return p.set(s) }
func (p funcValue) String() string     { return "" }
func (p funcValue) Type() string       { return p.kind }

// integer returns a flag value that parses an integer as Java does: decimal, with an optional sign.
// If the flag is repeated, the first value is used, as in zkCli. bad is the error message for an
// invalid number, or empty for a general message.
func integer(value *int64, bits int, bad string) pflag.Value {
	seen := false
	return funcValue{"number", func(s string) error {
		v, err := strconv.ParseInt(s, 10, bits)
		switch {
		case err != nil && bad != "":
			return fmt.Errorf("%s, not %q", bad, s)
		case err != nil:
			return fmt.Errorf("invalid number %q: must be a %d-bit integer", s, bits)
		case !seen:
			*value, seen = v, true
		}
		return nil
	}}
}

// numberFlag declares a flag, such as a version, whose value is an integer of at most the given
// number of bits.
func numberFlag(fs *pflag.FlagSet, bits int, name, short string, def int64, usage string) *int64 {
	fs.VarP(integer(&def, bits, ""), name, short, usage)
	return &def
}

// Duration is the value of a flag that takes a duration. A number without a unit means seconds,
// as in flock.
type Duration struct {
	Value time.Duration
	Given bool // whether the command line sets the flag
}

var _ pflag.Value = (*Duration)(nil)

// Set implements pflag.Value.
func (d *Duration) Set(s string) error {
	v, err := time.ParseDuration(s)
	if n, numErr := strconv.ParseFloat(s, 64); numErr == nil {
		v, err = time.Duration(n*float64(time.Second)), nil
	}
	if err != nil || v < 0 {
		return fmt.Errorf("invalid duration %q; write 5s, 2m or a number of seconds", s)
	}
	d.Value, d.Given = v, true
	return nil
}

// String implements pflag.Value.
func (d *Duration) String() string {
	if d.Value == 0 {
		return ""
	}
	return d.Value.String()
}

// Type implements pflag.Value.
func (d *Duration) Type() string { return "duration" }
