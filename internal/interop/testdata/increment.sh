# increment.sh STEM PAUSE adds one to the number in /n, under a lock. It reads the number,
# sleeps for PAUSE seconds and while the file STEM.hold exists, and then writes the number.
# It creates the file STEM.read when it has read the number, and writes the exit status of
# the write to the file STEM.wrote.
trap '' TERM
v=$(zksh get /n) || exit 1
echo "$ZK_LOCK_NODE $ZK_LOCK_SESSION" > "$1.new" && mv "$1.new" "$1.read"
sleep "$2"
while [ -e "$1.hold" ]; do sleep 0.02; done
zksh set /n $((v + 1))
echo $? > "$1.wrote"
