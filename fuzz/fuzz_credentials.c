/* SPDX-License-Identifier: BSD-3-Clause */
#include "fuzz/fuzz_credentials.h"

#include "fuzz/fuzz.h"

#include <sys/stat.h>
#include <unistd.h>

/*
 * Certificates that never expire, and prove nothing to anybody else.  Made with certtool(1), of
 * ECDSA keys: with Ed25519, GnuTLS's client shows no certificate by TLS 1.2.
 */
static const char CA_CERT[] = "-----BEGIN CERTIFICATE-----\n"
			      "MIIBZzCCAQ2gAwIBAgIBATAKBggqhkjOPQQDAjAaMRgwFgYDVQQDDA90aGUgZnV6\n"
			      "emVyJ3MgQ0EwIBcNMjAwMTAxMDAwMDAwWhgPOTk5OTEyMzEyMzU5NTlaMBoxGDAW\n"
			      "BgNVBAMMD3RoZSBmdXp6ZXIncyBDQTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IA\n"
			      "BAf2PXo6SGlaudf2UnLOVFZUdqUoFcLhJgdKIDsjgBSHWd7Gin+dDYgOjfyXRxOb\n"
			      "CY+BXcTMpWKK/lwpqFcprbijQjBAMA8GA1UdEwEB/wQFMAMBAf8wDgYDVR0PAQH/\n"
			      "BAQDAgIEMB0GA1UdDgQWBBTmkf31vQ7kKrO/sbHimoNFBtBIKzAKBggqhkjOPQQD\n"
			      "AgNIADBFAiAZe5sNgBkl0f+tOxyhMNE2Ius3itp9259PRKglcdrokAIhALGcg20H\n"
			      "LcvG2LXkiKTpZPlmzj3AY2PG4knNZapJfXis\n"
			      "-----END CERTIFICATE-----\n";

static const char SERVER_CERT[] =
	"-----BEGIN CERTIFICATE-----\n"
	"MIIBtzCCAVygAwIBAgIBAjAKBggqhkjOPQQDAjAaMRgwFgYDVQQDDA90aGUgZnV6\n"
	"emVyJ3MgQ0EwIBcNMjAwMTAxMDAwMDAwWhgPOTk5OTEyMzEyMzU5NTlaMBkxFzAV\n"
	"BgNVBAMTDnNlcnZlci5leGFtcGxlMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE\n"
	"1dy3SX/PGXppg4Coe/eOf8H+C5TvuM0n6Tx4u1zyGhizYvJxTwEz0iOGoPShDo/w\n"
	"erbEEtQIMXBTP0wcenqBHqOBkTCBjjAMBgNVHRMBAf8EAjAAMBkGA1UdEQQSMBCC\n"
	"DnNlcnZlci5leGFtcGxlMBMGA1UdJQQMMAoGCCsGAQUFBwMBMA4GA1UdDwEB/wQE\n"
	"AwIHgDAdBgNVHQ4EFgQUNOW655uk8vLU8FAMpOM1k1+1wA0wHwYDVR0jBBgwFoAU\n"
	"5pH99b0O5Cqzv7Gx4pqDRQbQSCswCgYIKoZIzj0EAwIDSQAwRgIhANuwNQXBB9Fg\n"
	"gYQZQwEotry6Zhsf5Pql8d6ijzsTij6yAiEApZHXlUdYGUZNjpXs2XrBmmBx7Dbf\n"
	"XP2TchGp4oNB3TI=\n"
	"-----END CERTIFICATE-----\n";

static const char SERVER_KEY[] =
	"-----BEGIN PRIVATE KEY-----\n"
	"MIGUAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBHoweAIBAQQhAJah8/BY+6vLuPD9\n"
	"84yWbyiLOO0NWUF2yBzPdcqN4TCFoAoGCCqGSM49AwEHoUQDQgAE1dy3SX/PGXpp\n"
	"g4Coe/eOf8H+C5TvuM0n6Tx4u1zyGhizYvJxTwEz0iOGoPShDo/werbEEtQIMXBT\n"
	"P0wcenqBHg==\n"
	"-----END PRIVATE KEY-----\n";

