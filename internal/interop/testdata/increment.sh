# increment.sh STEM PAUSE: adds one to /n, under a lock, in two steps with a pause between
# them. STEM.read tells that the number has been read, STEM.hold keeps the script between
# the steps, and STEM.wrote has the status of the second.
trap '' TERM
v=$(zksh get /n) || exit 1
echo "$ZK_LOCK_NODE $ZK_LOCK_SESSION" > "$1.new" && mv "$1.new" "$1.read"
sleep "$2"
while [ -e "$1.hold" ]; do sleep 0.02; done
zksh set /n $((v + 1))
echo $? > "$1.wrote"
