/*
 * error.c - errors as data.
 *
 * Fills RfError for code that may run in threads and therefore must not raise errors. It neither
 * logs nor allocates.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "error.h"

static void
copy_text(char *to, size_t size, const char *from)
{
	size_t		length = from ? strlen(from) : 0;

	if (length >= size)
		length = size - 1;
	if (length > 0)
		memcpy(to, from, length);
	to[length] = '\0';
}

/*
 * detail or hint may be strings inside *error itself (an error rewritten with more context), so the
 * texts are formatted first. A caller that does not need the error passes NULL.
 */
bool
rf_error(RfError *error, RfErrorKind kind, const char *detail, const char *hint, const char *format,
		 ...)
{
	RfError		filled;
	va_list		args;

	if (error == NULL)
		return false;
	memset(&filled, 0, sizeof(filled));
	filled.kind = kind;
	va_start(args, format);
	vsnprintf(filled.message, sizeof(filled.message), format, args);
	va_end(args);
	copy_text(filled.detail, sizeof(filled.detail), detail);
	copy_text(filled.hint, sizeof(filled.hint), hint);
	*error = filled;
	return false;
}
