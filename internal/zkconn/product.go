package zkconn

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/zkconn/wire"
)

// ClickHouse Keeper ends each session together with its connection, and deletes the session's
// ephemeral znodes. zksh recognizes Keeper by the first line of its answer to srvr. A server that
// does not answer srvr counts as Keeper if it has Keeper's znode but not ZooKeeper's configuration
// znode.
const (
	clickHouseKeeper = "ClickHouse Keeper"   // in the answer to srvr
	keeperVersion    = "/keeper/api_version" // path of a znode that ZooKeeper does not have
)

// Standalone reports whether the current server is standalone, which means that its configuration
// lists no servers. It returns false if the configuration is unreadable or missing. It asks the
// server once for each connection, unless CreateAndList has asked before.
func (p *Pinned) Standalone(ctx context.Context) (bool, error) {
	to, err := p.connection(ctx, "")
	if err != nil {
		return false, err
	}
	return to.inquire(ctx).learn(ctx)
}

// standing records whether the server of a connection is standalone.
type standing struct {
	of    *wire.Conn // the connection to the server; nil if no server was asked yet
	alone bool       // whether the server is standalone
}

// An inquiry consists of requests that determine which product a server is, and whether it is
// standalone. The answers are still pending.
type inquiry struct {
	to     target
	known  standing // result if the server was asked earlier; otherwise the zero value
	config *Pending[Node]
	keeper *Pending[*zk.Stat]
}

// inquire sends the requests of an inquiry, and returns without waiting for the answers. If the
// result is already known, it sends nothing.
func (to target) inquire(ctx context.Context) inquiry {
	if known := underLock(to.l, func() standing { return to.l.standing }); known.of == to.Conn {
		return inquiry{known: known}
	}
	ctx, to.root = untripped(ctx), ""
	return inquiry{to: to, config: begin(ctx, to, GetData(ConfigPath)), keeper: begin(ctx, to, Exists(keeperVersion))}
}

// learn waits for the answers to the inquiry, records the result, and reports whether the server
// is standalone.
func (q inquiry) learn(ctx context.Context) (alone bool, err error) {
	if q.known.of != nil {
		return q.known.alone, nil
	}
	// Wait for the answer to the last request. Once it has arrived, the other answer has arrived,
	// too.
	_, keeper, err := answerOf(ctx, q.keeper)
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

// answerOf waits for the answer to the pending request p. It returns the result and the error code,
// which is codeOK if the server did not reject the request. It returns an error only if no answer
// arrived.
func answerOf[T any](ctx context.Context, p *Pending[T]) (T, Code, error) {
	v, err := p.Wait(ctx)
	if refusal, ok := errors.AsType[*Error](err); ok {
		return v, refusal.Code, nil
	}
	return v, codeOK, err
}

// recognize calls wire.Link.Tie if the server is ClickHouse Keeper. keeper and config are the
// codes that the server returned for two znodes: one that only Keeper and RaftKeeper have, and
// ZooKeeper's configuration. If only the configuration exists, the server is ZooKeeper. Otherwise
// the answer to srvr decides, because ZooKeeper before 3.5 has neither znode. A server that has
// only Keeper's znode and does not answer srvr counts as Keeper.
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
