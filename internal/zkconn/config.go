package zkconn

import (
	"context"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/jute"
)

// ConfigPath is where a server keeps the ensemble's configuration, outside any
// chroot.
const ConfigPath = "/zookeeper/config"

// Reconfig is a change of the ensemble: Joining and Leaving change the present
// configuration, Members replaces it. Empty strings are sent as null.
type Reconfig struct {
	Joining, Leaving, Members string
	Version                   int64 // of the present configuration; -1 is any
}

// Reconfig changes the ensemble and returns the configuration that came of it.
func (c Client) Reconfig(ctx context.Context, r Reconfig) ([]byte, *zk.Stat, error) {
	text := func(s string) []byte {
		if s == "" {
			return nil
		}
		return []byte(s)
	}
	encode := func(e *jute.Encoder, _ string) {
		e.Buffer(text(r.Joining))
		e.Buffer(text(r.Leaving))
		e.Buffer(text(r.Members))
		e.Long(r.Version)
	}
	d, _, err := c.send(ctx, request{op: jute.OpReconfig, write: true, encode: encode})
	if err != nil {
		return nil, nil, err
	}
	data := d.Buffer()
	return data, readStat(d), d.Err()
}
