# Clients of kazoo, each with a session, and a thread that does what it is told
# in the lines of the input and answers each:
#
#   CLIENT open ADDR MS          CLIENT ok, with a session of so many milliseconds
#   CLIENT acquire KIND PATH MS  CLIENT got, or busy after so many milliseconds
#   CLIENT node                  CLIENT NODE, of the lock that it holds
#   CLIENT release               CLIENT ok
#   CLIENT close                 CLIENT ok
#
# or with "CLIENT error TEXT".
import stacks  # noqa: F401
import logging
import queue
import sys
import threading

from kazoo.client import KazooClient
from kazoo.exceptions import LockTimeout

logging.disable(logging.CRITICAL)
WAIT = 60
CURATOR = ("-lock-", "-__WRIT__")
mutex = threading.Lock()


def say(*words):
    with mutex:
        print(*words, flush=True)


class Client:
    def __init__(self, name):
        self.name = name
        self.lines = queue.Queue()
        threading.Thread(target=self.run).start()

    def run(self):
        for words in iter(self.lines.get, None):
            try:
                say(self.name, getattr(self, words[1])(*words[2:]))
            except Exception as e:
                say(self.name, "error", type(e).__name__, str(e).replace("\n", " "))

    def open(self, addr, ms):
        self.zk = KazooClient(hosts=addr, timeout=int(ms) / 1000)
        self.zk.start(timeout=WAIT)
        return "ok"

    def acquire(self, kind, path, ms):
        self.lock = self.kinds(kind, path)
        try:
            return "got" if self.lock.acquire(timeout=int(ms) / 1000) else "busy"
        except LockTimeout:
            return "busy"

    def kinds(self, kind, path):
        if kind == "K-lock":
            return self.zk.Lock(path)
        if kind == "K-write":
            return self.zk.WriteLock(path)
        if kind == "K-read":
            return self.zk.ReadLock(path)
        if kind == "K-lock+x":
            return self.zk.Lock(path, extra_lock_patterns=CURATOR + ("-__READ__",))
        if kind == "K-write+x":
            return self.zk.WriteLock(path, extra_lock_patterns=CURATOR + ("-__READ__",))
        if kind == "K-read+x":
            return self.zk.ReadLock(path, extra_lock_patterns=CURATOR)
        raise ValueError(kind)

    def node(self):
        return self.lock.node

    def release(self):
        return "ok" if self.lock.release() else "error not released"

    def close(self):
        self.zk.stop()
        self.zk.close()
        return "ok"


clients = {}
for line in sys.stdin:
    words = line.split()
    if words[0] not in clients:
        clients[words[0]] = Client(words[0])
    clients[words[0]].lines.put(words)
for c in clients.values():
    c.lines.put(None)
