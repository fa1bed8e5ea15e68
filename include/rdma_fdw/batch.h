/*
 * batch.h - rows to column batches and back (wire.h, section 3). Both backends; needs PostgreSQL.
 *
 * The encoder writes straight into the memory it is given (a slot of a flow, or a private buffer);
 * the decoder reads in place and copies nothing: by-reference datums point into the batch and live
 * until the next rf_decoder_load. Neither knows where the memory comes from.
 */
#ifndef RF_BATCH_H
#define RF_BATCH_H

#include "postgres.h"

#include "access/htup.h"
#include "access/tupdesc.h"
#include "executor/tuptable.h"
#include "storage/buf.h"
#include "storage/bufpage.h"

#include "rdma_fdw/wire.h"

typedef struct RfEncoder RfEncoder;
typedef struct RfDecoder RfDecoder;

typedef enum RfEncodeResult
{
	RF_ENCODE_DONE,				/* row added */
	RF_ENCODE_FULL,				/* does not fit any more: finish this batch, begin another, add
								 * again */
	RF_ENCODE_TOO_LARGE			/* the batch is empty and the row alone does not fit:
								 * rf_encoder_large_row */
} RfEncodeResult;

/*
 * Encoder for rows of `desc`, whose i-th output column is attribute attmap[i] (1-based) of the
 * slots (attmap NULL: i + 1). `wanted` is the reader's request per column; the kinds are chosen
 * from both (raw image, send/receive, text). ERROR for a column that cannot be sent.
 */
extern RfEncoder *rf_encoder_create(TupleDesc desc, int column_count, const AttrNumber *attmap,
									const RfStreamColumn *wanted, uint32 flags,
									int reader_encoding);

/* The buffer is aligned to 8 bytes. */
extern void rf_encoder_begin(RfEncoder *encoder, void *buffer, uint32 capacity);

/* Adds the slot's row to the batch, if it fits. ERROR for a value that cannot be sent. */
extern RfEncodeResult rf_encoder_add(RfEncoder *encoder, TupleTableSlot *slot);

/*
 * Rows from the tuples of one heap page, for an encoder whose attmap names attributes of `table`.
 * First ask whether it can (once), then add: it takes tuples from the front and returns how many.
 * When it stops early the next one does not fit or is not plain (NULLs among the wanted attributes,
 * or attributes added later): give that one to rf_encoder_add in a slot. The tuples are visible and
 * their page is pinned.
 */
extern bool rf_encoder_takes_tuples(RfEncoder *encoder, TupleDesc table);
extern int	rf_encoder_add_tuples(RfEncoder *encoder, const HeapTupleHeader *tuples, int count);

/*
 * Rows on their way to several encoders (src/batch/rows.c, rows_tuples.c, encode_rows.c): kept
 * once, and each encoder takes the rows whose numbers are in its list. Add until it is full,
 * complete, let encoders take, reset. By-reference values live until the reset: copied, or on a few
 * pinned heap pages. Columns are numbered as in the encoders.
 */
#define RF_ROWS_MAX		4096	/* of one RfRows; a number of a row is a uint16 */
#define RF_ROWS_PINS	6		/* pages that it pins at most: a backend keeps track of 8 cheaply */
#define RF_ROWS_SPACE	(256 * 1024)	/* bytes of values that it copies, less than one row more */

typedef struct RfRowsColumn
{
	int			attr;			/* of the slots, from 0 */
	int16		length;			/* the type's */
	bool		by_value;
	bool		has_nulls;
} RfRowsColumn;

typedef struct RfRows
{
	int			column_count;
	uint32		size;			/* rows it has room for */
	uint32		enough;			/* to be divided, when the next column costs more than the earlier
								 * ones together */
	uint32		count;
	Datum	   *values;			/* row by row; NULL is 0 */
	bool	   *isnull;			/* all false without has_nulls */
	RfRowsColumn *columns;
	int			last_attr;
	bool		in_order;		/* column i is attribute i of the slots */
	bool		has_nulls;		/* some row has */
	int			ref_count;		/* columns that are passed by reference */
	int		   *refs;

	/* Variable-length values, for an encoder that takes many rows. */
	bool		toasted;		/* some are not plain */
	uint32		heap_bytes;		/* that one row of them takes of a batch, at most */

	/* Tuples whose values have still to be found (rows_tuples.c): the last rows. */
	struct RfRowsMap *map;		/* NULL: rows come in slots of values */
	HeapTupleHeader *tuples;
	uint32		found;			/* rows before them */
	uint32		settled;		/* by-reference values of rows before this one lie on no page */

	char	   *space;			/* values that were copied; NULL: all columns are passed by value */
	uint32		space_used;
	bool		uses_odd;		/* some value lies in odd_values: it did not fit, or had to be made
								 * flat */
	MemoryContext odd_values;
	Buffer	   *pins;
	int			pin_count;
	MemoryContext context;
} RfRows;

/*
 * attmap as in rf_encoder_create; the rows come in slots of this descriptor's types. For so many
 * encoders: among more, more are divided together.
 */
