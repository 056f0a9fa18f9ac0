/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/sandbox/grants.h"

#include "server/config/config_file.h"
#include "server/config/server_config.h"

#include "common/cleanup.h"
#include "nbd/tls/files.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What the C library, its name services and GnuTLS read, and the facts that the kernel tells. */
static const struct {
	const char *path;
	enum grant_use use;
} of_system[] = {
	{"/proc", GRANT_READ},
	{"/sys", GRANT_READ},
	{"/usr", GRANT_READ},
	{"/lib", GRANT_READ},
	{"/lib32", GRANT_READ},
	{"/lib64", GRANT_READ},
	{"/etc/gnutls", GRANT_READ},
	{"/etc/group", GRANT_READ},
	{"/etc/host.conf", GRANT_READ},
	{"/etc/hosts", GRANT_READ},
	{"/etc/ld.so.cache", GRANT_READ},
	{"/etc/localtime", GRANT_READ},
	{"/etc/nsswitch.conf", GRANT_READ},
	{"/etc/passwd", GRANT_READ},
	{"/etc/resolv.conf", GRANT_READ},
	{"/run/systemd/userdb", GRANT_READ},
	{"/var/lib/sss", GRANT_READ},
	{"/dev/null", GRANT_WRITE},
	{"/dev/random", GRANT_READ},
	{"/dev/urandom", GRANT_READ},
	{"/dev/zero", GRANT_READ},
};

static bool
grant_is_below(const char *path, const char *directory)
{
	size_t length = strlen(directory);

	return strncmp(path, directory, length) == 0 && path[length] == '/';
}

/* Directories in which there is too much else, such as programs, keys and what starts programs:
 * there, a file is granted, and not its directory. Those that are for data (/srv, /mnt) are not
 * among them, nor those in which everybody makes files (/tmp): no program may trust these. Nor are
 * home directories, though they have keys: images in them are common, and have records and
 * snapshots beside them. */
static bool
is_too_wide(const char *directory, enum grant_use use)
{
	static const char *const alone[] = {
		"/",    "/dev",       "/home",    "/opt",     "/run",       "/run/user",
		"/var", "/var/cache", "/var/lib", "/var/log", "/var/spool",
	};
	/* All that is below them is as bad, but keys and configuration are read there. */
	static const char *const system[] = {
		"/bin", "/boot", "/etc", "/lib", "/lib32", "/lib64", "/sbin", "/usr",
	};

	for (unsigned int i = 0; i < sizeof(alone) / sizeof(alone[0]); i++) {
		if (strcmp(directory, alone[i]) == 0)
			return true;
	}
	for (unsigned int i = 0; i < sizeof(system) / sizeof(system[0]); i++) {
		if (strcmp(directory, system[i]) == 0 ||
		    (use == GRANT_CHANGE && grant_is_below(directory, system[i])))
			return true;
	}
	return strcmp(directory, "/proc") == 0 || grant_is_below(directory, "/proc") ||
	       strcmp(directory, "/sys") == 0 || grant_is_below(directory, "/sys");
}

/* The directory of a path, without links. NULL: there is none. */
static char *
real_parent(const char *path)
{
	char *CLEANUP_FREE copy = strdup(path);
	char *slash = copy ? strrchr(copy, '/') : NULL;

	if (slash)
		slash[slash == copy] = '\0';
	return realpath(slash ? copy : ".", NULL);
}

/* The file's directory, in which it is made or replaced. */
static int
visit_parent(const char *path, enum grant_use use, grant_visit *visit, void *data)
{
	char *CLEANUP_FREE parent = real_parent(path);

	if (!parent)
		return errno == ENOMEM ? -ENOMEM : 0;
	if (is_too_wide(parent, use))
		return visit(data, path, use);
	return visit(data, parent, use);
}

/* The file may be reached by a link. */
static int
visit_file(const char *path, enum grant_use use, grant_visit *visit, void *data)
{
	char *CLEANUP_FREE real = realpath(path, NULL);
	int r = visit_parent(path, use, visit, data);

	return r == 0 && real ? visit_parent(real, use, visit, data) : r;
}

/* Nothing can be made beside an image that is granted alone: of what it needs there, its record of
 * checkpoints is granted if it exists, and snapshots have a place elsewhere (scratch=). */
static int
visit_apart(const char *file, grant_visit *visit, void *data)
{
	char *CLEANUP_FREE real = realpath(file, NULL);
	char *CLEANUP_FREE parent = real_parent(real ? real : file);
	char *CLEANUP_FREE record = NULL;
	struct stat st;
	int r = 0;

	if (!parent || !is_too_wide(parent, GRANT_CHANGE))
		return 0;
	if (asprintf(&record, "%s.changes", real ? real : file) < 0) {
		record = NULL;
		return -ENOMEM;
	}
	/* A link is no record. */
	if (lstat(record, &st) == 0 && S_ISREG(st.st_mode))
		r = visit(data, record, GRANT_CHANGE);
	return r < 0 ? r : visit(data, "/var/tmp", GRANT_CHANGE);
}

