# A plugin for pytest: kazoo's own tests, on servers that run already. KAZOO_SERVERS
# has their addresses, KAZOO_CONTROL a URL below which N/stop cuts off the clients
# of server N, and N/run lets them back. KAZOO_DONE has the tests that do not run.
import stacks  # before pytest redirects standard error
import faulthandler
import os
import types
import urllib.request

import kazoo.testing.harness as harness
import pytest

ADDRESSES = os.environ["KAZOO_SERVERS"].split(",")
CONTROL = os.environ["KAZOO_CONTROL"]
DONE = set(os.environ["KAZOO_DONE"].split("\n"))


# The alarm of pytest-timeout rings once for a test. Nothing ends a tearDown that waits after
# that. On a busy machine, KazooLockTests.test_lock can miss that its thread has released the lock,
# and waits for the alarm. Its tearDown then joins another thread, whose event it never sets.
# Nothing limits the exit of Python either, which joins threads. So a thread in C watches both.
# After twice the limit of a test, it prints the stacks of all threads and ends the process.
@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    limit = 2 * item.config.getoption("timeout")
    faulthandler.dump_traceback_later(limit, exit=True, file=stacks.STDERR)
    yield
    faulthandler.dump_traceback_later(limit, exit=True, file=stacks.STDERR)


def pytest_collection_modifyitems(items):
    items[:] = [item for item in items if item.nodeid not in DONE]


class Server:
    def __init__(self, number, address):
        self.number = number
        self.address = address
        self.client_port = int(address.rsplit(":", 1)[1])
        self.server_info = types.SimpleNamespace(client_port=self.client_port)
        self.running = True

    def tell(self, what):
        urllib.request.urlopen("%s/%d/%s" % (CONTROL, self.number, what), data=b"").close()
        self.running = what == "run"

    def stop(self):
        self.tell("stop")

    def run(self):
        self.tell("run")


class Cluster(list):
    def start(self):
        for server in self:
            server.run()


CLUSTER = Cluster(Server(i, a) for i, a in enumerate(ADDRESSES))
harness.get_global_cluster = lambda: CLUSTER
