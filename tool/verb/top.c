/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbdloop top: the activity of all devices and local servers, again and again.
 */
#include "tool/failure.h"
#include "tool/show/output.h"
#include "tool/top/terminal.h"
#include "tool/top/view.h"
#include "tool/top/watch.h"
#include "tool/verb/verb.h"

#include "common/standard_fds.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

/* How long answers are waited for, unless the delay is shorter: microseconds. */
#define GRACE (G_USEC_PER_SEC * 3 / 10)

/* Until the first figures are on the screen, and, elsewhere, for the first answers, microseconds.
 */
#define FIRST_DELAY G_USEC_PER_SEC

struct top_options {
	unsigned int json, batch; /* off, on */
	unsigned int count;       /* of reports; 0: no limit */
	char *delay;              /* seconds */
	unsigned int sort;        /* enum row_order */
};

#define FIELD(name_) offsetof(struct top_options, name_)

static const struct option_row top_option_rows[] = {
	OPTION_SWITCH("batch", 'b', FIELD(batch), "print reports, and read no keys"),
	{
		.name = "delay",
		.letter = 'd',
		.type = OPTION_STRING,
		.field = FIELD(delay),
		.initial = "3",
		.arg = "SECONDS",
		.help = "measure for SECONDS each time, such as 0.5",
	},
	OPTION_SWITCH("json", 'J', FIELD(json), "print a JSON object for each interval"),
	{
		.name = "count",
		.letter = 'n',
		.type = OPTION_UINT,
		.field = FIELD(count),
		.max = 1000000000,
		.arg = "COUNT",
		.help = "end after COUNT reports",
	},
	{
		.name = "sort",
		.letter = 'o',
		.type = OPTION_CHOICE,
		.field = FIELD(sort),
		.choices = row_order_names,
		.initial = "iops",
		.arg = "name|iops|read-iops|write-iops|bandwidth|read-bandwidth|write-bandwidth|ms|p99|disk-iops|in-flight|held|connections",
		.help = "begin with the lines sorted by this",
	},
	{.name = NULL},
};

enum form {
	FORM_SCREEN,
	FORM_TEXT,
	FORM_JSON,
};

struct top {
	enum form form;
	struct view view;
	struct watch watch;
	int signals;          /* signalfd; -1: none */
	uint64_t left;        /* reports that are still wanted; UINT64_MAX: no limit */
	int64_t asked, taken; /* when the last interval began to be measured, and the one before;
				 monotonic, microseconds; 0: never */
	bool asking;          /* answers are missing, and waited for */
	bool ends;
};

/* ---- reports */

static void
top_print_json(struct top *top)
{
	json_auto_t *object = json_object();
	json_t *rows = json_array();

	for (guint i = 0; i < top->view.rows->len; i++)
		json_array_append_new(rows, row_object(top->view.rows->pdata[i]));
	json_object_set_new(object, "time", json_real((double)g_get_real_time() / G_USEC_PER_SEC));
	json_object_set_new(object, "seconds",
			    json_real((double)(top->asked - top->taken) / G_USEC_PER_SEC));
	json_object_set_new(object, "searching", json_boolean(top->view.lacks_servers));
	json_object_set_new(object, "denied", json_integer(top->view.denied));
	json_object_set_new(object, "lines", rows);
	output_json(stdout, object, false);
}

static void
top_draw(struct top *top)
{
	g_autoptr(GString) screen = NULL;
	unsigned int columns, lines;

	terminal_size(&columns, &lines);
	screen = view_screen(&top->view, columns, lines);
	terminal_write(screen->str, screen->len);
}

static void
top_report(struct top *top)
{
	GPtrArray *rows = top->view.rows;

	g_ptr_array_set_size(rows, 0);
	for (guint i = 0; i < top->watch.sources->len; i++)
		rows_add(rows, top->watch.sources->pdata[i]);
	top->view.lacks_servers = watch_lacks_servers(&top->watch);
	top->view.denied = watch_denied(&top->watch);
	view_sort(&top->view);
	/* The first answers have nothing to be compared with. */
	if (top->form == FORM_SCREEN)
		top_draw(top);
	else if (top->taken && top->form == FORM_JSON)
		top_print_json(top);
	else if (top->taken)
		view_print(&top->view, stdout);
	if (top->taken && top->left != UINT64_MAX && --top->left == 0)
		top->ends = true;
	if (top->form != FORM_SCREEN && !standard_output_flush())
		top->ends = true;
}

/* ---- signals */

/* Does what the signal would do without us, after the terminal is as it was: the shell sees why the
 * program stopped, or ended. */
static void
top_obey_signal(int number)
{
	sigset_t set;

	terminal_leave();
	sigemptyset(&set);
	sigaddset(&set, number);
	raise(number);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	/* It goes on: the signal was SIGTSTP. */
	pthread_sigmask(SIG_BLOCK, &set, NULL);
}

static bool
top_take_signal(struct top *top, GError **error)
{
	struct signalfd_siginfo info;

	if (read(top->signals, &info, sizeof(info)) != sizeof(info))
		return true;
	if (info.ssi_signo == SIGTSTP)
		top_obey_signal(SIGTSTP);
	switch (info.ssi_signo) {
	case SIGWINCH: break;
	case SIGTSTP:
	case SIGCONT: /* also after SIGSTOP, when somebody else had the terminal meanwhile */
		terminal_leave();
		if (!terminal_enter(error))
			return false;
		break;
	default: top_obey_signal((int)info.ssi_signo);
	}
	top_draw(top);
	return true;
}

