/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/backing/http/fetch/transfer.h"

#include "common/cleanup.h"

#include <curl/curl.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* Of a response's headers, in bytes; of a file with certificates, the same. */
#define HEADERS_MAX (64 << 10)
#define CA_MAX      (4 << 20)

/* Seconds for a connection, with its TLS; and without a byte from the server. */
#define CONNECT_LIMIT 10
#define SILENCE_LIMIT 15

/* Redirects of one transfer; connections to one server, more than a page has transfers, so that
 * none waits for another; and idle ones that are kept, of all. */
#define REDIRECTS_MAX        5
#define SERVER_CONNECTIONS   32
#define CONNECTIONS_KEPT_MAX 64

/* An image on a web server. */
struct page {
	uint32_t id;
	char *url;
	char *place; /* where the URL's redirects have led to; NULL: the URL itself */
	void *ca;    /* certificates; NULL: the system's */
	size_t ca_size;
	uint64_t size; /* or FETCH_SIZE_UNKNOWN */
	char validator[FETCH_VALIDATOR_MAX];
	struct page *next;
};

/* The headers of a response that count. */
struct response {
	size_t size; /* of all headers, in bytes */
	bool ranged; /* there is a Content-Range, with these numbers */
	uint64_t first, last, total;
	bool encoded; /* compressed, for instance */
	char etag[FETCH_VALIDATOR_MAX], modified[FETCH_VALIDATOR_MAX];
};

struct transfer {
	struct page *page;
	CURL *easy; /* NULL: the slot is free */
	struct curl_slist *headers;
	uint32_t slot, length, got; /* in bytes */
	uint64_t offset;
	bool searches; /* finds the size of the page */
	bool judged;   /* the headers are right */
	int result;    /* of a failed check, or 0 */
	struct response response;
	char why[FETCH_TEXT_MAX];
	char error[CURL_ERROR_SIZE];
};

static struct {
	int socket;
	CURLM *multi;
	struct page *pages;
	struct transfer slots[FETCH_SLOTS];
} transfers;

void
transfers_answer(const struct fetch_answer *answer, const void *data, size_t length)
{
	struct iovec parts[] = {{(void *)(uintptr_t)answer, sizeof(*answer)},
				{(void *)(uintptr_t)data, length}};
	const struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};

	while (sendmsg(transfers.socket, &message, MSG_NOSIGNAL) < 0) {
		if (errno != EINTR && errno != ENOBUFS)
			_exit(0);
	}
}

/* ---- checks of what the server sends */

/* Returns 0, for libcurl: the transfer is given up. */
static size_t __attribute__((format(printf, 3, 4)))
transfer_refuse(struct transfer *transfer, int result, const char *format, ...)
{
	va_list args;

	transfer->result = result;
	va_start(args, format);
	vsnprintf(transfer->why, sizeof(transfer->why), format, args);
	va_end(args);
	return 0;
}

static const char *
transfer_status_words(long status)
{
	switch (status) {
	case 200: return ": it sends the whole file, not the range that was asked for";
	case 401:
	case 403: return ": it forbids to read the file";
	case 404:
	case 410: return ": it has no such file";
	case 407: return ": the proxy wants to know who asks";
	case 416: return ": it has no such range: the file is empty, or has become smaller";
	case 429:
	case 503: return ": it is too busy";
	default: return "";
	}
}

static bool
transfer_refuse_status(struct transfer *transfer, long status)
{
	int result = -EIO;

	if (status == 401 || status == 403 || status == 407)
		result = -EACCES;
	else if (status == 404 || status == 410)
		result = -ENOENT;
	else if (status == 412)
		result = -ESTALE;
	if (status == 412)
		return transfer_refuse(transfer, result, "the file has changed on the server");
	return transfer_refuse(transfer, result, "the server answers with status %ld%s", status,
			       transfer_status_words(status));
}

/* A server may call a tag weak for a second after the file's last change, and strong later. */
static const char *
tag_of(const char *validator)
{
	return strncmp(validator, "W/", 2) == 0 ? validator + 2 : validator;
}

