# What runs under a lock: it knows nothing of ZooKeeper but the end of its znode's
# name and the token. It takes a lock of the kernel's, and writes into the log, in
# the directory DIR, when it begins, that it is still there, and when it ends:
#
#   NAME SECTION MODE NUMBER TOKEN WHAT TIME
#
# and when it finds the lock taken, which the file taken tells more of.
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

# One file by two names, so that it can be seen from whoever has it how.
: >>kernel
ln kernel "kernel-$4" 2>/dev/null # it is there already
exec 9>>"kernel-$4"

# Who has been killed does no more, but has its files until the kernel gets round
# to it: KILL is pending, or it is on its way out (PF_EXITING, 4 of the flags).
gone() {
	while read -r key value rest; do
		case $key in
		State:) case $value in [XZ]) return 0 ;; esac ;;
		SigPnd: | ShdPnd:) [ $((0x$value & 0x100)) = 0 ] || return 0 ;;
		esac
	done <"$1/status" || return 0
	read -r stat <"$1/stat" || return 0
	set -- ${stat##*) }
	[ $(($7 & 4)) != 0 ]
} 2>/dev/null

# look finds the processes that go on of others that this one excludes.
look() {
	case $4 in
	x) other='kernel-?' ;;
	s) other=kernel-x ;;
	esac
	found=
	for file in $(find /proc/[0-9]*/fd -lname "$(pwd -P)/$other" 2>/dev/null 9>&-); do
		process=${file%/fd/*}
		[ "$process" = /proc/$$ ] || gone "$process" || found="$found $process"
	done
}

# What the program has started ends with it, when that is its own end. The lock is
# given back by word: a nap of the beat's may just have begun, with the file.
leave() {
	kill -9 $beat $nap 2>/dev/null
	wait
	flock -u 9
	say "$1"
	exit "$2"
}

case $7 in
ignore) trap '' TERM ;;
heed) trap 'leave term 143' TERM ;;
esac
say begin
until flock -n "-$4" 9; do
	look "$@"
	if [ -n "$found" ]; then
		say taken
		for process in $found; do
			echo "$line by $(grep -aE 'State|Pnd' "$process/status" | tr '\n\t' '  ')$(tr '\0' ' ' <"$process/cmdline")"
		done >>taken
		break
	fi
	sleep 0.02 9>&-
done
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
