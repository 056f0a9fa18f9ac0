/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/simulation/supervisor.h"

#include "tests/simulation/chance.h"
#include "tests/simulation/client.h"
#include "tests/simulation/descriptor.h"
#include "tests/simulation/disk.h"
#include "tests/simulation/file.h"
#include "tests/simulation/layer_disk.h"
#include "tests/simulation/model.h"
#include "tests/simulation/network.h"
#include "tests/simulation/operator.h"
#include "tests/simulation/process.h"
#include "tests/simulation/remains.h"
#include "tests/simulation/scheduler.h"
#include "tests/simulation/trace.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define IMAGE   "/disk/image"
#define LAYER   "/disk/image.layer" /* on the image */
#define CONTROL "/disk/control"

/* Lives of servers in a run. */
#define LIVES     12

#define ARGUMENTS 24

int
nbdloopd_main(int argc, char **argv);

uint64_t supervisor_kills, supervisor_crashes, supervisor_ends;
bool supervisor_has_layer;

static struct process *server; /* NULL: none */
static struct process *dying;  /* killed, with calls in the kernel; NULL: none */
static char arguments[ARGUMENTS][64];
static char *argument_list[ARGUMENTS + 1];
static int argument_count;
static struct disk_mood usual_mood;

/* ---- the plan of a run */

static void
supervisor_add_argument(const char *text)
{
	snprintf(arguments[argument_count], sizeof(arguments[0]), "%s", text);
	argument_list[argument_count] = arguments[argument_count];
	argument_list[++argument_count] = NULL;
}

static void
supervisor_choose_arguments(void)
{
	static const char *const directs[] = {"--direct=on", "--direct=off", "--direct=auto"};
	static const char *const threads[] = {"--threads=1", "--threads=2", "--threads=3"};
	const bool local = chance_once_in(2);

	argument_count = 0;
	supervisor_add_argument("nbdloopd");
	supervisor_add_argument("--sandbox=off");
	supervisor_add_argument("--engine=threads");
	supervisor_add_argument(threads[chance_below(3)]);
	supervisor_add_argument(directs[chance_below(3)]);
	supervisor_add_argument("--drain-limit=5");
	/* Parts of blocks are read, changed and written. */
	supervisor_add_argument("--sector-size=1");
	if (chance_once_in(4))
		supervisor_add_argument("--depth=2");
	if (chance_once_in(8))
		supervisor_add_argument("--memory=32M");
	supervisor_add_argument("--control=" CONTROL);
	supervisor_add_argument(local ? "--unix=/disk/socket" : "--address=127.0.0.1");
	client_plan.address = local ? "/disk/socket" : "10809";
	supervisor_add_argument(supervisor_has_layer ? LAYER : IMAGE);
}

static void
supervisor_choose_moods(void)
{
	usual_mood = (struct disk_mood){
		.eintr = chance_once_in(2) ? 40 : 0,
		.short_one = chance_once_in(2) ? 20 : 0,
		.slow = chance_once_in(2) ? 100 : 0,
		.sticky = chance_once_in(3) ? 1000 : 0,
		.direct_align = chance_once_in(2) ? 4096 : 512,
	};
	network_mood = (struct network_mood){
		.delay = (int64_t)chance_below(3) * 200 * MICROSECOND,
		.lag = chance_once_in(3) ? 500 : 0,
	};
	client_plan.fails_allowed = chance_once_in(3);
	if (client_plan.fails_allowed) {
		usual_mood.eio = chance_once_in(2) ? 300 : 0;
		usual_mood.enospc = chance_once_in(2) ? 200 : 0;
		usual_mood.writeback = chance_once_in(3) ? 30 : 0;
	}
	client_plan.window = (unsigned int)chance_between(1, 8);
	client_plan.largest = chance_once_in(3) ? 1500 : 64;
	client_plan.leaves = chance_once_in(3) ? 0 : 60;
	disk_mood = usual_mood;
}

