# What runs under a lock: it knows nothing of ZooKeeper but the end of its znode's
# name and the token. It takes a lock of the kernel's, and writes into the log, in
# the directory DIR, when it begins, that it is still there, and when it ends:
#
#   NAME SECTION MODE NUMBER TOKEN WHAT TIME
#
# DIR NAME SECTION MODE SECONDS STATUS TERM: MODE is x or s, exclusive or shared;
# TERM is heed or ignore. It stays for longer than SECONDS while there is a file
# stay-NAME.
cd "$1" || exit 1
seconds=$5 status=$6 stay=stay-$2
number=${ZK_LOCK_NODE##*[!0-9]}
line="$2 $3 $4 $number $ZK_LOCK_TOKEN"

say() {
	read -r now rest </proc/uptime
	echo "$line $1 $now" >>log
}

# What the program has started ends with it, when that is its own end.
leave() {
	kill -9 $beat $nap 2>/dev/null
	wait
	say "$1"
	exit "$2"
}

case $7 in
ignore) trap '' TERM ;;
heed) trap 'leave term 143' TERM ;;
esac
exec 9>>kernel
say begin
flock -n "-$4" 9 || say taken
# The signs of life come from a session of its own, where no signal to the group
# reaches them. They have the kernel's lock, too.
setsid sh -c 'while :; do
	read -r now rest </proc/uptime
	echo "$0 beat $now" >>log
	sleep 0.05 9>&-
done' "$line" &
beat=$!
sleep "$seconds" 9>&- &
nap=$!
wait $nap
while [ -e "$stay" ]; do sleep 0.05 9>&-; done
trap '' TERM # it is over, whatever comes
leave end "$status"
