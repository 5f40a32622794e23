package commands

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestIntegerFlags(t *testing.T) {
	for line, want := range map[string]string{
		"":                       "-1 -1",
		"-v 7":                   "7 -1",
		"-v +7 -v 8":             "7 -1", // the first counts
		"-v -2147483648":         "-2147483648 -1",
		"-b 9223372036854775807": "-1 9223372036854775807",
		"-v 2147483648":          `invalid number "2147483648": must be a 32-bit integer`,
		"-b 9223372036854775808": `invalid number "9223372036854775808": must be a 64-bit integer`,
		"-v 1.5":                 `invalid number "1.5": must be a 32-bit integer`,
		"-v 0x10":                `invalid number "0x10": must be a 32-bit integer`,
		"-v 1_0":                 `invalid number "1_0": must be a 32-bit integer`,
		"-v 5 -v x":              `invalid number "x": must be a 32-bit integer`,
	} {
		fs := newFlagSet("sample")
		version, bytes := numberFlag(fs, 32, "version", "v", -1, ""), numberFlag(fs, 64, "bytes", "b", -1, "")
		line2, err := Reorder(fs, words(line), false)
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		got := ""
		var bad *pflag.InvalidValueError
		switch err := fs.Parse(line2); {
		case errors.As(err, &bad):
			got = bad.Unwrap().Error()
		case err != nil:
			t.Errorf("%s: %v", line, err)
		default:
			got = strings.Join([]string{fmt.Sprint(*version), fmt.Sprint(*bytes)}, " ")
		}
		if got != want {
			t.Errorf("%s: %s; want %s", line, got, want)
		}
	}
}
