# witness.sh DIR NAME SECTION MODE SECONDS STATUS TERM runs as a command under a lock, and
# writes to a log when it is in the critical section. Of ZooKeeper, it knows only the number
# of the lock's znode and the fencing token. It also takes a lock of the kernel, to find
# overlaps by itself.
#
#   DIR      directory of the log and of all other files
#   NAME     name of the client
#   SECTION  index of the section, counted per client
#   MODE     x (exclusive) or s (shared)
#   SECONDS  length of the section; it continues while the file stay-NAME exists
#   STATUS   exit status
#   TERM     heed or ignore: what to do when it receives SIGTERM
#
# A line of the log has these words:
#
#   NAME SECTION MODE NUMBER TOKEN WHAT TIME
#
# WHAT is begin, beat (it still runs), end, term (SIGTERM ended it), or taken (another process
# has the kernel's lock). In the last case, the file taken describes that process. TIME is
# the uptime of the machine, in seconds.
cd "$1" || exit 1
seconds=$5 status=$6 stay=stay-$2
number=${ZK_LOCK_NODE##*[!0-9]}
line="$2 $3 $4 $number $ZK_LOCK_TOKEN"

say() {
	read -r now rest </proc/uptime
	echo "$line $1 $now" >>log
}

# One file has a name for each mode. The name under which a process has opened the file shows
# the mode of its lock.
: >>kernel
ln kernel "kernel-$4" 2>/dev/null # fails if the name exists already
exec 9>>"kernel-$4"

# gone DIRECTORY reports whether the process with this directory in /proc has ended or been
# killed. A killed process runs no more code, but keeps its files open until the kernel closes
# them. Until then, SIGKILL is pending, or the process has the flag PF_EXITING (4).
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

# look ARGS… sets found to the running processes whose lock of the kernel conflicts with ours.
# ARGS are the arguments of this script.
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

# leave WHAT STATUS kills the processes that this script has started, writes WHAT to the log,
# and exits with STATUS. It unlocks the file explicitly, because a sleep that the beat process
# has just started may still have the file open.
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
# The beat process writes to the log that the section continues. It runs in a session of its
# own, so that signals to the process group of the script do not reach it. It shares the
# kernel's lock.
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
trap '' TERM # the section has ended; SIGTERM must not change its result
leave end "$status"