static const char *
response_validator(const struct response *response)
{
	return response->etag[0] ? response->etag : response->modified;
}

static bool
transfer_judge(struct transfer *transfer)
{
	const struct response *response = &transfer->response;
	struct page *page = transfer->page;
	long status = 0;

	curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &status);
	if (status != 206)
		return transfer_refuse_status(transfer, status);
	if (!response->ranged)
		return transfer_refuse(transfer, -EIO,
				       "the server does not say which range of the file it sends");
	if (response->encoded)
		return transfer_refuse(transfer, -EIO, "the server sends the file compressed");
	if (response->first != transfer->offset ||
	    response->last != transfer->offset + transfer->length - 1)
		return transfer_refuse(transfer, -EIO,
				       "the server sends bytes %" PRIu64 " to %" PRIu64
				       " instead of %" PRIu64 " to %" PRIu64,
				       response->first, response->last, transfer->offset,
				       transfer->offset + transfer->length - 1);
	if (transfer->searches)
		return true;
	if (response->total != page->size)
		return transfer_refuse(transfer, -ESTALE,
				       "the file has changed on the server: from %" PRIu64
				       " to %" PRIu64 " bytes",
				       page->size, response->total);
	if (page->validator[0] &&
	    strcmp(tag_of(response_validator(response)), tag_of(page->validator)) != 0)
		return transfer_refuse(
			transfer, -ESTALE, "the file has changed on the server: from %s to %s",
			page->validator,
			response_validator(response)[0] ? response_validator(response)
							: "no validator");
	return true;
}

/* Returns whether the header has that name; then copies the value, without spaces around it. A
 * value that is too long, or not in ASCII, counts as none. */
static bool
header_value(const char *line, size_t length, const char *name, char *value, size_t size)
{
	size_t skip = strlen(name);

	if (length <= skip || strncasecmp(line, name, skip) != 0 || line[skip] != ':')
		return false;
	line += skip + 1;
	length -= skip + 1;
	while (length > 0 && (*line == ' ' || *line == '\t')) {
		line++;
		length--;
	}
	while (length > 0 && (unsigned char)line[length - 1] <= ' ')
		length--;
	if (length >= size)
		length = 0;
	for (size_t i = 0; i < length; i++) {
		if (line[i] < ' ' || line[i] > '~')
			length = 0;
	}
	memcpy(value, line, length);
	value[length] = '\0';
	return true;
}

/* "bytes 0-511/1048576": digits only, and no more than fit. */
static bool
range_parse(const char *text, struct response *response)
{
	uint64_t *const numbers[] = {&response->first, &response->last, &response->total};
	static const char ends[] = {'-', '/', '\0'};

	if (strncasecmp(text, "bytes ", 6) != 0)
		return false;
	text += 6;
	for (unsigned int i = 0; i < 3; i++) {
		char *end;

		if (*text < '0' || *text > '9')
			return false;
		errno = 0;
		*numbers[i] = strtoull(text, &end, 10);
		if (errno != 0 || *end != ends[i])
			return false;
		text = end + 1;
	}
	return response->first <= response->last && response->last < response->total &&
	       response->total <= INT64_MAX;
}

static size_t
transfer_on_header(char *line, size_t one, size_t length, void *data)
{
	struct transfer *transfer = data;
	struct response *response = &transfer->response;
	char value[FETCH_VALIDATOR_MAX];

	/* The line of the status: another response, after a redirect for instance. */
	if (length > 5 && strncmp(line, "HTTP/", 5) == 0)
		*response = (struct response){.size = response->size};
	response->size += length;
	if (response->size > HEADERS_MAX)
		return transfer_refuse(transfer, -EIO, "the server sends too many headers");
	if (header_value(line, length, "content-range", value, sizeof(value)))
		response->ranged = range_parse(value, response);
	else if (header_value(line, length, "content-encoding", value, sizeof(value)))
		response->encoded = strcasecmp(value, "identity") != 0;
	else if (header_value(line, length, "etag", value, sizeof(value)))
		memcpy(response->etag, value, sizeof(value));
	else if (header_value(line, length, "last-modified", value, sizeof(value)))
		memcpy(response->modified, value, sizeof(value));
	return one * length;
}

