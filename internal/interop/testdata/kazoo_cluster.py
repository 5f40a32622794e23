# A plugin for pytest: kazoo's own tests, on servers that run already. KAZOO_SERVERS
# has their addresses, KAZOO_CONTROL a URL below which N/stop cuts off the clients
# of server N, and N/run lets them back.
import os
import types
import urllib.request

import kazoo.testing.harness as harness

ADDRESSES = os.environ["KAZOO_SERVERS"].split(",")
CONTROL = os.environ["KAZOO_CONTROL"]


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
