/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/attach/attach_tls.h"

#include "tool/failure.h"

#include <errno.h>

const char *
attach_tls_option(const struct attach_tls *options)
{
	return options->by             ? "--tls"
	       : options->certificates ? "--tls-certificates"
	       : options->psk          ? "--tls-psk"
	       : options->hostname     ? "--tls-hostname"
	       : !options->verify_peer ? "--tls-verify-peer"
				       : NULL;
}

/* The value of an option or of a parameter of the URI, which mean the same; NULL: none of them was
 * given.  Caller frees. */
static bool
take_either(char **value, const char *name, const char *option, const char *parameter,
	    GError **error)
{
	*value = g_strdup(option ? option : parameter);
	return !option || !parameter ||
	       failure(error, EINVAL, "%s was given, and the URI contains it, too: leave out one",
		       name);
}

static bool
wants_proxy(const struct attach_tls *options)
{
	return g_strcmp0(options->by, "proxy") == 0;
}

/* What encrypts, and whether it can. */
static bool
check_encryption(const struct attach_tls *options, const struct nbd_uri *uri, GError **error)
{
	const bool proxy = wants_proxy(options);

	if (options->by && !proxy && !g_str_equal(options->by, "kernel"))
		return failure(error, EINVAL, "--tls=%s: must be kernel or proxy", options->by);
	if (uri->socket && !proxy)
		return failure(
			error, EOPNOTSUPP,
			"the kernel has TLS for TCP only.  A unix socket doesn't leave this machine: use "
			"nbd+unix:// with a server that doesn't demand TLS there, or --tls=proxy");
	return true;
}

static bool
check_tls(const struct attach_tls *options, const struct source_tls *tls, GError **error)
{
	const char *wrong = !tls->psk               ? NULL
			    : tls->certificates     ? "--tls-certificates"
			    : options->hostname     ? "--tls-hostname"
			    : !options->verify_peer ? "--tls-verify-peer"
						    : NULL;

	if (wrong)
		return failure(error, EINVAL,
			       "%s is for certificates, and --tls-psk for keys: leave out one",
			       wrong);
	return tls->psk || !tls->user ||
	       failure(error, EINVAL, "the URI names a user, %s, who needs a key: --tls-psk=FILE",
		       tls->user);
}

bool
attach_tls_plan(const struct attach_tls *options, struct nbd_uri *uri, struct source_tls *tls,
		GError **error)
{
	const char *option = attach_tls_option(options);
	/* The guard has another current directory. */
	g_autofree char *certificates =
		options->certificates ? g_canonicalize_filename(options->certificates, NULL) : NULL;
	g_autofree char *psk = options->psk ? g_canonicalize_filename(options->psk, NULL) : NULL;

	*tls = (struct source_tls){
		.wanted = uri->tls,
		.proxy = wants_proxy(options),
		.verify = options->verify_peer,
		.user = g_steal_pointer(&uri->user),
	};
	if (!uri->tls)
		return !option || failure(error, EINVAL, "%s is for nbds:// URIs", option);
	if (!check_encryption(options, uri, error) ||
	    !take_either(&tls->certificates, "--tls-certificates", certificates, uri->certificates,
			 error) ||
	    !take_either(&tls->psk, "--tls-psk", psk, uri->psk, error) ||
	    !take_either(&tls->hostname, "--tls-hostname", options->hostname, uri->hostname, error))
		return false;
	return check_tls(options, tls, error);
}

bool
attach_tls_check_swap(const struct attach_tls *options, GError **error)
{
	return !wants_proxy(options) ||
	       failure(error, EOPNOTSUPP,
		       "--swap needs TLS by the kernel: when memory is short, the kernel drops what a "
		       "server sends to a proxy, so leave out --tls=proxy");
}
