/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/simulation/supervisor.h"

#include "tests/simulation/chance.h"
#include "tests/simulation/client.h"
#include "tests/simulation/descriptor.h"
#include "tests/simulation/disk.h"
#include "tests/simulation/event.h"
#include "tests/simulation/fiend.h"
#include "tests/simulation/limit_model.h"
#include "tests/simulation/file.h"
#include "tests/simulation/io_ring.h"
#include "tests/simulation/kaio.h"
#include "tests/simulation/layer_disk.h"
#include "tests/simulation/memory.h"
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

#define IMAGE "/disk/image"
#define LAYER "/disk/image.layer" /* on the image */
#define OTHER "/disk/other"

/* Lives of servers in a run. */
#define LIVES     12

#define ARGUMENTS 24

int
nbdloopd_main(int argc, char **argv);

uint64_t supervisor_kills, supervisor_crashes, supervisor_ends;
bool supervisor_has_layer;

static struct process *server; /* NULL: none */
static struct process *dying;  /* killed, with calls in the kernel; NULL: none */
static char arguments[ARGUMENTS][96];
static char *argument_list[ARGUMENTS + 1];
static int argument_count, fixed_arguments; /* those that all lives have */
static bool is_local;
static bool engine_is_free; /* the server chooses it */
static struct disk_mood usual_mood;
static bool has_fiend;
static bool twin_writes_at_start;
static int64_t started_at; /* when the server was */
static bool cut_next;      /* this life ends by a power cut */

/* ---- the plan of a run */

static void
supervisor_add_argument(const char *text)
{
	snprintf(arguments[argument_count], sizeof(arguments[0]), "%s", text);
	argument_list[argument_count] = arguments[argument_count];
	argument_list[++argument_count] = NULL;
}

/* Where the next server listens: a server that is not quite dead may still have the other place. */
static void
supervisor_choose_place(void)
{
	static const struct {
		const char *control, *local, *remote, *path, *port;
	} places[] = {
		{"--control=/disk/control", "--unix=/disk/socket", "--port=10809", "/disk/socket",
		 "10809"},
		{"--control=/disk/control-b", "--unix=/disk/socket-b", "--port=10810",
		 "/disk/socket-b", "10810"},
	};
	const unsigned int place = (unsigned int)chance_below(2);

	argument_count = fixed_arguments;
	supervisor_add_argument(places[place].control);
	if (!is_local)
		supervisor_add_argument("--address=127.0.0.1");
	supervisor_add_argument(is_local ? places[place].local : places[place].remote);
	if (client_plan.has_other)
		supervisor_add_argument("--export=other=" OTHER ",read-only=on");
	if (!client_plan.has_twin) {
		if (supervisor_has_layer)
			supervisor_add_argument(client_plan.has_other ? "--export==" LAYER : LAYER);
		else
			supervisor_add_argument(client_plan.has_other ? "--export==" IMAGE : IMAGE);
	} else {
		supervisor_add_argument("--export==" IMAGE ",lock=shared");
		supervisor_add_argument(twin_writes_at_start
						? "--export=twin=" IMAGE ",lock=shared"
						: "--export=twin=" IMAGE
						  ",lock=shared,allow=any,allow-write=uid:7");
	}
	client_plan.address = is_local ? places[place].path : places[place].port;
	operator_plan_control(strchr(places[place].control, '=') + 1);
}