static size_t
transfer_on_data(char *bytes, size_t one, size_t length, void *data)
{
	struct transfer *transfer = data;

	if (!transfer->judged && !transfer_judge(transfer))
		return 0;
	transfer->judged = true;
	if (length > transfer->length - transfer->got)
		return transfer_refuse(transfer, -EIO, "the server sends more than was asked for");
	for (size_t done = 0; done < length && !transfer->searches;) {
		size_t part = length - done < FETCH_DATA_MAX ? length - done : FETCH_DATA_MAX;

		transfers_answer(
			&(struct fetch_answer){.type = FETCH_DATA,
					       .slot = transfer->slot,
					       .offset = transfer->offset + transfer->got + done},
			bytes + done, part);
		done += part;
	}
	transfer->got += (uint32_t)length;
	return one * length;
}

/* ---- a transfer's end */

static void
transfer_free(struct transfer *transfer)
{
	curl_multi_remove_handle(transfers.multi, transfer->easy);
	curl_easy_cleanup(transfer->easy);
	curl_slist_free_all(transfer->headers);
	*transfer = (struct transfer){.easy = NULL};
}

static void
transfer_answer_end(uint32_t slot, int result, bool keeps, const char *why)
{
	transfers_answer(
		&(struct fetch_answer){
			.type = FETCH_ENDED, .slot = slot, .result = result, .keeps = keeps},
		why, strlen(why));
}

static void
transfer_answer_opened(const struct transfer *transfer)
{
	struct page *page = transfer->page;
	const char *validator = response_validator(&transfer->response);

	page->size = transfer->response.total;
	snprintf(page->validator, sizeof(page->validator), "%s", validator);
	transfers_answer(&(struct fetch_answer){.type = FETCH_OPENED,
						.slot = transfer->slot,
						.offset = page->size},
			 validator, strlen(validator));
}

/* Later transfers begin where this one has ended up. */
static void
page_note_place(struct page *page, CURL *easy)
{
	const char *place = NULL;
	long redirects = 0;

	curl_easy_getinfo(easy, CURLINFO_REDIRECT_COUNT, &redirects);
	curl_easy_getinfo(easy, CURLINFO_EFFECTIVE_URL, &place);
	if (redirects == 0 || !place)
		return;
	free(page->place);
	page->place = strdup(place);
}

static void
transfer_finish(struct transfer *transfer, CURLcode code)
{
	struct page *page = transfer->page;
	uint32_t slot = transfer->slot;
	/* What had come before a connection broke is right. */
	bool keeps = transfer->result == 0 && transfer->judged;
	char why[FETCH_TEXT_MAX];
	int result;

	if (code == CURLE_OK && !transfer->judged)
		transfer->judged = transfer_judge(transfer);
	if (code == CURLE_OK && transfer->result == 0 && transfer->got < transfer->length)
		transfer_refuse(transfer, -EIO, "the server sends less than was asked for");
	if (code == CURLE_OK && transfer->result == 0) {
		page_note_place(page, transfer->easy);
		if (transfer->searches)
			transfer_answer_opened(transfer);
		transfer_free(transfer);
		transfer_answer_end(slot, 0, true, "");
		return;
	}
	result = transfer->result < 0 ? transfer->result : -EIO;
	if (transfer->result < 0)
		snprintf(why, sizeof(why), "%s", transfer->why);
	else
		snprintf(why, sizeof(why), "%s",
			 transfer->error[0] ? transfer->error : curl_easy_strerror(code));
	/* The place may be one that is valid only for some time. */
	free(steal_pointer(&page->place));
	transfer_free(transfer);
	transfer_answer_end(slot, result, keeps, why);
}

static void
transfer_cancel(struct transfer *transfer)
{
	uint32_t slot = transfer->slot;

	transfer_free(transfer);
	transfer_answer_end(slot, -ECANCELED, false, "");
}

