// world prepares the world of a command, shows it, or works in it. The tests of this package start
// it plain, under flock and under zksh.
//
//	world prepare CHANGE... -- COMMAND [ARG]...   makes the changes, then runs the command
//	world show [ARG]...                           prints what a command can see of its world
//	world work SHARED MS STATUS WAY...            works for MS milliseconds, then exits with STATUS
//
// A language with a runtime of its own cannot do this. The runtime changes the signals before the
// program can look at them, and such a program cannot fork.
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

static void die(const char *what) {
	fprintf(stderr, "world: %s: %s\n", what, strerror(errno));
	exit(120);
}

static int signal_number(const char *name) {
	for (int s = 1; s < NSIG; s++)
		if (sigabbrev_np(s) && strcmp(sigabbrev_np(s), name) == 0)
			return s;
	fprintf(stderr, "world: unknown signal %s\n", name);
	exit(120);
}

static const struct { const char *name; int resource; } limits[] = {
	{"cpu", RLIMIT_CPU}, {"fsize", RLIMIT_FSIZE}, {"data", RLIMIT_DATA}, {"stack", RLIMIT_STACK},
	{"core", RLIMIT_CORE}, {"rss", RLIMIT_RSS}, {"nproc", RLIMIT_NPROC}, {"nofile", RLIMIT_NOFILE},
	{"memlock", RLIMIT_MEMLOCK}, {"as", RLIMIT_AS}, {"locks", RLIMIT_LOCKS},
	{"sigpending", RLIMIT_SIGPENDING}, {"msgqueue", RLIMIT_MSGQUEUE}, {"nice", RLIMIT_NICE},
	{"rtprio", RLIMIT_RTPRIO}, {"rttime", RLIMIT_RTTIME},
};
enum { LIMITS = sizeof limits / sizeof *limits };

// ---- prepare ----

static void set_soft_limit(const char *name, const char *value) {
	for (int i = 0; i < LIMITS; i++)
		if (strcmp(limits[i].name, name) == 0) {
			struct rlimit l;
			if (getrlimit(limits[i].resource, &l) || (l.rlim_cur = atol(value), setrlimit(limits[i].resource, &l)))
				die(name);
			return;
		}
	errno = EINVAL;
	die(name);
}

