package zkconn

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"
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
	k, _, err := p.connection(ctx, "")
	if err != nil {
		return false, err
	}
	if err := k.inquire(ctx).learn(ctx); err != nil {
		return false, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.alone, nil
}

// inquiry is what a server is asked to learn which product it is, and whether it is alone.
type inquiry struct {
	k      *frameConn
	config *Pending[Node]
	keeper *Pending[*zk.Stat]
}

// inquire sends an inquiry and returns at once. It is nil if all is known.
func (k *frameConn) inquire(ctx context.Context) *inquiry {
	k.mu.Lock()
	known := k.known
	k.mu.Unlock()
	if known {
		return nil
	}
	ctx = untripped(ctx)
	return &inquiry{k, begin(ctx, k, "", getData(ConfigPath, nil)), begin(ctx, k, "", exists(keeperVersion, nil))}
}

// learn waits for the answers and takes note of them.
func (q *inquiry) learn(ctx context.Context) error {
	if q == nil {
		return nil
	}
	_, keeper, err := answerOf(ctx, q.keeper) // the last answer first: one wait instead of two
	if err != nil {
		return err
	}
	n, config, err := answerOf(ctx, q.config)
	if err != nil {
		return err
	}
	if err := q.k.recognize(ctx, keeper, config); err != nil {
		return err
	}
	q.k.mu.Lock()
	defer q.k.mu.Unlock()
	q.k.known, q.k.alone = true, config == codeOK && len(n.Data) == 0
	return nil
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
func (k *frameConn) recognize(ctx context.Context, keeper, config Code) error {
	has, configured := keeper == codeOK, config != NoNode
	if configured && !has {
		return nil
	}
	v, err := k.serverVersion(ctx)
	if err != nil {
		return err
	}
	tied := v.product == clickHouseKeeper || v.product == "" && has && !configured
	if tied {
		k.l.tied.Store(true)
	}
	return nil
}
