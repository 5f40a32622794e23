package commands

import "testing"

func TestQuotaForms(t *testing.T) {
	for in, want := range map[string]string{
		"count=3,bytes=-1":  "count=3,bytes=-1",
		"count=3,bytes=-1=": "count=3,bytes=-1",
		"count=3,bytes=-1=;byteHardLimit=-1;countHardLimit=5": "count=3,bytes=-1=;byteHardLimit=-1;countHardLimit=5",
	} {
		q, err := parseQuota([]byte(in))
		if err != nil || q.String() != want {
			t.Errorf("%q: %q %v, want %q", in, q, err, want)
		}
	}
	for _, in := range []string{"", "garbage", "count=", "count=x,bytes=1", "count"} {
		if q, err := parseQuota([]byte(in)); err == nil {
			t.Errorf("%q was read as %q", in, q)
		}
	}
}