static void change(char *name, char *value) {
	if (strcmp(name, "ignore") == 0) {
		signal(signal_number(value), SIG_IGN);
	} else if (strcmp(name, "block") == 0) {
		sigset_t set;
		sigemptyset(&set);
		sigaddset(&set, signal_number(value));
		sigprocmask(SIG_BLOCK, &set, NULL);
	} else if (strcmp(name, "file") == 0) { // opens a file under this number and name
		int fd = open(value, O_RDWR | O_CREAT | O_APPEND, 0600);
		if (fd < 0 || (fd != atoi(value) && (dup2(fd, atoi(value)) < 0 || close(fd))))
			die(value);
	} else if (strcmp(name, "close") == 0) {
		close(atoi(value));
	} else if (strcmp(name, "umask") == 0) {
		umask(strtol(value, NULL, 8));
	} else if (strcmp(name, "nice") == 0) {
		if (setpriority(PRIO_PROCESS, 0, atoi(value)))
			die(name);
	} else if (strcmp(name, "batch") == 0) {
		struct sched_param p = {0};
		if (sched_setscheduler(0, SCHED_BATCH, &p))
			die(name);
	} else if (strcmp(name, "processor") == 0) {
		cpu_set_t set;
		CPU_ZERO(&set);
		CPU_SET(atoi(value), &set);
		if (sched_setaffinity(0, sizeof set, &set))
			die(name);
	} else if (strcmp(name, "oom") == 0) {
		FILE *f = fopen("/proc/self/oom_score_adj", "w");
		if (!f || fputs(value, f) < 0 || fclose(f))
			die(name);
	} else if (strcmp(name, "privileges") == 0) {
		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
			die(name);
	} else if (strcmp(name, "directory") == 0) {
		if (mkdir(value, 0700) && errno != EEXIST || chdir(value))
			die(value);
	} else if (strcmp(name, "removed") == 0) { // the working directory no longer exists
		if (mkdir(value, 0700) || chdir(value) || rmdir(value[0] == '/' ? value : "../removed"))
			die(value);
	} else if (strcmp(name, "session") == 0) {
		if (fork() > 0) { // the leader of a process group cannot call setsid
			int status;
			wait(&status);
			exit(WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
		}
		if (setsid() < 0)
			die(name);
		char sid[16];
		snprintf(sid, sizeof sid, "%d", getsid(0));
		setenv("STARTER_SESSION", sid, 1);
	} else if (strcmp(name, "twice") == 0) { // setenv would not set a variable twice
		static char *all[10000], one[100], two[100];
		int n = 0;
		snprintf(one, sizeof one, "%s=first", value);
		snprintf(two, sizeof two, "%s=second", value);
		all[n++] = one;
		for (char **e = environ; *e && n < 9998; e++)
			all[n++] = *e;
		all[n++] = two;
		environ = all;
	} else if (strcmp(name, "path") == 0) {
		setenv("PATH", value, 1);
	} else if (strcmp(name, "unset") == 0) {
		unsetenv(value);
	} else {
		set_soft_limit(name, value);
	}
}

static int prepare(char **args) {
	char sid[16];
	snprintf(sid, sizeof sid, "%d", getsid(0));
	setenv("STARTER_SESSION", sid, 1);
	for (; *args && strcmp(*args, "--"); args++) {
		char *value = strchr(*args, '=');
		if (value)
			*value++ = 0;
		change(*args, value ? value : "");
	}
	pid_t pid = fork(); // so that the command is not the leader of a process group
	if (pid == 0) {
		execvp(args[1], args + 1);
		int missing = errno == ENOENT;
		fprintf(stderr, "cannot run: %s\n", strerror(errno));
		_exit(missing ? 127 : 126);
	}
	signal(SIGCHLD, SIG_DFL);
	int status;
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		die("fork");
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

// ---- show ----

static void show_bytes(const char *name, const char *bytes) {
	printf("%s ", name);
	for (const unsigned char *c = (const unsigned char *)bytes; *c; c++)
		if (*c > ' ' && *c < 127 && *c != '\\')
			putchar(*c);
		else
			printf("\\x%02x", *c);
	putchar('\n');
}

static void show_link(const char *name, const char *path) {
	char target[PATH_MAX + 1];
	ssize_t n = readlink(path, target, PATH_MAX);
	target[n < 0 ? 0 : n] = 0;
	show_bytes(name, target);
}

static void show_files(void) {
	for (int fd = 0; fd < 1024; fd++) {
		struct stat st;
		if (fstat(fd, &st))
			continue;
		char path[64], name[64], target[PATH_MAX + 1];
		snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
		ssize_t n = readlink(path, target, PATH_MAX);
		target[n < 0 ? 0 : n] = 0;
		char *colon = strchr(target, ':'); // pipe:[NUMBER]
		if (colon)
			*colon = 0;
		snprintf(name, sizeof name, "file.%d", fd);
		printf("%s flags=%x/%x type=%o ", name, fcntl(fd, F_GETFL), fcntl(fd, F_GETFD), st.st_mode & S_IFMT);
		char *slash = strrchr(target, '/');
		show_bytes("name", slash ? slash + 1 : target);
	}
}

static void show_signals(void) {
	sigset_t blocked, pending;
	sigprocmask(SIG_BLOCK, NULL, &blocked);
	sigpending(&pending);
	for (int s = 1; s < NSIG; s++) {
		struct sigaction a;
		if (!sigabbrev_np(s) || sigaction(s, NULL, &a))
			continue;
		printf("signal.%s %s%s%s\n", sigabbrev_np(s), a.sa_handler == SIG_IGN ? "ignored" : "default",
			sigismember(&blocked, s) ? " blocked" : "", sigismember(&pending, s) ? " pending" : "");
	}
}

static void show_status(void) { // the lines of the kernel about this process that do not depend on its number
	static const char *names[] = {"Umask", "Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb",
		"NoNewPrivs", "Seccomp", "Speculation_Store_Bypass", "Cpus_allowed", "Mems_allowed", "THP_enabled", 0};
	FILE *f = fopen("/proc/self/status", "r");
	char line[4096];
	while (f && fgets(line, sizeof line, f)) {
		char *colon = strchr(line, ':');
		for (const char **n = names; colon && *n; n++)
			if (strlen(*n) == (size_t)(colon - line) && strncmp(line, *n, colon - line) == 0) {
				*colon = 0;
				line[strcspn(line, "\n")] = 0;
				colon[1 + strcspn(colon + 1, "\n")] = 0;
				printf("status.%s", line);
				for (char *word = strtok(colon + 1, " \t\n"); word; word = strtok(NULL, " \t\n"))
					printf(" %s", word);
				putchar('\n');
			}
	}
	if (f)
		fclose(f);
}

static void show_file(const char *name, const char *path) {
	FILE *f = fopen(path, "r");
	char line[4096];
	for (int i = 0; f && fgets(line, sizeof line, f); i++) {
		line[strcspn(line, "\n")] = 0;
		printf("%s.%d %s\n", name, i, line);
	}
	if (f)
		fclose(f);
}

static void show_links(const char *name, const char *dir) {
	DIR *d = opendir(dir);
	for (struct dirent *e; d && (e = readdir(d));) {
		char full[PATH_MAX], key[300];
		snprintf(full, sizeof full, "%s/%s", dir, e->d_name);
		snprintf(key, sizeof key, "%s.%s", name, e->d_name);
		if (e->d_name[0] != '.')
			show_link(key, full);
	}
	if (d)
		closedir(d);
}

static int show(int n, char **args, char **env) {
	printf("arguments %d\n", n);
	for (int i = 0; i < n; i++) {
		char key[32];
		snprintf(key, sizeof key, "argument.%d", i);
		show_bytes(key, args[i]);
	}
	show_link("program", "/proc/self/exe");
	for (char **e = env; *e; e++) {
		char key[4096];
		if (strncmp(*e, "STARTER_SESSION=", 16) == 0) // of prepare
			continue;
		snprintf(key, sizeof key, "environment.%.*s", (int)strcspn(*e, "="), *e);
		show_bytes(key, strchr(*e, '=') ? strchr(*e, '=') + 1 : "");
	}
	show_files();
	show_signals();
	show_status();
	show_link("directory", "/proc/self/cwd");
	show_link("root", "/proc/self/root");
	show_links("namespace", "/proc/self/ns");
	show_file("cgroup", "/proc/self/cgroup");
	show_file("oom", "/proc/self/oom_score_adj");
	show_file("personality", "/proc/self/personality");
	show_file("timerslack", "/proc/self/timerslack_ns");
	for (int i = 0; i < LIMITS; i++) {
		struct rlimit l;
		if (getrlimit(limits[i].resource, &l) == 0)
			printf("limit.%s %ld %ld\n", limits[i].name, (long)l.rlim_cur, (long)l.rlim_max);
	}
	printf("nice %d\n", getpriority(PRIO_PROCESS, 0));
	printf("io.priority %ld\n", syscall(SYS_ioprio_get, 1, 0));
	printf("scheduler %d\n", sched_getscheduler(0));
	int death = 0, reaper = 0;
	prctl(PR_GET_PDEATHSIG, &death);
	prctl(PR_GET_CHILD_SUBREAPER, &reaper);
	printf("death.signal %d\n", death);
	printf("reaper %d\n", reaper);
	printf("dumpable %d\n", prctl(PR_GET_DUMPABLE));
	const char *sid = getenv("STARTER_SESSION");
	printf("session.same %d\n", sid && atoi(sid) == getsid(0));
	printf("session.leader %d\n", getsid(0) == getpid());
	printf("group.leader %d\n", getpgrp() == getpid());
	printf("group.parents %d\n", getpgid(getppid()) == getpgrp());
	int tty = open("/dev/tty", O_RDWR | O_NOCTTY);
	printf("terminal %d\n", tty >= 0);
	if (tty >= 0) {
		printf("terminal.foreground %d\n", tcgetpgrp(tty) == getpgrp());
		struct termios t;
		if (tcgetattr(tty, &t) == 0)
			printf("terminal.modes %x %x %x %x\n", t.c_iflag, t.c_oflag, t.c_cflag, t.c_lflag);
	}
	errno = 0;
	waitpid(-1, NULL, WNOHANG);
	printf("children %s\n", errno == ECHILD ? "none" : "some");
	errno = 0;
	setsid();
	printf("setsid %s\n", strerror(errno));
	return 0;
}

// ---- work ----

static struct { _Atomic long last, forks, budget; } *shared; // the file SHARED

static long now(void) {
	struct timespec t;
	clock_gettime(CLOCK_BOOTTIME, &t);
	return t.tv_sec * 1000000000L + t.tv_nsec;
}

static long end; // of all work, even if nobody kills it

static void mark(void) { // records that this process works now
	long n = now(), old = shared->last;
	while (n > old && !atomic_compare_exchange_weak(&shared->last, &old, n))
		;
}

static void work_on(void) { // the more processes there are, the less each of them does
	long pause = shared->forks < 20 ? 5000 : 100000;
	while (now() < end) {
		mark();
		usleep(pause);
	}
}

static int spawn(void) { // fork, at most as often as the budget permits
	if (atomic_fetch_sub(&shared->budget, 1) <= 0)
		return -1;
	shared->forks++;
	return fork();
}

static void close_files(void) {
	for (int fd = 0; fd < 1024; fd++)
		close(fd);
}

static void chain(int session, long pause) { // each process works a little, forks, and ends
	for (;;) {
		if (session)
			setsid();
		mark();
		usleep(pause);
		int pid = spawn();
		if (pid < 0)
			work_on();
		if (pid != 0)
			_exit(0);
	}
}

static void storm(int (*leave)(void)) { // every process forks without a pause
	for (;;) {
		leave();
		mark();
		if (spawn() < 0) {
			work_on();
			_exit(0);
		}
	}
}

static int own_session(void) { return setsid(); }
static int own_group(void) { return setpgid(0, 0); }

static void family(int (*leave)(void)) { // five children, and children of them
	for (int i = 0; i < 5; i++)
		if (spawn() == 0) {
			leave();
			if (i % 2)
				spawn();
			work_on();
			_exit(0);
		}
}

static void daemonize(void) {
	if (spawn() == 0) {
		setsid();
		if (spawn() == 0) {
			close_files();
			work_on();
		}
		_exit(0);
	}
}

static void leave_daemon(int sig) {
	(void)sig;
	if (spawn() == 0) {
		setsid();
		if (spawn() == 0) {
			signal(SIGTERM, SIG_IGN);
			work_on();
		}
		_exit(0);
	}
}

static void kill_group(int sig) {
	(void)sig;
	kill(0, SIGKILL);
}

static void tree(void) {
	if (spawn() != 0)
		return;
	for (;;) {
		if (spawn() < 0) {
			work_on();
			_exit(0);
		}
		if (rand() % 3 == 0)
			setsid();
		usleep(500);
	}
}

static int begin(const char *way) {
	if (strcmp(way, "ignore-term") == 0)
		signal(SIGTERM, SIG_IGN);
	else if (strcmp(way, "ignore-all") == 0)
		for (int s = 1; s < NSIG; s++)
			signal(s, SIG_IGN);
	else if (strcmp(way, "block-all") == 0) {
		sigset_t all;
		sigfillset(&all);
		sigprocmask(SIG_BLOCK, &all, NULL);
	} else if (strcmp(way, "term-daemon") == 0)
		signal(SIGTERM, leave_daemon);
	else if (strcmp(way, "term-kill-group") == 0)
		signal(SIGTERM, kill_group);
	else if (strcmp(way, "close-files") == 0)
		close_files();
	else if (strcmp(way, "reaper") == 0)
		prctl(PR_SET_CHILD_SUBREAPER, 1);
	else if (strcmp(way, "daemon") == 0)
		daemonize();
	else if (strcmp(way, "sessions") == 0)
		family(own_session);
	else if (strcmp(way, "groups") == 0)
		family(own_group);
	else if (strcmp(way, "session-chain") == 0) {
		if (spawn() == 0)
			chain(1, 200);
	} else if (strcmp(way, "group-chain") == 0) {
		if (spawn() == 0)
			chain(0, 200);
	} else if (strcmp(way, "fast-chain") == 0) {
		if (spawn() == 0)
			chain(1, 0);
	} else if (strcmp(way, "session-storm") == 0) {
		if (spawn() == 0)
			storm(own_session);
	} else if (strcmp(way, "group-storm") == 0) {
		if (spawn() == 0)
			storm(own_group);
	} else if (strcmp(way, "tree") == 0)
		tree();
	else if (strcmp(way, "own-session") == 0)
		setsid();
	else if (strcmp(way, "hide-death-signal") == 0)
		prctl(PR_SET_PDEATHSIG, 0);
	else if (strcmp(way, "stop") == 0)
		kill(getpid(), SIGSTOP);
	else
		return 0;
	return 1;
}

static int work(char **args) {
	int fd = open(args[0], O_RDWR | O_CLOEXEC);
	if (fd < 0 || (shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) == MAP_FAILED)
		die(args[0]);
	close(fd);
	end = now() + atol(args[1]) * 1000000L;
	int status = atoi(args[2]);
	mark();
	for (char **way = args + 3; *way; way++)
		if (!begin(*way)) {
			fprintf(stderr, "world: unknown way %s\n", *way);
			return 120;
		}
	work_on();
	return status;
}

int main(int n, char **args, char **env) {
	setvbuf(stdout, NULL, _IOFBF, 1 << 16);
	const char *what = n > 1 ? args[1] : "";
	if (strcmp(what, "prepare") == 0)
		return prepare(args + 2);
	if (strcmp(what, "show") == 0)
		return show(n, args, env);
	if (strcmp(what, "work") == 0 && n > 4)
		return work(args + 2);
	fprintf(stderr, "world: see the comment at its beginning\n");
	return 120;
}
