// Package difftest compares the sandbox with a real ZooKeeper: the same random
// operations of several sessions go to both, raw on the wire, and every reply,
// every Stat, every event and the whole tree at the end must be the same.
//
//	go test ./internal/sandbox/difftest -seeds 20 -ops 10000 -quota both
//
// Without flags it is 5 sequences of 10,000 operations, with quotas enforced in
// every other one.
//
// What is not compared, and all that is not:
//
//   - zxids and session ids themselves: only relative to the server's first, and
//     by the order in which sessions were opened;
//   - times beyond two seconds' precision, and the host's name;
//   - the order of children, of getEphemerals, of whoAmI, of the entries that an
//     auth entry expands to, and of the events when a session ends: the real
//     server takes these from hash tables;
//   - several requests at once where quotas are enforced: the real one checks a
//     write's quota before the writes ahead of it have been counted;
//   - credentials and setACL among several requests at once: there credentials
//     overtake, and a write may be checked against the ACL that a setACL right
//     ahead of it is about to replace;
//   - when sessions expire to the tick, and containers go to the second;
//   - how a character beyond 16 bits in a path that cannot exist is echoed: Java
//     writes two surrogates;
//   - of the four-letter words, what depends on more than the sequence of
//     operations: counters of packets, latencies, addresses, when sessions
//     expire, zk_approximate_data_size (off by a few bytes where quotas are
//     counted), most of mntr's keys and all of envi;
//   - what ends the real server: opcode 21 with a mode that has no time to live
//     and a negative one, and malformed text in a zookeeper_stats node.
package difftest
