module github.com/zksh/zksh/internal/bench

go 1.26.0

replace github.com/zksh/zksh => ../..

require (
	github.com/go-zookeeper/zk v1.0.4
	github.com/zksh/zksh v0.0.0-00010101000000-000000000000
)
