import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.curator.retry.RetryNTimes;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.recipes.lock.LockListener;
import org.apache.zookeeper.recipes.lock.WriteLock;

/**
 * Clients of Curator, each with a session, and a thread that does what it is told
 * in the lines of the input and answers each:
 *
 *   CLIENT open ADDR MS          CLIENT ok, with a session of so many milliseconds
 *   CLIENT acquire KIND PATH MS  CLIENT got, or busy after so many milliseconds, or
 *                                got again, if it had to look a second time
 *   CLIENT node                  CLIENT NODE, of the C-mutex that it holds
 *   CLIENT release               CLIENT ok
 *   CLIENT revoke NODE           CLIENT ok
 *   CLIENT close                 CLIENT ok
 *
 * or with "CLIENT error TEXT". "CLIENT asked" comes unasked, when the holder of
 * a C-revocable is asked to let go.
 */
public class Locks {
    static final int WAIT = 60;

    static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    static class Client {
        final String name;
        final ExecutorService thread = Executors.newSingleThreadExecutor(); // Curator's locks belong to a thread
        CuratorFramework zk;
        InterProcessLock lock;

        Client(String name) { this.name = name; }

        void run(String[] words) {
            try {
                say(name + " " + answer(words));
            } catch (Exception e) {
                say(name + " error " + e.toString().replace('\n', ' '));
            }
        }

        String answer(String[] words) throws Exception {
            switch (words[1]) {
            case "open":
                zk = CuratorFrameworkFactory.builder().connectString(words[2])
                    .sessionTimeoutMs(Integer.parseInt(words[3])).connectionTimeoutMs(30000).ensembleTracker(false)
                    .retryPolicy(new RetryNTimes(50, 200)).build();
                zk.start();
                return zk.blockUntilConnected(WAIT, TimeUnit.SECONDS) ? "ok" : "error no connection";
            case "acquire":
                lock = lock(words[2], words[3]);
                if (!lock.acquire(Long.parseLong(words[4]), TimeUnit.MILLISECONDS)) {
                    return "busy";
                }
                return lock instanceof Recipe && ((Recipe) lock).again ? "got again" : "got";
            case "node":
                return ((Mutex) lock).getLockPath();
            case "release":
                lock.release();
                return "ok";
            case "revoke":
                Revoker.attemptRevoke(zk, words[2]);
                return "ok";
            case "close":
                zk.close();
                return "ok";
            }
            return "error unknown command";
        }

        InterProcessLock lock(String kind, String path) throws Exception {
            if (kind.startsWith("C-leases:")) {
                return new Leases(zk, path, Integer.parseInt(kind.substring("C-leases:".length())));
            }
            switch (kind) {
            case "C-mutex": return new Mutex(zk, path);
            case "C-write": return new InterProcessReadWriteLock(zk, path).writeLock();
            case "C-read": return new InterProcessReadWriteLock(zk, path).readLock();
            case "C-semaphore": return new InterProcessSemaphoreMutex(zk, path);
            case "Z-lock": return new Recipe(zk.getZookeeperClient().getZooKeeper(), path);
            case "C-revocable":
                InterProcessMutex lock = new InterProcessMutex(zk, path);
                lock.makeRevocable(l -> say(name + " asked"));
                return lock;
            }
            throw new IllegalArgumentException(kind);
        }
    }

    /** A mutex that tells its znode. */
    static class Mutex extends InterProcessMutex {
        Mutex(CuratorFramework zk, String path) { super(zk, path); }

        public String getLockPath() { return super.getLockPath(); }
    }

    /** A semaphore, with the methods of a lock: it takes one lease. */
    static class Leases implements InterProcessLock {
        final InterProcessSemaphoreV2 semaphore;
        Lease lease;

        Leases(CuratorFramework zk, String path, int n) { semaphore = new InterProcessSemaphoreV2(zk, path, n); }

        public void acquire() throws Exception { lease = semaphore.acquire(); }

        public boolean acquire(long time, TimeUnit unit) throws Exception {
            lease = semaphore.acquire(time, unit);
            return lease != null;
        }

        public void release() { semaphore.returnLease(lease); }

        public boolean isAcquiredInThisProcess() { return lease != null; }
    }

    /** ZooKeeper's own recipe, with Curator's methods. */
    static class Recipe implements InterProcessLock, LockListener {
        final CountDownLatch acquired = new CountDownLatch(1);
        final WriteLock lock;
        boolean again;

        Recipe(ZooKeeper zk, String path) { lock = new WriteLock(zk, path, ZooDefs.Ids.OPEN_ACL_UNSAFE, this); }

        public void acquire() throws Exception {
            lock.lock();
            acquired.await();
        }

        public boolean acquire(long time, TimeUnit unit) throws Exception {
            // It has no watch on one before it that goes while it looks about, and would
            // wait forever: it has to look again.
            for (long end = System.nanoTime() + unit.toNanos(time);; again = true) {
                lock.lock();
                if (acquired.await(10, TimeUnit.SECONDS)) {
                    return true;
                }
                if (System.nanoTime() > end) {
                    break;
                }
            }
            lock.unlock();
            return false;
        }

        public void release() { lock.unlock(); }

        public boolean isAcquiredInThisProcess() { return lock.isOwner(); }

        public void lockAcquired() { acquired.countDown(); }

        public void lockReleased() { }
    }

    public static void main(String[] args) throws Exception {
        Map<String, Client> clients = new HashMap<>();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null;) {
            String[] words = line.split(" ");
            Client client = clients.computeIfAbsent(words[0], Client::new);
            client.thread.execute(() -> client.run(words));
        }
        for (Client client : clients.values()) {
            client.thread.shutdown();
        }
    }
}
