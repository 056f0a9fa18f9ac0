/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/top/terminal.h"

#include "tool/failure.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

/* The other screen, so that what was there before comes back; no cursor. */
#define ENTER "\033[?1049h\033[?25l\033[H\033[J"
/* And attributes off. */
#define LEAVE "\033[0m\033[?25h\033[?1049l"

static struct termios original;
static volatile sig_atomic_t entered;

static const int crashes[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};

bool
terminal_is_there(void)
{
	return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
}

void
terminal_write(const char *text, size_t length)
{
	while (length > 0) {
		ssize_t written = write(STDOUT_FILENO, text, length);
		struct pollfd room = {.fd = STDOUT_FILENO, .events = POLLOUT};

		if (written < 0 && errno == EAGAIN)
			poll(&room, 1, -1);
		else if (written < 0 && errno != EINTR)
			return;
		text += MAX(written, 0);
		length -= (size_t)MAX(written, 0);
	}
}

/* Also in the handler of a signal. */
void
terminal_leave(void)
{
	if (!entered)
		return;
	entered = 0;
	terminal_write(LEAVE, strlen(LEAVE));
	tcsetattr(STDIN_FILENO, TCSADRAIN, &original);
}

static void
terminal_crashed(int number)
{
	terminal_leave();
	/* The handler is gone (SA_RESETHAND). */
	raise(number);
}

bool
terminal_enter(GError **error)
{
	struct sigaction action = {.sa_handler = terminal_crashed, .sa_flags = (int)SA_RESETHAND};
	struct termios own;

	if (tcgetattr(STDIN_FILENO, &original) < 0)
		return failure_errno(error, errno, "the terminal");
	own = original;
	own.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	own.c_cc[VMIN] = 1;
	own.c_cc[VTIME] = 0;
	for (size_t i = 0; i < G_N_ELEMENTS(crashes); i++)
		sigaction(crashes[i], &action, NULL);
	entered = 1;
	if (tcsetattr(STDIN_FILENO, TCSADRAIN, &own) < 0) {
		int err = errno;

		entered = 0;
		return failure_errno(error, err, "the terminal");
	}
	terminal_write(ENTER, strlen(ENTER));
	return true;
}

void
terminal_size(unsigned int *columns, unsigned int *lines)
{
	struct winsize size = {0};

	ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
	*columns = size.ws_col ? size.ws_col : 80;
	*lines = size.ws_row ? size.ws_row : 24;
}

/* ---- keys */

static const struct {
	const char *sequence; /* after ESC */
	int key;
} sequences[] = {
	{"[A", KEY_UP},       {"[B", KEY_DOWN},       {"[D", KEY_LEFT},  {"[C", KEY_RIGHT},
	{"OA", KEY_UP},       {"OB", KEY_DOWN},       {"OD", KEY_LEFT},  {"OC", KEY_RIGHT},
	{"[5~", KEY_PAGE_UP}, {"[6~", KEY_PAGE_DOWN}, {"[H", KEY_HOME},  {"[F", KEY_END},
	{"OH", KEY_HOME},     {"OF", KEY_END},        {"[1~", KEY_HOME}, {"[4~", KEY_END},
};

/* The length of the sequence that begins with ESC; 0: it isn't whole. */
static size_t
sequence_length(const char *bytes, size_t count)
{
	size_t length = 2;

	if (count < 2)
		return 0;
	if (bytes[1] != '[')
		return bytes[1] != 'O' ? 1 : count < 3 ? 0 : 3;
	/* Its last byte is the first one from @ on. */
	while (length < count && !(bytes[length] >= '@' && bytes[length] <= '~'))
		length++;
	return length < count ? length + 1 : 0;
}

static int
sequence_key(const char *bytes, size_t length)
{
	if (length == 1)
		return KEY_ESCAPE;
	for (size_t i = 0; i < G_N_ELEMENTS(sequences); i++) {
		if (strlen(sequences[i].sequence) == length - 1 &&
		    strncmp(sequences[i].sequence, bytes + 1, length - 1) == 0)
			return sequences[i].key;
	}
	return KEY_UNKNOWN;
}

size_t
terminal_decode(const char *bytes, size_t count, GArray *keys)
{
	size_t at = 0;

	while (at < count) {
		int key = (unsigned char)bytes[at];
		size_t length = 1;

		if (key == KEY_ESCAPE) {
			length = sequence_length(bytes + at, count - at);
			if (length == 0)
				break;
			key = sequence_key(bytes + at, length);
		}
		g_array_append_val(keys, key);
		at += length;
	}
	return at;
}

bool
terminal_read(GArray *keys)
{
	char bytes[256];
	size_t taken;
	ssize_t count = read(STDIN_FILENO, bytes, sizeof(bytes));

	if (count <= 0)
		return count < 0 && (errno == EINTR || errno == EAGAIN);
	taken = terminal_decode(bytes, (size_t)count, keys);
	/* The terminal sends a sequence at once: what is only its beginning is the key ESC. */
	if (taken < (size_t)count) {
		int key = KEY_ESCAPE;

		g_array_append_val(keys, key);
	}
	return true;
}
