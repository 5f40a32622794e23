package zkconn

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/zkconn/wire"
)

// ClickHouse Keeper does not restore a session on another connection: it ends it with its
// connection, and deletes its ephemeral znodes. Two signs identify it: the first line of
// its answer to srvr, and its own znode beside a missing configuration.
const (
	clickHouseKeeper = "ClickHouse Keeper" // in the answer to srvr
	keeperVersion    = "/keeper/api_version"
)

// Standalone reports whether the server of the present connection is one without others:
// those of an ensemble keep their list in the configuration. Where the answer is a refusal
// it is not. The server is asked once for each connection, by CreateAndList if not before.
func (p *Pinned) Standalone(ctx context.Context) (bool, error) {
	to, err := p.connection(ctx, "")
	if err != nil {
		return false, err
	}
	return to.inquire(ctx).learn(ctx)
}

// standing is whether the server of a connection stands alone.
type standing struct {
	of    *wire.Conn // nil until one was asked
	alone bool
}

// inquiry is what a server is asked to learn which product it is, and whether it is alone.
type inquiry struct {
	to     target
	known  standing // if the server was asked before
	config *Pending[Node]
	keeper *Pending[*zk.Stat]
}

// inquire sends an inquiry and returns at once.
func (to target) inquire(ctx context.Context) inquiry {
	if known := underLock(to.l, func() standing { return to.l.standing }); known.of == to.Conn {
		return inquiry{known: known}
	}
	ctx, to.root = untripped(ctx), ""
	return inquiry{to: to, config: begin(ctx, to, GetData(ConfigPath)), keeper: begin(ctx, to, Exists(keeperVersion))}
}

// learn waits for the answers, takes note of them, and returns whether the server is alone.
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

// answerOf waits for an answer of which a refusal is one. An error says that none came.
func answerOf[T any](ctx context.Context, p *Pending[T]) (T, Code, error) {
	v, err := p.Wait(ctx)
	if refusal, ok := errors.AsType[*Error](err); ok {
		return v, refusal.Code, nil
	}
	return v, codeOK, err
}

// recognize notes that the ensemble ends sessions with their connections if it is one of
// ClickHouse Keeper. keeper and config are the answers to the reads of Keeper's znode, which
// RaftKeeper has as well, and of ZooKeeper's configuration. Unless only the configuration
// is there, srvr decides (ZooKeeper before 3.5 has neither). A server with Keeper's znode
// alone that does not answer srvr counts as Keeper.
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
