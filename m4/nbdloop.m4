# SPDX-License-Identifier: BSD-3-Clause
# Macros of configure.ac.

# NBDLOOP_NEEDS(VARIABLE-PREFIX, MODULE, VERSION, DEBIAN-PACKAGE, WHAT-FOR)
AC_DEFUN([NBDLOOP_NEEDS], [
	PKG_CHECK_MODULES([$1], [$2 >= $3], [],
		[AC_MSG_ERROR([$2 >= $3 was not found; it is needed for $5 (Debian package: $4)])])
])

# NBDLOOP_NEEDS_PROGRAM(VARIABLE, PROGRAM, DEBIAN-PACKAGE, WHAT-FOR)
AC_DEFUN([NBDLOOP_NEEDS_PROGRAM], [
	AC_PATH_PROG([$1], [$2], [], [$PATH$PATH_SEPARATOR/usr/sbin$PATH_SEPARATOR/sbin])
	AS_IF([test -z "$$1"],
		[AC_MSG_ERROR([$2 was not found; it is needed for $4 (Debian package: $3)])])
])

# NBDLOOP_WARNING_FLAGS(FLAGS): adds the flags that the compiler knows to WARNING_CFLAGS
AC_DEFUN([NBDLOOP_WARNING_FLAGS], [
	for nbdloop_flag in $1; do
		nbdloop_saved=$CFLAGS
		CFLAGS="$CFLAGS -Werror $nbdloop_flag"
		AC_MSG_CHECKING([whether $CC knows $nbdloop_flag])
		AC_COMPILE_IFELSE([AC_LANG_PROGRAM([], [])],
			[AC_MSG_RESULT([yes]); WARNING_CFLAGS="$WARNING_CFLAGS $nbdloop_flag"],
			[AC_MSG_RESULT([no])])
		CFLAGS=$nbdloop_saved
	done
])