extern RfRows *rf_rows_create(TupleDesc desc, int column_count, const AttrNumber *attmap,
							  int encoders);
extern void rf_rows_add(RfRows *rows, TupleTableSlot *slot);
extern void rf_rows_complete(RfRows *rows);

/*
 * The rows' numbers by destination, in their order: destination d has counts[d] numbers from
 * numbers[starts[d]] on. Row i goes to places[i], which is below `destinations`.
 */
extern void rf_rows_divide(const uint16 *places, uint32 count, int destinations, uint16 *numbers,
						   uint32 *starts, uint32 *counts);

/* Into a virtual slot of the columns. */
extern void rf_rows_get(const RfRows *rows, uint32 row, TupleTableSlot *slot);
extern void rf_rows_reset(RfRows *rows);
extern void rf_rows_destroy(RfRows *rows);

static inline bool
rf_rows_full(const RfRows *rows)
{
	return rows->count == rows->size || rows->space_used == RF_ROWS_SPACE ||
		(rows->pin_count == RF_ROWS_PINS && rows->count >= rows->enough);
}

/*
 * As many of these rows as fit, from the front; returns how many. 0: this batch is full, or, when
 * it is empty, the first row is too large for it. The encoder's columns are attributes 1.. of its
 * descriptor.
 */
extern uint32 rf_encoder_add_rows(RfEncoder *encoder, const RfRows *rows, const uint16 *numbers,
								  uint32 count);

extern uint32 rf_encoder_rows(RfEncoder *encoder);
extern uint32 rf_encoder_finish(RfEncoder *encoder);	/* bytes used */

/*
 * A row that does not fit: first how many bytes a batch of it alone takes at most (ERROR beyond 4
 * GB), then that batch, at `place` or, when that is NULL, in memory of the encoder's own that is
 * valid until the next call. Begin a batch before adding again.
 */
extern uint32 rf_encoder_measure_large(RfEncoder *encoder, TupleTableSlot *slot);
extern const uint8 *rf_encoder_large_row(RfEncoder *encoder, TupleTableSlot *slot, uint8 *place,
										 uint32 bytes, uint32 *length);
extern void rf_encoder_destroy(RfEncoder *encoder);

/*
 * Batches of heap tuples as they lie on their pages (encode_tuples.c), for the same attributes as
 * an encoder made with these arguments. NULL when that cannot be: a wanted attribute has no raw
 * image. It goes with the current memory context.
 */
typedef struct RfTupleWriter RfTupleWriter;

/* Tuples of one page, which is pinned. */
typedef struct RfPageTuples
{
	const char *page;
	const HeapTupleHeader *tuples;
	const uint16 *lengths;
	int			count;
} RfPageTuples;

/* The extent of a page's tuples, from the first byte that the reader needs; bytes. */
typedef struct RfTupleExtent
{
	const char *start;
	uint32		box;			/* of all with the bytes between them */
	uint32		packed;			/* of all one behind the other */
	int			fragments;		/* in the order given, how many do not touch the one before; at
								 * least as many as RfTupleFragments has */
} RfTupleExtent;

/* toasted: the table has a TOAST table. */
extern RfTupleWriter *rf_tuples_create(TupleDesc table, bool toasted, int column_count,
									   const AttrNumber *attmap, const RfStreamColumn *wanted,
									   uint32 flags, int reader_encoding);

/*
 * A batch need not lie in one piece: bytes of pages may stay where they are and be gathered when it
 * is sent. Each part is some bytes of the buffer, then some of a page.
 */
typedef struct RfTuplePart
{
	uint32		own;
	uint32		length;
	const char *at;
	uint16		element;		/* as in RfPart: so far, */
	uint16		stride;			/* unless it is 0 */
} RfTuplePart;

#define RF_TUPLE_PARTS		30

/* Where tuples of one page lie that touch each other, by address; bytes from the page's start. */
typedef struct RfTupleFragments
{
	int			count;			/* of which RF_TUPLE_PARTS are listed at most */
	uint32		bytes;			/* of all */
	uint16		start[RF_TUPLE_PARTS];
	uint16		length[RF_TUPLE_PARTS];
	uint64		map[BLCKSZ / MAXIMUM_ALIGNOF / 64]; /* a bit for MAXIMUM_ALIGNOF bytes */
} RfTupleFragments;

/*
 * Tuples of one length at equal distances, for a device that leaves out the bytes between the
 * wanted parts.
 */
typedef struct RfTupleStride
{
	const char *start;			/* of the wanted part of the first tuple by address */
	uint16		element;		/* bytes of each that count */
	uint16		stride;			/* from one to the next */
} RfTupleStride;

/*
 * False: `buffer`, 8-aligned, is too small for pages. `entries`: of a work request, for the parts
 * of the batch that stay on their pages and the parts that do not; 0 copies everything.
 */
extern bool rf_tuples_begin(RfTupleWriter *writer, void *buffer, uint32 capacity, int entries);
extern bool rf_tuples_has_room(const RfTupleWriter *writer);	/* for one page more, with any
																 * contents */

/* For one page's tuples, at least one; false: a value that is wanted is not within its tuple. */
extern bool rf_tuples_measure(const RfTupleWriter *writer, const RfPageTuples *set,
							  RfTupleExtent *extent);