static void
supervisor_choose_arguments(void)
{
	static const char *const directs[] = {"--direct=on", "--direct=off", "--direct=auto"};
	static const char *const engines[] = {"--engine=threads", "--engine=io_uring",
					      "--engine=aio", "--engine=auto"};
	static const char *const threads[] = {"--threads=1", "--threads=2", "--threads=3"};
	const unsigned int engine = (unsigned int)chance_below(4);
	engine_is_free = engine == 3;
	argument_count = 0;
	supervisor_add_argument("nbdloopd");
	supervisor_add_argument("--sandbox=off");
	supervisor_add_argument(engines[engine]);
	supervisor_add_argument(threads[chance_below(3)]);
	supervisor_add_argument(directs[chance_below(3)]);
	supervisor_add_argument("--drain-limit=5");
	/* Parts of blocks are read, changed and written. */
	supervisor_add_argument("--sector-size=1");
	client_plan.crowded = chance_once_in(5);
	if (client_plan.crowded || chance_once_in(4))
		supervisor_add_argument("--depth=2");
	if (chance_once_in(8))
		supervisor_add_argument("--memory=32M");
	is_local = chance_once_in(2);
	/* A layer that is written to cannot be shared. */
	client_plan.has_twin = chance_once_in(3) && !supervisor_has_layer;
	client_plan.has_other = chance_once_in(3);
	twin_writes_at_start = chance_once_in(2);
	fixed_arguments = argument_count;
	supervisor_choose_place();
}

