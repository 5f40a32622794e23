package batch

import (
	"strings"
	"testing"
)

// What is said of lines that were cut off stays true when the batch goes on with the next.
func TestCutErrorStaysTrue(t *testing.T) {
	for _, c := range []struct {
		err  cutError
		want string
	}{
		{cutError{before: 3, sent: 9}, "lines 3 to 9 may also be done, in order and without gaps; no later line had been sent"},
		{cutError{before: 3, sent: 9, unsent: 12}, "lines 3 to 9 may also be done, in order and without gaps; the lines after that, up to line 12, were not sent"},
		{cutError{before: 3, unsent: 12}, "all lines before line 3 are done; the lines after that, up to line 12, were not sent"},
	} {
		if got := c.err.Error(); !strings.HasSuffix(got, c.want) {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
