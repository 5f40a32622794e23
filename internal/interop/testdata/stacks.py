# Prints the stacks of all threads when the process receives SIGQUIT, and then ends it, as Java and
# Go do.
import faulthandler
import signal

faulthandler.enable()
faulthandler.register(signal.SIGQUIT, chain=True)