static void
supervisor_choose_moods(void)
{
	usual_mood = (struct disk_mood){
		.eintr = chance_once_in(2) ? 40 : 0,
		.short_one = chance_once_in(2) ? 20 : 0,
		.slow = chance_once_in(2) ? 100 : 0,
		.sticky = chance_once_in(3) ? (chance_once_in(2) ? 1000 : 100) : 0,
		.direct_align = chance_once_in(2) ? 4096 : 512,
	};
	network_mood = (struct network_mood){
		.delay = (int64_t)chance_below(3) * 200 * MICROSECOND,
		.lag = chance_once_in(3) ? 500 : 0,
	};
	io_ring_mood = (struct io_ring_mood){
		.defers = !chance_once_in(3),
		.wait_all = !chance_once_in(3),
		.busy = chance_once_in(3),
		.many_files = chance_once_in(2),
		.small = chance_once_in(4),
		.few_places = chance_once_in(3),
		.old = chance_once_in(4),
		.late_release = chance_once_in(3),
		.refuse = chance_once_in(2) ? 30 : 0,
	};
	/* Without one or both, engine=auto has to do with the rest. */
	io_ring_mood.absent = engine_is_free && chance_once_in(2);
	kaio_mood = (struct kaio_mood){
		.absent = engine_is_free && chance_once_in(2),
		.no_try = chance_once_in(4),
		.late_no_try = chance_once_in(4),
		.refuse = chance_once_in(3) ? 50 : 0,
	};
	client_plan.fails_allowed = chance_once_in(3);
	memory_scarcity = client_plan.fails_allowed && chance_once_in(3)
				  ? (unsigned int)chance_between(30, 3000)
				  : 0;
	if (client_plan.fails_allowed) {
		usual_mood.eio = chance_once_in(2) ? 300 : 0;
		usual_mood.enospc = chance_once_in(2) ? 200 : 0;
		usual_mood.writeback = chance_once_in(3) ? 30 : 0;
		io_ring_mood.cancel = chance_once_in(3) ? 300 : 0;
	}
	client_plan.patience =
		chance_once_in(3) ? (chance_once_in(2) ? 150 : 2000) * MILLISECOND : 0;
	/* The others are answered, also when nobody else is. */
	client_plan.impatient = chance_once_in(2) ? 1 : 3;
	client_plan.window = (unsigned int)chance_between(1, 8);
	client_plan.largest = chance_once_in(3) ? 1500 : 64;
	client_plan.leaves = chance_once_in(3) ? 0 : 60;
	/* They wait for longer than their clients have patience. */
	if (client_plan.crowded) {
		usual_mood.sticky = 50;
		client_plan.patience = 150 * MILLISECOND;
		client_plan.window = 8;
		client_plan.largest = 64;
	}
	disk_mood = usual_mood;
	limit_model_plan(client_plan.largest * SECTOR_SIZE);
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

static void
supervisor_make_other(void)
{
	struct file *file = disk_make(S_IFREG | 0600);
	uint8_t bytes[SECTOR_SIZE];

	for (unsigned int i = 0; i < OTHER_SECTORS; i++) {
		model_fill(OTHER_WRITE, i, bytes);
		disk_write(file, bytes, SECTOR_SIZE, (uint64_t)i * SECTOR_SIZE);
	}
	disk_name(file, OTHER);
	disk_settle_names();
	disk_sync_end(file, disk_sync_begin(file), true);
	disk_put(file);
}

/* No crash and no mistake may change the other image. */
static void
supervisor_check_other(void)
{
	const struct file *file = disk_find(OTHER);
	uint8_t bytes[SECTOR_SIZE];

	for (unsigned int i = 0; file && i < OTHER_SECTORS; i++) {
		model_fill(OTHER_WRITE, i, bytes);
		if (memcmp(file->bytes + (size_t)i * SECTOR_SIZE, bytes, SECTOR_SIZE) != 0)
			trace_fail("sector %u of the other image has changed", i);
	}
}

/* ---- lives */

static void
supervisor_start(void)
{
	const struct file *image = disk_find(supervisor_has_layer ? LAYER : IMAGE);

	for (unsigned int i = 0; i < client_plan.sectors; i++)
		if (image->sectors[supervisor_has_layer ? layer_disk_sector(i) : i].lost)
			model_doubt(i);
	for (unsigned int i = 0; i < MODEL_SNAPSHOTS; i++)
		model_snapshot_removed(i);
	trace("starts a server");
	client_plan.life++;
	started_at = scheduler_now();
	limit_model_begin(true);
	client_plan.rules++;
	client_plan.rules_known = true;
	client_plan.reloads = false;
	client_plan.twin_writes = twin_writes_at_start;
	client_plan.is_up = true;
	client_plan.disconnects = false;
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
	client_plan.is_up = false;
	process_kill(server);
	dying = server;
	server = NULL;
	/* The next one may start before the last calls of this one have ended, and must wait. With
	 * lock=shared it does not wait, and whoever says so sees to that. */
	if (client_plan.has_twin || !chance_once_in(3) || supervisor_may_go_back())
		supervisor_await_death();
	else if (chance_once_in(2))
		supervisor_choose_place();
}

static void
supervisor_crash(void)
{
	trace("cuts the power");
	supervisor_crashes++;
	client_plan.is_up = false;
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
	supervisor_check_other();
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
	supervisor_check_other();
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
	client_plan.is_up = false;
	client_plan.ended_lives |= UINT32_C(1) << client_plan.life;
	/* What waits at a limit is carried out at once. */
	limit_model_begin(false);
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
	usual_mood.unstuck_at = disk_mood.unstuck_at;
	disk_mood = usual_mood;
	if (event_strikes(12, "the disk gets stuck")) {
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

static bool
supervisor_sees_record_sync(void *data)
{
	const struct file *record =
		disk_find(supervisor_has_layer ? LAYER ".changes" : IMAGE ".changes");

	(void)data;
	return process_is_over(server) || (record && record->syncs > 0);
}

/* How often the server syncs the record (TICK_MS of engine/changes/recorder.c). */
#define TICK (5 * SECOND)

/* A life of many seconds with few requests. It ends at any time, or by a power cut in the sync of
 * the record that comes with a tick. */
static bool
supervisor_pass_quiet_time(void)
{
	const int64_t tick = started_at + (int64_t)chance_between(1, 4) * TICK;
	bool lives;

	trace("a quiet time");
	client_plan.wants_marks = true;
	client_plan.pause = (int64_t)chance_between(100, 600) * MILLISECOND;
	if (chance_once_in(2) || tick < scheduler_now()) {
		lives = supervisor_sleep((int64_t)chance_between(1, 25) * SECOND);
	} else {
		lives = supervisor_sleep(tick - scheduler_now());
		scheduler_wait("a sync of the record", supervisor_sees_record_sync, NULL,
			       scheduler_now() + SECOND);
		if (!chance_once_in(2))
			lives = lives && supervisor_sleep((int64_t)chance_below(400) * MICROSECOND);
		cut_next = true;
	}
	client_plan.pause = 0;
	return lives;
}

/* The server is stopped, and goes on later. */
static bool
supervisor_pause_server(void)
{
	const int64_t longest = chance_once_in(4) ? 20 * SECOND : 500 * MILLISECOND,
		      time = (int64_t)chance_below((uint64_t)longest);

	trace("stops the server for a while");
	process_stop(server, scheduler_now() + time);
	model_stand_still(scheduler_now() + time);
	/* It may be killed in that state. */
	return supervisor_sleep((int64_t)chance_below((uint64_t)time + 50 * MILLISECOND));
}

static bool
supervisor_let_live(void)
{
	bool lives = supervisor_sleep(supervisor_choose_time());

	/* Clients need some time to look. */
	if (lives && client_plan.looks)
		lives = supervisor_sleep(100 * MILLISECOND);
	client_plan.looks = false;

	if (lives && event_strikes(12, "stops the server for a while"))
		lives = supervisor_pause_server();
	if (lives && event_strikes(8, "a quiet time"))
		lives = supervisor_pass_quiet_time();
	return lives;
}

static void
supervisor_live(void)
{
	const bool may_fail = dying || client_plan.fails_allowed;

	cut_next = false;
	if (!server)
		supervisor_start();
	supervisor_change_mood();
	/* It reads its configuration again, also while it starts. */
	if (event_strikes(4, "asks for a reload") &&
	    supervisor_sleep((int64_t)chance_below(20) * MILLISECOND)) {
		trace("asks for a reload");
		limit_model_begin(false);
		client_plan.rules++;
		client_plan.rules_known = false;
		client_plan.reloads = true;
		signals_raise(server, SIGHUP);
	}
	if (process_is_over(server) || !supervisor_let_live()) {
		if (!may_fail)
			trace_fail("the server ended by itself");
		trace("the server ended by itself");
		supervisor_await_end();
		scheduler_sleep(100 * MILLISECOND);
	} else if (!cut_next && chance_once_in(5)) {
		if (event_happens("ends the server"))
			supervisor_end();
	} else if (!cut_next && chance_once_in(2)) {
		if (event_happens("kills the server"))
			supervisor_kill();
	} else if (event_happens("cuts the power")) {
		client_plan.looks = cut_next;
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
	memory_scarcity = 0;
	client_plan.leaves = 0;
	client_plan.patience = client_plan.pause = 0;
	before = client_answers;
	if (!server)
		supervisor_start();
	supervisor_sleep(100 * MILLISECOND);
	/* A client may wait for a moment to leave that never comes. */
	scheduler_wait("an answer of the last server", supervisor_sees_answer, &before,
		       scheduler_now() + 6 * SECOND);
	if (client_answers == before || process_is_over(server))
		trace_fail("the last server serves nobody");
	if (has_fiend)
		fiend_stop();
	operator_stop();
	clients_stop();
	supervisor_end();
}

void
supervisor_run(void)
{
	unsigned int clients;

	server = dying = NULL;
	client_plan = (struct client_plan){.life = 0};
	disk_begin();
	supervisor_choose_arguments();
	supervisor_choose_moods();
	supervisor_make_image();
	if (client_plan.has_other)
		supervisor_make_other();
	clients = (unsigned int)chance_between(1, 3);
	client_plan.alone = clients == 1;
	for (unsigned int i = clients; i > 0; i--)
		client_start(i);
	operator_start();
	has_fiend = chance_once_in(2);
	if (has_fiend)
		fiend_start();
	for (unsigned int i = 0; i < LIVES; i++)
		supervisor_live();
	supervisor_finish();
	network_end();
	disk_end();
	model_end();
}