/* The bytes of the base are those of a first write. */
static void
supervisor_make_layer(struct file *base)
{
	struct file *layer = disk_make(S_IFREG | 0600);
	const uint64_t write = model_write(MODEL_DATA, 0, client_plan.sectors);

	for (unsigned int i = 0; i < client_plan.sectors; i++) {
		uint8_t bytes[SECTOR_SIZE];

		model_fill(write, i, bytes);
		disk_write(base, bytes, SECTOR_SIZE, (uint64_t)i * SECTOR_SIZE);
	}
	model_write_answered(write, MODEL_DURABLE);
	disk_settle_range(base, 0, base->size);
	layer_disk_make(layer, base, "image", base->size);
	disk_settle_range(layer, 0, layer->size);
	disk_name(layer, LAYER);
	disk_settle_names();
	disk_put(layer);
}

static void
supervisor_make_image(void)
{
	struct file *file = disk_make(S_IFREG | 0600);

	client_plan.sectors = chance_once_in(3) ? 2560 + (unsigned int)chance_below(16) : 2560;
	disk_resize(file, (size_t)client_plan.sectors * SECTOR_SIZE);
	disk_name(file, IMAGE);
	disk_settle_names();
	disk_settle_range(file, 0, file->size);
	model_begin(client_plan.sectors);
	if (supervisor_has_layer)
		supervisor_make_layer(file);
	disk_put(file);
}

/* ---- what the disk has */

static const uint8_t *
supervisor_bytes(void)
{
	return supervisor_has_layer ? layer_disk_bytes(disk_find(LAYER), disk_find(IMAGE))
				    : disk_find(IMAGE)->bytes;
}

/* The server is gone, and nobody changes the disk. After a failed sync, a layer has gone back to
 * what was durable, as after a crash. */
static void
supervisor_look(void)
{
	if (supervisor_has_layer && layer_disk_has_failed(disk_find(LAYER)))
		model_go_back(supervisor_bytes());
	else
		model_look(supervisor_bytes());
}

/* ---- lives */

static void
supervisor_start(void)
{
	const struct file *image = disk_find(supervisor_has_layer ? LAYER : IMAGE);

	for (unsigned int i = 0; i < client_plan.sectors; i++)
		if (image->sectors[supervisor_has_layer ? layer_disk_sector(i) : i].lost)
			model_doubt(i);
	trace("starts a server");
	client_plan.life++;
	server = process_start(nbdloopd_main, argument_count, argument_list);
	scheduler_note_progress();
}

static void
supervisor_bury(void)
{
	if (!dying || !process_is_over(dying))
		return;
	remains_drop(dying);
	dying = NULL;
	/* The next server may have begun to change it. */
	if (server)
		return;
	model_settle();
	supervisor_look();
}

static bool
supervisor_nobody_dies(void *data)
{
	(void)data;
	return !dying || process_is_over(dying);
}

static void
supervisor_await_death(void)
{
	scheduler_wait("a killed server's last calls", supervisor_nobody_dies, NULL, FOR_EVER);
	supervisor_bury();
}

/* What a layer's server has written about a failed sync is looked at before the next one begins. */
static bool
supervisor_may_go_back(void)
{
	return supervisor_has_layer && client_plan.fails_allowed;
}

static void
supervisor_kill(void)
{
	trace("kills the server");
	supervisor_await_death();
	supervisor_kills++;
	process_kill(server);
	dying = server;
	server = NULL;
	/* The next one may start before the last calls of this one have ended. */
	if (!chance_once_in(3) || supervisor_may_go_back())
		supervisor_await_death();
}

static void
supervisor_crash(void)
{
	trace("cuts the power");
	supervisor_crashes++;
	process_lose_power(server);
	remains_drop(server);
	server = NULL;
	if (dying) {
		process_lose_power(dying);
		remains_drop(dying);
		dying = NULL;
	}
	disk_crash();
	model_crash(supervisor_bytes());
}

