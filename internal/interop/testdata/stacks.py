# Prints the stacks of all threads when the process receives SIGQUIT, and then ends it, as Java and
# Go do. A program that stops pytest's redirection, or its own, imports this module first.
import faulthandler
import os
import signal

STDERR = os.dup(2)
faulthandler.enable(file=STDERR)
faulthandler.register(signal.SIGQUIT, file=STDERR, chain=True)
