package zkconn

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/zkconn/wire"
)

// ClickHouse Keeper ends a session with its connection, and deletes its ephemeral znodes. It is
// identified by the first line of its answer to srvr, or by its own znode together with a missing
// configuration.
const (
	clickHouseKeeper = "ClickHouse Keeper"   // in the answer to srvr
	keeperVersion    = "/keeper/api_version" // its own znode
)

// Standalone reports whether the current server is standalone: its configuration lists no
// servers. It returns false if the configuration is unreadable or missing. It asks once for each
// connection, unless CreateAndList has asked before.
func (p *Pinned) Standalone(ctx context.Context) (bool, error) {
	to, err := p.connection(ctx, "")
	if err != nil {
		return false, err
	}
	return to.inquire(ctx).learn(ctx)
}

// standing records whether the server of a connection is standalone.
type standing struct {
	of    *wire.Conn // nil until one was asked
	alone bool
}

// An inquiry is the requests that find out which product a server is, and whether it is standalone.
type inquiry struct {
	to     target
	known  standing // the result, if the server was asked before
	config *Pending[Node]
	keeper *Pending[*zk.Stat]
}

// inquire sends an inquiry and returns without waiting.
func (to target) inquire(ctx context.Context) inquiry {
	if known := underLock(to.l, func() standing { return to.l.standing }); known.of == to.Conn {
		return inquiry{known: known}
	}
	ctx, to.root = untripped(ctx), ""
	return inquiry{to: to, config: begin(ctx, to, GetData(ConfigPath)), keeper: begin(ctx, to, Exists(keeperVersion))}
}

// learn waits for the answers, records them, and reports whether the server is standalone.
func (q inquiry) learn(ctx context.Context) (alone bool, err error) {
	if q.known.of != nil {
		return q.known.alone, nil
	}
	_, keeper, err := answerOf(ctx, q.keeper) // the last answer first: one wait instead of two
	if err != nil {
		return false, err
	}
	n, config, err := answerOf(ctx, q.config)
	if err != nil {
		return false, err
	}
	if err := q.to.recognize(ctx, keeper, config); err != nil {
		return false, err
	}
	alone = config == codeOK && len(n.Data) == 0
	q.to.l.mu.Lock()
	defer q.to.l.mu.Unlock()
	q.to.l.standing = standing{q.to.Conn, alone}
	return alone, nil
}

// answerOf waits for an answer, and returns a refusal as its code. An error means that none came.
func answerOf[T any](ctx context.Context, p *Pending[T]) (T, Code, error) {
	v, err := p.Wait(ctx)
	if refusal, ok := errors.AsType[*Error](err); ok {
		return v, refusal.Code, nil
	}
	return v, codeOK, err
}

// recognize ties the ensemble, see wire.Link.Tie, if the server is ClickHouse Keeper. keeper and
// config are the results of reading Keeper's znode, which RaftKeeper has as well, and ZooKeeper's
// configuration. If only the configuration exists, it is ZooKeeper. Otherwise srvr decides, since
// ZooKeeper before 3.5 has neither. A server that has only Keeper's znode, and does not answer
// srvr, counts as Keeper.
func (to target) recognize(ctx context.Context, keeper, config Code) error {
	has, configured := keeper == codeOK, config != NoNode
	if configured && !has {
		return nil
	}
	v, err := to.Version(ctx)
	if err == nil && (v.Product == clickHouseKeeper || v.Product == "" && has && !configured) {
		to.l.wire.Tie()
	}
	return err
}
