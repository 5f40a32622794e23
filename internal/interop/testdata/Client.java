import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.api.transaction.CuratorTransactionResult;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryNTimes;
import org.apache.zookeeper.AddWatchMode;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.data.Stat;

/**
 * What Curator makes of a server: argument 1 is its address. All it prints must
 * be the same with any server. At "@cut" it waits for its connection to be cut.
 */
public class Client {
    static final int WAIT = 30;
    static final BufferedReader in = new BufferedReader(new InputStreamReader(System.in));

    static void say(Object... words) {
        StringBuilder b = new StringBuilder();
        for (Object w : words) {
            b.append(b.length() > 0 ? " " : "").append(w instanceof byte[] ? text((byte[]) w) : w);
        }
        System.out.println(b);
        System.out.flush();
    }

    static String text(byte[] b) { return new String(b, StandardCharsets.UTF_8); }

    static byte[] bytes(String s) { return s.getBytes(StandardCharsets.UTF_8); }

    static void fails(Callable<?> what) throws Exception {
        try {
            say("unexpected", what.call());
        } catch (KeeperException e) {
            say(e.code());
        }
    }

    static <T> T next(BlockingQueue<T> q) throws Exception { return q.poll(WAIT, TimeUnit.SECONDS); }

    static CuratorFramework client(String addr) throws Exception {
        CuratorFramework c = CuratorFrameworkFactory.builder().connectString(addr).sessionTimeoutMs(10000)
            .connectionTimeoutMs(10000).retryPolicy(new RetryNTimes(50, 200)).namespace("curator").build();
        c.start();
        say("connected", c.blockUntilConnected(WAIT, TimeUnit.SECONDS));
        return c;
    }

    public static void main(String[] args) throws Exception {
        CuratorFramework a = client(args[0]), b = client(args[0]);

        // CRUD
        say(a.create().creatingParentsIfNeeded().forPath("/deep/node", bytes("one")));
        Stat stat = new Stat();
        say(b.getData().storingStatIn(stat).forPath("/deep/node"), stat.getVersion(), stat.getDataLength());
        say(b.setData().withVersion(0).forPath("/deep/node", bytes("two")).getVersion());
        fails(() -> b.setData().withVersion(0).forPath("/deep/node", bytes("x")));
        fails(() -> b.create().forPath("/deep/node"));
        fails(() -> b.delete().forPath("/deep"));
        fails(() -> b.getData().forPath("/none"));
        say(a.create().withMode(CreateMode.PERSISTENT_SEQUENTIAL).forPath("/deep/s-", bytes("")));
        say(a.create().withMode(CreateMode.CONTAINER).forPath("/container"));
        say(a.create().withTtl(3600000).withMode(CreateMode.PERSISTENT_WITH_TTL).forPath("/ttl"));
        List<String> children = a.getChildren().forPath("/");
        Collections.sort(children);
        say(children, a.checkExists().forPath("/none"));
        for (CuratorTransactionResult r : a.transaction().forOperations(
                a.transactionOp().create().forPath("/t", bytes("t")), a.transactionOp().check().withVersion(1).forPath("/deep/node"),
                a.transactionOp().setData().forPath("/deep/node", bytes("three")), a.transactionOp().delete().forPath("/ttl"))) {
            say(r.getType(), r.getForPath(), r.getError());
        }
        fails(() -> a.transaction().forOperations(
            a.transactionOp().create().forPath("/u", bytes("")), a.transactionOp().check().withVersion(1).forPath("/deep/node")));
        say(a.checkExists().forPath("/u"));

        // watches: of one shot, and persistent
        BlockingQueue<String> events = new LinkedBlockingQueue<>(), states = new LinkedBlockingQueue<>();
        a.getData().usingWatcher((org.apache.zookeeper.Watcher) (WatchedEvent e) -> {
            if (e.getPath() != null) events.add(e.getType() + " " + e.getPath());
        }).forPath("/deep/node");
        b.setData().forPath("/deep/node", bytes("four"));
        say(next(events));
        a.watchers().add().withMode(AddWatchMode.PERSISTENT_RECURSIVE).usingWatcher((org.apache.zookeeper.Watcher) (WatchedEvent e) -> {
            if (e.getPath() != null) events.add(e.getType() + " " + e.getPath());
        }).forPath("/deep");
        b.create().forPath("/deep/x", bytes("1"));
        b.setData().forPath("/deep/x", bytes("2"));
        b.delete().forPath("/deep/x");
        say(next(events), next(events), next(events));
        CuratorCache cache = CuratorCache.build(a, "/deep/node");
        BlockingQueue<String> cached = new LinkedBlockingQueue<>();
        cache.listenable().addListener((type, old, data) -> cached.add(type + " " + text(data.getData())));
        cache.start();
        say(next(cached));
        b.setData().forPath("/deep/node", bytes("five"));
        say(next(cached), next(events));

        // locks and other recipes
        InterProcessMutex lock = new InterProcessMutex(a, "/lock"), rival = new InterProcessMutex(b, "/lock");
        say(lock.acquire(WAIT, TimeUnit.SECONDS), rival.acquire(200, TimeUnit.MILLISECONDS), lock.getParticipantNodes().size());
        BlockingQueue<Boolean> got = new LinkedBlockingQueue<>();
        Thread waiting = new Thread(() -> {
            try {
                got.add(rival.acquire(WAIT, TimeUnit.SECONDS));
                rival.release();
            } catch (Exception e) {
                say(e);
            }
        });
        waiting.start();
        while (lock.getParticipantNodes().size() < 2) Thread.sleep(10);
        lock.release();
        say(next(got));
        waiting.join();
        LeaderLatch first = new LeaderLatch(a, "/leader", "a"), second = new LeaderLatch(b, "/leader", "b");
        first.start();
        say(first.await(WAIT, TimeUnit.SECONDS));
        second.start();
        while (first.getParticipants().size() < 2) Thread.sleep(10);
        say(second.hasLeadership(), second.getLeader().getId());
        first.close();
        say(second.await(WAIT, TimeUnit.SECONDS));
        DistributedAtomicLong n = new DistributedAtomicLong(a, "/long", new RetryNTimes(5, 10));
        say(n.add(5L).postValue(), n.increment().postValue());

        // a cut: sessions, ephemeral znodes, watches and locks outlive it
        long session = a.getZookeeperClient().getZooKeeper().getSessionId();
        a.create().withMode(CreateMode.EPHEMERAL).forPath("/mine");
        say(lock.acquire(WAIT, TimeUnit.SECONDS));
        a.getConnectionStateListenable().addListener((c, state) -> states.add(state.toString()));
        say("@cut");
        in.readLine();
        // What b does may overtake the watches that a brings along, until a has had an answer.
        say(next(states), next(states), a.getZookeeperClient().getZooKeeper().getSessionId() == session, a.checkExists().forPath("/mine") != null);
        b.setData().forPath("/deep/node", bytes("six"));
        say(next(events), next(cached));
        say(b.checkExists().forPath("/mine").getEphemeralOwner() == session, lock.isAcquiredInThisProcess());
        lock.release();
        cache.close();
        a.close();
        say(b.checkExists().forPath("/mine"));
        second.close();
        for (String child : b.getChildren().forPath("/")) {
            b.delete().deletingChildrenIfNeeded().forPath("/" + child);
        }
        say(b.getChildren().forPath("/"));
        b.close();
    }
}