/* ---- the loop */

static void
take_keys(struct top *top)
{
	g_autoptr(GArray) keys = g_array_new(FALSE, FALSE, sizeof(int));

	top->ends = !terminal_read(keys);
	for (guint i = 0; i < keys->len && !top->ends; i++) {
		switch (view_key(&top->view, g_array_index(keys, int, i))) {
		case VIEW_DRAW: break;
		case VIEW_MEASURE:
			if (!top->asking)
				top->asked = 0;
			break;
		case VIEW_END: top->ends = true;
		}
	}
	if (!top->ends)
		top_draw(top);
}

/* Until when nothing is to be done unless something happens. */
static int64_t
top_deadline(const struct top *top)
{
	int64_t delay = (int64_t)(top->view.delay * G_USEC_PER_SEC);

	/* Nobody looks at what the first answers are compared with. */
	if (top->asking && top->taken == 0 && top->form != FORM_SCREEN)
		return top->asked + FIRST_DELAY;
	if (top->asking)
		return top->asked + MIN(GRACE, delay / 2);
	if (top->form == FORM_SCREEN && top->taken == 0)
		delay = MIN(delay, FIRST_DELAY);
	return top->asked ? top->asked + delay : 0;
}

/* Waits for keys, signals, answers, or the deadline. */
static bool
wait_for_more(struct top *top, GError **error)
{
	struct pollfd ready[] = {
		{.fd = top->watch.event, .events = POLLIN},
		{.fd = top->form == FORM_SCREEN ? STDIN_FILENO : -1, .events = POLLIN},
		{.fd = top->signals, .events = POLLIN},
	};
	int64_t left = MAX(top_deadline(top) - g_get_monotonic_time(), 0);

	if (poll(ready, G_N_ELEMENTS(ready), (int)((left + 999) / 1000)) < 0 && errno != EINTR)
		return failure_errno(error, errno, "poll");
	if (ready[2].revents && !top_take_signal(top, error))
		return false;
	if (ready[1].revents)
		take_keys(top);
	return true;
}

static bool
run_loop(struct top *top, GError **error)
{
	int64_t began = 0;
	bool good = true;

	while (good && !top->ends) {
		bool all = watch_take(&top->watch);

		if (top->asking && (all || g_get_monotonic_time() >= top_deadline(top))) {
			top->asking = false;
			top_report(top);
			top->taken = top->asked;
		} else if (!top->asking && g_get_monotonic_time() >= top_deadline(top)) {
			began = g_get_monotonic_time();
			watch_ask(&top->watch);
			top->asking = true;
			top->asked = began;
		} else {
			good = wait_for_more(top, error);
		}
	}
	return good;
}

/* Before the first thread starts: a signal that one may take would end the program at once, and
 * leave the terminal as it is. */
static bool
hold_signals(struct top *top, sigset_t *before, GError **error)
{
	static const int all[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGWINCH};
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < G_N_ELEMENTS(all); i++)
		sigaddset(&set, all[i]);
	pthread_sigmask(SIG_BLOCK, &set, before);
	top->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return top->signals >= 0 || failure_errno(error, errno, "no signalfd");
}

static bool
top_check(const struct verb_call *call, GError **error)
{
	const struct top_options *options = call->options;
	double delay;

	return view_parse_delay(options->delay, &delay) ||
	       failure(error, EINVAL, "--delay=%s: must be a number of seconds from %g to %g",
		       options->delay, VIEW_DELAY_LEAST, VIEW_DELAY_MOST);
}

static bool
run_top(const struct verb_call *call, GError **error)
{
	const struct top_options *options = call->options;
	struct top top = {
		.form = options->json    ? FORM_JSON
			: options->batch ? FORM_TEXT
					 : FORM_SCREEN,
		.signals = -1,
		.left = options->count ? options->count : UINT64_MAX,
	};
	sigset_t signals; /* as they were before */
	double delay = 0;
	bool good;

	view_parse_delay(options->delay, &delay);
	if (top.form == FORM_SCREEN && !terminal_is_there())
		return failure(error, ENOTTY,
			       "standard input or output is no terminal: use --batch or --json");
	if (top.form == FORM_SCREEN && !hold_signals(&top, &signals, error))
		return false;
	view_init(&top.view, options->sort, delay);
	good = watch_init(&top.watch, call->operands, error) &&
	       (top.form != FORM_SCREEN || terminal_enter(error)) && run_loop(&top, error);
	terminal_leave();
	watch_fini(&top.watch);
	view_fini(&top.view);
	if (top.form == FORM_SCREEN) {
		close(top.signals);
		pthread_sigmask(SIG_SETMASK, &signals, NULL);
	}
	return good;
}

const struct verb verb_top = {
	.name = "top",
	.help = "watch the activity of devices and servers",
	.synopsis = "[OPTION]... [DEVICE|SOCKET]...",
	.summary =
		"Watches the activity of all devices and servers of this machine, or of the named ones.",
	.rows = top_option_rows,
	.most = -1,
	.options_size = sizeof(struct top_options),
	.check = top_check,
	.run = run_top,
};