static const char CLIENT_CERT[] =
	"-----BEGIN CERTIFICATE-----\n"
	"MIIBkTCCATegAwIBAgIBAzAKBggqhkjOPQQDAjAaMRgwFgYDVQQDDA90aGUgZnV6\n"
	"emVyJ3MgQ0EwIBcNMjAwMTAxMDAwMDAwWhgPOTk5OTEyMzEyMzU5NTlaMBExDzAN\n"
	"BgNVBAMTBmZ1enplcjBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABEOypmx/j16b\n"
	"YPoAVTPftBouLaHlBlLRYRIbikgbqhWZ4BKUMZ/XAuuRbtrCH4aIhbcvIy7ugIAm\n"
	"5UkWwImp9RyjdTBzMAwGA1UdEwEB/wQCMAAwEwYDVR0lBAwwCgYIKwYBBQUHAwIw\n"
	"DgYDVR0PAQH/BAQDAgeAMB0GA1UdDgQWBBRMavdhehzIa1w0IuCizYVEV03+QzAf\n"
	"BgNVHSMEGDAWgBTmkf31vQ7kKrO/sbHimoNFBtBIKzAKBggqhkjOPQQDAgNIADBF\n"
	"AiA25gO3VSJDxHmjk/SOkYRt3ajBsPN9wryHVW6XJ0sOTgIhANQ4HcNlV/oBtllh\n"
	"T/b45Q7o6alv00/6F6+tn+KvynKE\n"
	"-----END CERTIFICATE-----\n";

static const char CLIENT_KEY[] =
	"-----BEGIN PRIVATE KEY-----\n"
	"MIGTAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBHkwdwIBAQQgGyDug10Z1WyDPY/q\n"
	"Ak/qiTjNN1FL/S152ufWh0S1lRqgCgYIKoZIzj0DAQehRANCAARDsqZsf49em2D6\n"
	"AFUz37QaLi2h5QZS0WESG4pIG6oVmeASlDGf1wLrkW7awh+GiIW3LyMu7oCAJuVJ\n"
	"FsCJqfUc\n"
	"-----END PRIVATE KEY-----\n";

/* By kind. */
static struct tls_credentials *servers[KINDS], *clients[KINDS];

static void
write_file(const char *directory, const char *name, const char *text)
{
	char path[200];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	file = fopen(path, "w");
	CHECK(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

/* `kind`: bits of the setup byte. */
static struct tls_credentials *
credentials_read(enum tls_side side, const char *directory, unsigned int kind)
{
	char psk[200];
	const struct tls_files files = {
		.side = side,
		.psk = kind & CERTIFICATES ? NULL : psk,
		.certificates = kind & CERTIFICATES ? directory : NULL,
		/* This group is the fastest. */
		.priority = side == TLS_SERVER ? NULL
			    : kind & OLD_PROTOCOL
				    ? "NORMAL:-VERS-ALL:+VERS-TLS1.2:-KX-ALL:+ECDHE-PSK:"
				      "+ECDHE-ECDSA:-GROUP-ALL:+GROUP-X25519"
				    : "NORMAL:-VERS-ALL:+VERS-TLS1.3:-GROUP-ALL:+GROUP-X25519",
	};
	struct tls_credentials *loaded;
	char *error;

	snprintf(psk, sizeof(psk), "%s/keys.psk", directory);
	CHECK(tls_credentials_load(&files, &loaded, &error) == 0);
	return loaded;
}

static void
load_credentials(void)
{
	static const struct {
		const char *name, *text;
	} files[] = {
		{"keys.psk", FUZZ_CLIENT ":000102030405060708090a0b0c0d0e0f\n"},
		{TLS_CA_FILE, CA_CERT},
		{TLS_SERVER_CERT_FILE, SERVER_CERT},
		{TLS_SERVER_KEY_FILE, SERVER_KEY},
		{TLS_CLIENT_CERT_FILE, CLIENT_CERT},
		{TLS_CLIENT_KEY_FILE, CLIENT_KEY},
	};
	enum {
		FILES = sizeof(files) / sizeof(*files)
	};
	char directory[] = "/tmp/fuzz-tls-XXXXXX", path[200];

	umask(077);
	CHECK(mkdtemp(directory));
	for (unsigned int i = 0; i < FILES; i++)
		write_file(directory, files[i].name, files[i].text);
	for (unsigned int kind = 0; kind < KINDS; kind++) {
		servers[kind] = credentials_read(TLS_SERVER, directory, kind);
		clients[kind] = credentials_read(TLS_CLIENT, directory, kind);
	}
	for (unsigned int i = 0; i < FILES; i++) {
		snprintf(path, sizeof(path), "%s/%s", directory, files[i].name);
		unlink(path);
	}
	rmdir(directory);
}

struct tls_credentials *
fuzz_credentials(enum tls_side side, unsigned int kind)
{
	if (!servers[0])
		load_credentials();
	kind %= KINDS;
	return side == TLS_SERVER ? servers[kind] : clients[kind];
}