/* ---- a transfer's begin */

/* Only a strong tag, or a time, is a condition that servers know. */
static void
transfer_add_condition(struct transfer *transfer)
{
	const char *validator = transfer->page->validator;
	const char *name = validator[0] == '"' ? "If-Match" : "If-Unmodified-Since";
	char line[FETCH_VALIDATOR_MAX + 32];

	if (!validator[0] || strncmp(validator, "W/", 2) == 0)
		return;
	snprintf(line, sizeof(line), "%s: %s", name, validator);
	transfer->headers = curl_slist_append(transfer->headers, line);
}

static bool
transfer_set_options(struct transfer *transfer)
{
	const struct page *page = transfer->page;
	struct curl_blob ca = {page->ca, page->ca_size, CURL_BLOB_NOCOPY};
	bool encrypted = strncmp(page->url, "https:", 6) == 0;
	CURL *easy = transfer->easy;
	char range[64];
	CURLcode r = CURLE_OK;

	snprintf(range, sizeof(range), "%" PRIu64 "-%" PRIu64, transfer->offset,
		 transfer->offset + transfer->length - 1);
	/* Without the protocols' limits, a server could have other files read. A redirect from
	 * encryption to none would let anybody on the way replace the image. */
	r |= curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
	r |= curl_easy_setopt(easy, CURLOPT_REDIR_PROTOCOLS_STR,
			      encrypted ? "https" : "http,https");
	r |= curl_easy_setopt(easy, CURLOPT_URL, page->place ? page->place : page->url);
	r |= curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 1L);
	r |= curl_easy_setopt(easy, CURLOPT_MAXREDIRS, (long)REDIRECTS_MAX);
	r |= curl_easy_setopt(easy, CURLOPT_RANGE, range);
	r |= curl_easy_setopt(easy, CURLOPT_HTTPHEADER, transfer->headers);
	r |= curl_easy_setopt(easy, CURLOPT_USERAGENT, PACKAGE_NAME "/" PACKAGE_VERSION);
	r |= curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
	r |= curl_easy_setopt(easy, CURLOPT_PIPEWAIT, 1L);
	r |= curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_LIMIT);
	r |= curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
	r |= curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, (long)SILENCE_LIMIT);
	r |= curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, (long)FETCH_DATA_MAX);
	r |= curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	r |= curl_easy_setopt(easy, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
	r |= curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, transfer->error);
	r |= curl_easy_setopt(easy, CURLOPT_PRIVATE, transfer);
	r |= curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, transfer_on_header);
	r |= curl_easy_setopt(easy, CURLOPT_HEADERDATA, transfer);
	r |= curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, transfer_on_data);
	r |= curl_easy_setopt(easy, CURLOPT_WRITEDATA, transfer);
	if (r != CURLE_OK)
		transfer_refuse(transfer, -ENOMEM, "libcurl refuses the request, or has no memory");
	else if (page->ca && curl_easy_setopt(easy, CURLOPT_CAINFO_BLOB, &ca) != CURLE_OK)
		transfer_refuse(transfer, -EOPNOTSUPP,
				"base-ca needs a libcurl with OpenSSL, and this one has none");
	return transfer->result == 0;
}

static void
transfer_begin(struct page *page, uint32_t slot, uint64_t offset, uint32_t length, bool searches)
{
	struct transfer *transfer = &transfers.slots[slot];
	char why[FETCH_TEXT_MAX] = "libcurl has no memory";
	int result = -ENOMEM;

	*transfer = (struct transfer){
		.page = page,
		.slot = slot,
		.offset = offset,
		.length = length,
		.searches = searches,
		.easy = curl_easy_init(),
	};
	if (transfer->easy) {
		transfer_add_condition(transfer);
		if (transfer_set_options(transfer) &&
		    curl_multi_add_handle(transfers.multi, transfer->easy) == CURLM_OK)
			return;
		if (transfer->result < 0) {
			result = transfer->result;
			memcpy(why, transfer->why, sizeof(why));
		}
		transfer_free(transfer);
	}
	transfer_answer_end(slot, result, false, why);
}