static bool
supervisor_server_is_over(void *data)
{
	(void)data;
	return process_is_over(server);
}

/* The server has ended, or is about to. */
static void
supervisor_await_end(void)
{
	scheduler_wait("the server's end", supervisor_server_is_over, NULL, FOR_EVER);
	remains_drop(server);
	server = NULL;
	if (dying)
		return;
	model_settle();
	supervisor_look();
}

static void
supervisor_end(void)
{
	trace("ends the server");
	supervisor_ends++;
	client_plan.ended_lives |= UINT32_C(1) << client_plan.life;
	signals_raise(server, SIGTERM);
	supervisor_await_end();
}

/* Lets time pass. Returns false if the server has ended by itself. */
static bool
supervisor_sleep(int64_t ns)
{
	scheduler_wait("a while to pass", supervisor_server_is_over, NULL, scheduler_now() + ns);
	supervisor_bury();
	return !process_is_over(server);
}

static void
supervisor_change_mood(void)
{
	disk_mood = usual_mood;
	if (chance_once_in(12)) {
		disk_mood.stuck_until =
			scheduler_now() + (int64_t)chance_between(1, 4000) * MILLISECOND;
		trace("the disk gets stuck");
	}
}

/* Where requests get stuck, or a killed server's have not ended, it takes long to see what becomes
 * of them. */
static int64_t
supervisor_choose_time(void)
{
	const bool stuck = dying || disk_mood.sticky || disk_mood.stuck_until > scheduler_now();

	if (stuck && chance_once_in(3))
		return (int64_t)chance_below(7000) * MILLISECOND;
	if (chance_once_in(30))
		return (int64_t)chance_below(1500) * MILLISECOND;
	return (int64_t)chance_between(1, 40) * MILLISECOND;
}

static void
supervisor_live(void)
{
	const bool may_fail = dying || client_plan.fails_allowed;

	supervisor_start();
	supervisor_change_mood();
	/* It reads its configuration again, also while it starts. */
	if (chance_once_in(4) && supervisor_sleep((int64_t)chance_below(20) * MILLISECOND)) {
		trace("asks for a reload");
		signals_raise(server, SIGHUP);
	}
	if (process_is_over(server) || !supervisor_sleep(supervisor_choose_time())) {
		if (!may_fail)
			trace_fail("the server ended by itself");
		trace("the server ended by itself");
		supervisor_await_end();
		scheduler_sleep(100 * MILLISECOND);
	} else if (chance_once_in(5)) {
		supervisor_end();
	} else if (chance_once_in(2)) {
		supervisor_kill();
	} else {
		supervisor_crash();
	}
}

static bool
supervisor_sees_answer(void *before)
{
	return client_answers != *(uint64_t *)before;
}

/* All that is there must be there for a client, too; and the server must be able to end. */
static void
supervisor_finish(void)
{
	uint64_t before;

	supervisor_await_death();
	disk_mood = (struct disk_mood){.direct_align = usual_mood.direct_align};
	client_plan.leaves = 0;
	before = client_answers;
	supervisor_start();
	supervisor_sleep(100 * MILLISECOND);
	scheduler_wait("an answer of the last server", supervisor_sees_answer, &before,
		       scheduler_now() + SECOND);
	if (client_answers == before || process_is_over(server))
		trace_fail("the last server serves nobody");
	operator_stop();
	clients_stop();
	supervisor_end();
}

void
supervisor_run(void)
{
	server = dying = NULL;
	client_plan = (struct client_plan){.life = 0};
	disk_begin();
	supervisor_choose_arguments();
	supervisor_choose_moods();
	supervisor_make_image();
	for (unsigned int i = (unsigned int)chance_between(1, 3); i > 0; i--)
		client_start(i);
	operator_start(CONTROL);
	for (unsigned int i = 0; i < LIVES; i++)
		supervisor_live();
	supervisor_finish();
	network_end();
	disk_end();
	model_end();
}