extern void rf_tuples_fragments(const RfPageTuples *set, RfTupleFragments *fragments);

/* Entries that are left for tuples of one page that stay there. */
extern int	rf_tuples_entries(const RfTupleWriter *writer);

/*
 * Adds measured tuples with the bytes between them (box) or without. There is room. `direct`: the
 * box stays where it is; returns the bytes in front of it that then travel along. gather: the
 * fragments stay; so many entries are left.
 */
extern uint32 rf_tuples_add(RfTupleWriter *writer, const RfPageTuples *set,
							const RfTupleExtent *extent, bool box, bool direct);
extern void rf_tuples_gather(RfTupleWriter *writer, const RfPageTuples *set,
							 const RfTupleFragments *fragments);

/*
 * Returns true if the tuples are regular. Then they may be added as one strided part, as gathered
 * ones are.
 */
extern bool rf_tuples_regular(const RfPageTuples *set, RfTupleStride *stride);
extern void rf_tuples_stride(RfTupleWriter *writer, const RfPageTuples *set,
							 const RfTupleStride *stride);

/*
 * A page whose tuples are all visible and that is locked: its rows, and where they lie; -1: a value
 * that is wanted is not within its tuple. Then, if it has rows, take it as it is. There is room.
 */
extern int	rf_tuples_look(const RfTupleWriter *writer, Page page, RfTupleExtent *extent);
extern uint32 rf_tuples_add_page(RfTupleWriter *writer, Page page, int rows,
								 const RfTupleExtent *extent, bool direct);
extern uint32 rf_tuples_rows(const RfTupleWriter *writer);
extern uint32 rf_tuples_finish(RfTupleWriter *writer);	/* bytes, wherever they are */

/* Returns the number of parts of the finished batch; 0 if it lies in the buffer. */
extern int	rf_tuples_parts(const RfTupleWriter *writer, const RfTuplePart **parts);

/* Returns true for a reg* type, whose values are OIDs of objects and print as their names. */
extern bool rf_type_names_objects(Oid type);

/* Settings that only some types' text depends on, and that are expensive to change. */
#define RF_TEXT_NAMES	0x1		/* names of objects: search_path */
#define RF_TEXT_MONEY	0x2		/* amounts: lc_monetary */
#define RF_TEXT_ALL		(RF_TEXT_NAMES | RF_TEXT_MONEY)

/*
 * Returns the settings (RF_TEXT_*) on which the text of a type's values depends, for any
 * composition of the type. Looks at the catalog: ask once per column.
 */
extern int	rf_text_depends(Oid type);
extern int	rf_row_text_depends(TupleDesc desc);	/* of its columns together */

/*
 * Settings under which text means the same in every session, written or read; undo with
 * AtEOXact_GUC(true, the result). `depends`: the RF_TEXT_* on which the text depends; the rest is
 * set whenever it differs. Text to be read has its names qualified and never needs RF_TEXT_NAMES.
 */
extern int	rf_neutral_settings(int depends);

/*
 * The reader's request: fills the stream request's column from a local type. trusted: as in
 * rf_decoder_create.
 */
extern void rf_column_wanted(Oid type, int32 typmod, bool trusted, RfStreamColumn *wanted);

/*
 * Decoder into rows of `desc`: column i of a batch becomes attribute attnums[i] (1-based). The
 * other attributes are set NULL once. `source` says in errors where batches come from. Domains of
 * the reader are checked, also for NULL. trusted: batches come from a node whose images are taken
 * also where their check is not complete, and whose text and times are not checked; without it,
 * values of such types come converted.
 */
extern RfDecoder *rf_decoder_create(TupleDesc desc, int column_count, const AttrNumber *attnums,
									const char *source, bool trusted);

/*
 * An error about a value of column i gets its context from this (an ErrorContextCallback's function
 * with the column), not from the names of `desc` and `source`.
 */
extern void rf_decoder_set_context(RfDecoder *decoder, void (*context) (void *owner, int i),
								   void *owner);

/*
 * How bytes that go through this deserial function of an aggregate have to look; NULL when that is
 * not known. Column i of the decoder, a bytea, will be checked to look like that.
 */
struct RfImage;
extern const struct RfImage *rf_state_image(Oid deserialfn);
extern void rf_decoder_expect_state(RfDecoder *decoder, int i, Oid deserialfn);

/*
 * Check a batch's header, column descriptors and extents; values are checked as they are read.
 * ERROR (data corrupted) when anything is off. `length` is exactly the batch's. A batch that is not
 * 8-aligned (inside libpq's answer) is copied first.
 */
extern void rf_decoder_load(RfDecoder *decoder, const void *batch, uint32 length);

/*
 * Next row into values/isnull (natts long, the same arrays every time); false at the end of the
 * batch.
 */
extern bool rf_decoder_next(RfDecoder *decoder, Datum *values, bool *isnull);
extern uint32 rf_decoder_remaining(RfDecoder *decoder);
extern void rf_decoder_destroy(RfDecoder *decoder);

#endif
