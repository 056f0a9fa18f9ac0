/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/log_capture.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define MESSAGES 64

struct message {
	enum log_level level;
	char text[512];
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct message messages[MESSAGES];
static unsigned int message_count;

static void
keep(enum log_level level, const char *text)
{
	pthread_mutex_lock(&mutex);
	if (message_count < MESSAGES) {
		messages[message_count].level = level;
		snprintf(messages[message_count].text, sizeof(messages[0].text), "%s", text);
		message_count++;
	}
	pthread_mutex_unlock(&mutex);
}

void
log_capture_begin(void)
{
	message_count = 0;
	log_set_sink(keep);
}

void
log_capture_end(void)
{
	log_set_sink(NULL);
}

unsigned int
log_capture_count(enum log_level level)
{
	unsigned int count = 0;

	pthread_mutex_lock(&mutex);
	for (unsigned int i = 0; i < message_count; i++)
		count += messages[i].level == level;
	pthread_mutex_unlock(&mutex);
	return count;
}

const char *
log_capture_text(enum log_level level, unsigned int n)
{
	const char *text = "";

	pthread_mutex_lock(&mutex);
	for (unsigned int i = 0; i < message_count; i++) {
		if (messages[i].level == level && n-- == 0) {
			text = messages[i].text;
			break;
		}
	}
	pthread_mutex_unlock(&mutex);
	return text;
}

bool
log_capture_has(enum log_level level, const char *text)
{
	unsigned int count = log_capture_count(level);

	for (unsigned int i = 0; i < count; i++) {
		if (strstr(log_capture_text(level, i), text))
			return true;
	}
	return false;
}