/* ---- orders */

static struct page *
page_of_id(uint32_t id)
{
	struct page *page = transfers.pages;

	while (page && page->id != id)
		page = page->next;
	return page;
}

static void
page_drop(struct page *page)
{
	free(page->ca);
	free(page->place);
	free(page->url);
	free(page);
}

static void
page_read_ca(struct page *page, int fd)
{
	struct stat st;
	ssize_t n;

	if (fstat(fd, &st) < 0 || st.st_size <= 0)
		st.st_size = 1;
	if (st.st_size > CA_MAX)
		st.st_size = CA_MAX;
	page->ca = malloc((size_t)st.st_size);
	n = page->ca ? pread(fd, page->ca, (size_t)st.st_size, 0) : 0;
	page->ca_size = n > 0 ? (size_t)n : 0;
}

/* Without memory, or with an unreadable file of certificates, the transfers fail. */
static void
page_open(const struct fetch_order *order, const char *text, size_t length, int ca_fd)
{
	struct page *page = calloc(1, sizeof(*page));
	size_t url = strlen(text) + 1;

	if (!page)
		_exit(1);
	page->id = order->page;
	page->size = order->offset;
	page->url = strdup(text);
	if (!page->url)
		_exit(1);
	if (url < length)
		snprintf(page->validator, sizeof(page->validator), "%s", text + url);
	if (ca_fd >= 0)
		page_read_ca(page, ca_fd);
	page->next = transfers.pages;
	transfers.pages = page;
	if (page->size == FETCH_SIZE_UNKNOWN)
		transfer_begin(page, order->slot, 0, 1, true);
}

static void
page_close(uint32_t id)
{
	struct page **at = &transfers.pages, *page;

	while (*at && (*at)->id != id)
		at = &(*at)->next;
	page = *at;
	if (!page)
		return;
	*at = page->next;
	for (unsigned int i = 0; i < FETCH_SLOTS; i++) {
		if (transfers.slots[i].easy && transfers.slots[i].page == page)
			transfer_cancel(&transfers.slots[i]);
	}
	page_drop(page);
}

void
transfers_order(const struct fetch_order *order, const char *text, size_t length, int ca_fd)
{
	struct page *page;

	if (order->slot >= FETCH_SLOTS)
		_exit(1);
	switch (order->type) {
	case FETCH_OPEN:
		if (length > 0 && text[length - 1] == '\0')
			page_open(order, text, length, ca_fd);
		break;
	case FETCH_READ:
		page = page_of_id(order->page);
		if (page && !transfers.slots[order->slot].easy)
			transfer_begin(page, order->slot, order->offset, order->length, false);
		break;
	case FETCH_CANCEL:
		if (transfers.slots[order->slot].easy)
			transfer_cancel(&transfers.slots[order->slot]);
		break;
	case FETCH_CLOSE: page_close(order->page); break;
	}
}

/* ---- turns */

int
transfers_begin(int socket)
{
	transfers.socket = socket;
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		return -ENOMEM;
	transfers.multi = curl_multi_init();
	if (!transfers.multi)
		return -ENOMEM;
	curl_multi_setopt(transfers.multi, CURLMOPT_MAX_HOST_CONNECTIONS, (long)SERVER_CONNECTIONS);
	curl_multi_setopt(transfers.multi, CURLMOPT_MAXCONNECTS, (long)CONNECTIONS_KEPT_MAX);
	return 0;
}

void
transfers_turn(void)
{
	struct curl_waitfd engine = {.fd = transfers.socket, .events = CURL_WAIT_POLLIN};
	CURLMsg *message;
	int running, left;

	if (curl_multi_perform(transfers.multi, &running) != CURLM_OK)
		_exit(1);
	while ((message = curl_multi_info_read(transfers.multi, &left)) != NULL) {
		struct transfer *transfer = NULL;

		if (message->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &transfer);
		transfer_finish(transfer, message->data.result);
	}
	curl_multi_poll(transfers.multi, &engine, 1, 60000, NULL);
}
