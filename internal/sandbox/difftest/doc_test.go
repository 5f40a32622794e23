// Package difftest compares the sandbox with ZooKeeper. It sends the same random
// requests of several sessions to both, frame by frame. Every reply, every Stat, every
// event and the whole tree at the end must be the same.
//
//	go test ./internal/sandbox/difftest -seeds 20 -ops 10000 -quota both
//
// Without flags, it runs 4 sequences of 5,000 operations, and enforces quotas in every
// other one. Begin with TestDiff; gen makes the random steps, and formatter turns frames
// into text to compare.
//
// The comparison excludes only:
//
//   - absolute zxids and session ids: zxids are relative to the server's first, session
//     ids are replaced by the order in which the sessions were opened;
//   - differences of times up to two seconds, and the host name;
//   - the order of children, of the results of getEphemerals and whoAmI, of the entries
//     that an auth entry expands to, and of the events when a session ends: ZooKeeper
//     takes these from hash tables;
//   - several requests in flight while quotas are enforced: ZooKeeper checks the quota of
//     a write before it has counted the preceding writes;
//   - credentials and setACL among several requests in flight: credentials can overtake
//     other requests, and ZooKeeper may check a write against the ACL that the preceding
//     setACL is about to replace;
//   - the tick in which a session expires, and the second in which a container is deleted;
//   - the encoding of a character beyond 16 bits in an echoed path that cannot exist: Java
//     writes two surrogates;
//   - output of four-letter commands that depends on more than the sequence of
//     operations: packet counters, latencies, addresses, session deadlines,
//     zk_approximate_data_size (off by a few bytes when quotas are counted), most keys of
//     mntr, and all of envi;
//   - requests that crash ZooKeeper: opcode 21 with a mode that has no time to live and a
//     negative time to live, and malformed text in a zookeeper_stats node.
package difftest
