/*
 * backend.h - as much of a PostgreSQL backend as a file of it needs to run in a fuzzer: memory that goes with the input, and errors that
 * end it. A fuzzer includes this, then the file, and defines what else that one calls. Compiled with the server's headers, linked with
 * its libpgcommon and libpgport.
 */
#include "postgres.h"

#include <setjmp.h>

#include "utils/memutils.h"

int			LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
require(bool good)
{
	if (!good)
		abort();
}

/* ---------- errors: `if (setjmp(error_place) == 0) ...` ---------- */

static jmp_buf error_place;

/* ---------- memory: a piece of its own for each call, so that a sanitizer sees its ends ---------- */

typedef struct Piece
{
	struct Piece *next;
	struct Piece *previous;
	max_align_t data[];
} Piece;

static Piece pieces = {&pieces, &pieces};

MemoryContext CurrentMemoryContext = NULL;

void *
palloc(Size size)
{
	Piece	   *piece;

	if (!AllocSizeIsValid(size))
		longjmp(error_place, 1);
	piece = malloc(sizeof(Piece) + size);
	require(piece != NULL);
	piece->next = pieces.next;
	piece->previous = &pieces;
	piece->next->previous = pieces.next = piece;
	return piece->data;
}

void *
palloc0(Size size)
{
	return memset(palloc(size), 0, size);
}

void
pfree(void *pointer)
{
	Piece	   *piece = (Piece *) ((char *) pointer - offsetof(Piece, data));

	piece->next->previous = piece->previous;
	piece->previous->next = piece->next;
	free(piece);
}

void *
repalloc(void *pointer, Size size)
{
	Piece	   *piece = realloc((char *) pointer - offsetof(Piece, data), sizeof(Piece) + size);

	require(piece != NULL);
	piece->next->previous = piece->previous->next = piece;
	return piece->data;
}

char *
pstrdup(const char *text)
{
	return strcpy(palloc(strlen(text) + 1), text);
}

void *
MemoryContextAlloc(MemoryContext context, Size size)
{
	return palloc(size);
}

static void
free_all(void)
{
	while (pieces.next != &pieces)
		pfree(pieces.next->data);
}

/* ---------- what raises errors ---------- */

bool
errstart(int level, const char *domain)
{
	return level >= ERROR;
}

bool
errstart_cold(int level, const char *domain)
{
	return level >= ERROR;
}

void
errfinish(const char *file, int line, const char *function)
{
	longjmp(error_place, 1);
}

int
errcode(int code)
{
	return 0;
}

/* What they would say is written, since their arguments may be the input's. */
#define SAYS(name) \
	int name(const char *format,...) \
	{ \
		char		text[4096]; \
		va_list		arguments; \
		va_start(arguments, format); \
		vsnprintf(text, sizeof(text), format, arguments); \
		va_end(arguments); \
		return 0; \
	}
SAYS(errmsg)
SAYS(errmsg_internal)
SAYS(errdetail)
SAYS(errdetail_internal)
SAYS(errhint)
