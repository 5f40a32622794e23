package batch

import (
	"strings"
	"testing"
)

// The message about lines without an answer stays true if the batch continues with later lines.
func TestCutErrorStaysTrue(t *testing.T) {
	for _, c := range []struct {
		err  cutError
		want string
	}{
		{cutError{first: 3, lastSent: 9}, "lines 3 to 9 may also be done, in order and without gaps; no later line had been sent"},
		{cutError{first: 3, lastSent: 9, lastUnsent: 12}, "lines 3 to 9 may also be done, in order and without gaps; the lines after that, up to line 12, were not sent"},
		{cutError{first: 3, lastUnsent: 12}, "all lines before line 3 are done; the lines after that, up to line 12, were not sent"},
	} {
		if got := c.err.Error(); !strings.HasSuffix(got, c.want) {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