int
grants_visit_export(const struct export_config *export, grant_visit *visit, void *data)
{
	const char *file = export->file, *changes = export->changes;
	struct stat st;
	int r;

	/* Of a file, its directory and not itself: Landlock would hold it, so that its room were
	 * not free before the server ends, also after it was removed here and deleted. */
	if (stat(file, &st) < 0 || !S_ISBLK(st.st_mode)) {
		r = visit_file(file, GRANT_CHANGE, visit, data);
		if (r == 0)
			r = visit_apart(file, visit, data);
	} else if ((r = visit(data, file, GRANT_WRITE)) == 0) {
		/* There is no room for snapshots beside it. */
		r = visit(data, "/var/tmp", GRANT_CHANGE);
	}
	if (r == 0 && changes && strcmp(changes, "none") != 0)
		r = visit_file(changes, GRANT_CHANGE, visit, data);
	if (r == 0 && config_makes_clones(export) && export->image.scratch)
		r = visit(data, export->image.scratch, GRANT_CHANGE);
	return r;
}

/* They are asked whether they are made of an image that is added (common/image_use.h). */
static int
visit_loop_devices(grant_visit *visit, void *data)
{
	DIR *devices = opendir("/dev");
	struct dirent *entry;
	int r = 0;

	while (r == 0 && devices && (entry = readdir(devices)) != NULL) {
		char path[sizeof("/dev/") + sizeof(entry->d_name)];

		if (strncmp(entry->d_name, "loop", 4) != 0 || entry->d_name[4] < '0' ||
		    entry->d_name[4] > '9')
			continue;
		snprintf(path, sizeof(path), "/dev/%s", entry->d_name);
		r = visit(data, path, GRANT_ASK);
	}
	if (devices)
		closedir(devices);
	return r;
}

static int
visit_system(grant_visit *visit, void *data)
{
	int r = visit_loop_devices(visit, data);

	for (unsigned int i = 0; r == 0 && i < sizeof(of_system) / sizeof(of_system[0]); i++)
		r = visit(data, of_system[i].path, of_system[i].use);
	/* A process that isn't root's can read no secrets there, but finds users that were added
	 * later, when passwd has been replaced. */
	if (r == 0 && geteuid() != 0)
		r = visit(data, "/etc", GRANT_READ);
	return r;
}

static int
grants_visit_tls(const struct server_config *config, grant_visit *visit, void *data)
{
	static const char *const files[] = {TLS_CA_FILE, TLS_CRL_FILE, TLS_SERVER_CERT_FILE,
					    TLS_SERVER_KEY_FILE};
	int r = 0;

	if (config->tls_psk)
		r = visit_file(config->tls_psk, GRANT_READ, visit, data);
	if (r < 0 || !config->tls_certificates)
		return r;
	for (unsigned int i = 0; r == 0 && i < sizeof(files) / sizeof(files[0]); i++) {
		char *path;

		if (asprintf(&path, "%s/%s", config->tls_certificates, files[i]) < 0)
			return -ENOMEM;
		r = visit_file(path, GRANT_READ, visit, data);
		free(path);
	}
	return r;
}

/* Sockets are made and removed. */
static int
visit_sockets(const struct server_config *config, grant_visit *visit, void *data)
{
	static const char unix_http[] = "unix:";
	int r = 0;

	for (char **path = config->unix_socket; r == 0 && path && *path; path++)
		r = visit_parent(*path, GRANT_NAMES, visit, data);
	if (r == 0 && config->control)
		r = visit_parent(config->control, GRANT_NAMES, visit, data);
	if (r == 0 && config->http && !strncmp(config->http, unix_http, strlen(unix_http)))
		r = visit_parent(config->http + strlen(unix_http), GRANT_NAMES, visit, data);
	return r;
}

/* Files are added later, and those that are there may be links. */
static int
visit_included(const char *directory, grant_visit *visit, void *data)
{
	struct dirent **entries = NULL;
	int count = scandir(directory, &entries, config_file_is_included, NULL);
	char *path;
	int r = asprintf(&path, "%s/.conf", directory) < 0 ? -ENOMEM : 0;

	if (r == 0) {
		r = visit_parent(path, GRANT_READ, visit, data);
		free(path);
	}
	for (int i = 0; i < count; i++) {
		if (r == 0 && asprintf(&path, "%s/%s", directory, entries[i]->d_name) < 0) {
			r = -ENOMEM;
		} else if (r == 0) {
			r = visit_file(path, GRANT_READ, visit, data);
			free(path);
		}
		free(entries[i]);
	}
	free(entries);
	return r;
}

int
grants_visit_server(const struct server_config *config, const char *config_file, grant_visit *visit,
		    void *data)
{
	int r = visit_system(visit, data);

	if (r == 0 && config_file)
		r = visit_file(config_file, GRANT_READ, visit, data);
	for (char **directory = config->include; r == 0 && directory && *directory; directory++)
		r = visit_included(*directory, visit, data);
	if (r == 0)
		r = grants_visit_tls(config, visit, data);
	if (r == 0)
		r = visit_sockets(config, visit, data);
	if (r == 0 && config->pid_file)
		r = visit_parent(config->pid_file, GRANT_NAMES, visit, data);
	for (char **path = config->sandbox_path; r == 0 && path && *path; path++)
		r = visit(data, *path, GRANT_CHANGE);
	return r;
}
