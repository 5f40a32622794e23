# What kazoo makes of a server: argument 1 is its address. All it prints must be
# the same with any server. At "@cut" it waits for its connection to be cut.
import stacks  # noqa: F401
import logging
import queue
import sys
import threading

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.security import make_digest_acl

logging.disable(logging.CRITICAL)
ROOT = "/kazoo"
WAIT = 30


def say(*words):
    print(*words, flush=True)


def cut():
    say("@cut")
    sys.stdin.readline()


def fails(what, *args, **kw):
    try:
        say("unexpected:", what(*args, **kw))
    except KazooException as e:
        say(type(e).__name__)


def client():
    c = KazooClient(hosts=sys.argv[1], timeout=10)
    c.start(timeout=WAIT)
    return c


a, b = client(), client()
say("connected", a.state, a.server_version()[:2] >= (3, 8))

# CRUD
say(a.create(ROOT, b"root"), a.create(ROOT + "/n", b"one"))
data, stat = b.get(ROOT + "/n")
say(data, stat.version, stat.dataLength, stat.numChildren, stat.ephemeralOwner)
say(b.set(ROOT + "/n", b"two").version, a.get(ROOT + "/n")[0])
fails(a.create, ROOT + "/n")
fails(a.create, ROOT + "/no/parent")
fails(a.set, ROOT + "/n", b"", version=7)
fails(a.get, ROOT + "/none")
fails(a.delete, ROOT)
say(a.create(ROOT + "/n/s-", sequence=True), b.create(ROOT + "/n/s-", sequence=True, ephemeral=True))
say(sorted(a.get_children(ROOT + "/n")), a.exists(ROOT + "/none"), a.exists(ROOT + "/n").children_version)
path, stat = a.create(ROOT + "/stat", b"x", include_data=True)
say(path, stat.version, stat.dataLength)
t = a.transaction()
t.create(ROOT + "/t", b"t")
t.check(ROOT + "/n", 1)
t.set_data(ROOT + "/n", b"three")
t.delete(ROOT + "/stat")
say([type(r).__name__ for r in t.commit()])
t = a.transaction()
t.create(ROOT + "/u")
t.check(ROOT + "/n", 1)
t.delete(ROOT + "/t")
say([type(r).__name__ for r in t.commit()], a.exists(ROOT + "/u"))

# ACLs
a.add_auth("digest", "ann:secret")
a.create(ROOT + "/private", b"p", acl=[make_digest_acl("ann", "secret", all=True)])
say(a.get(ROOT + "/private")[0], [x.id.scheme for x in a.get_acls(ROOT + "/private")[0]])
fails(b.get, ROOT + "/private")

# watches
seen = queue.Queue()


def watcher(e):
    seen.put((e.type, e.path))


a.get(ROOT + "/n", watch=watcher)
a.exists(ROOT + "/later", watch=watcher)
a.get_children(ROOT + "/t", watch=watcher)
b.set(ROOT + "/n", b"four")
say(*seen.get(timeout=WAIT))
b.set(ROOT + "/n", b"five")
b.create(ROOT + "/later")
say(*seen.get(timeout=WAIT))
b.create(ROOT + "/t/child")
say(*seen.get(timeout=WAIT))
datas, kids = queue.Queue(), queue.Queue()
a.DataWatch(ROOT + "/n", lambda data, stat: datas.put((data, stat.version)))
a.ChildrenWatch(ROOT + "/t", lambda children: kids.put(sorted(children)))
say(*datas.get(timeout=WAIT), kids.get(timeout=WAIT))
b.set(ROOT + "/n", b"six")
b.create(ROOT + "/t/second")
say(*datas.get(timeout=WAIT), kids.get(timeout=WAIT))

# locks and other recipes
lock, rival = a.Lock(ROOT + "/lock", "a"), b.Lock(ROOT + "/lock", "b")
say(lock.acquire(timeout=WAIT), rival.acquire(blocking=False), rival.contenders())
got = queue.Queue()
thread = threading.Thread(target=lambda: got.put(rival.acquire(timeout=WAIT)))
thread.start()
while len(lock.contenders()) < 2:
    pass
lock.release()
say(got.get(timeout=WAIT), rival.contenders())
thread.join()
q = a.Queue(ROOT + "/queue")
q.put(b"1")
q.put(b"2", priority=5)
say(b.Queue(ROOT + "/queue").get(), len(q))
c = a.Counter(ROOT + "/counter")
c += 5
say(b.Counter(ROOT + "/counter").value)

# a cut: sessions, ephemeral znodes and locks outlive it, and so does a DataWatch,
# while kazoo gives up plain watches with an event of type NONE
states = queue.Queue()
a.add_listener(states.put)
session = a.client_id[0]
a.create(ROOT + "/mine", ephemeral=True)
a.exists(ROOT + "/after", watch=watcher)
cut()
say(states.get(timeout=WAIT), states.get(timeout=WAIT), a.client_id[0] == session)
say(*seen.get(timeout=WAIT))
say(b.exists(ROOT + "/mine").ephemeralOwner == session, rival.is_acquired, a.retry(lock.contenders))
b.set(ROOT + "/n", b"seven")
say(*datas.get(timeout=WAIT))
rival.release()
a.delete(ROOT + "/private")
a.stop()
say(b.exists(ROOT + "/mine"), b.get_children(ROOT + "/lock"))
b.delete(ROOT, recursive=True)
say(b.exists(ROOT))
b.stop()
