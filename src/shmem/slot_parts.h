/*
 * slot_parts.h - parts of a slot that lie on pages in shared buffers. Plain C.
 */
#ifndef RF_SLOT_PARTS_H
#define RF_SLOT_PARTS_H

#include "layout.h"

/*
 * The places of the two kinds of parts, and the limits of one work request and of the reader's
 * buffer.
 */
typedef struct RfPartsPlace
{
	const uint8_t *slot;		/* its payload */
	uint32_t	slot_lkey;
	uint32_t	room;			/* bytes of payload in the reader's buffer */
	const uint8_t *pages;
	uint64_t	pages_size;
	uint32_t	page_size;
	uint32_t	pages_lkey;
	int			max_entries;
	int			max_strided;	/* of these entries, RfDeviceCaps */
} RfPartsPlace;

/* The entries of a work request for a slot's payload. */
typedef struct RfPartsEntries
{
	int			count;			/* 0: a part is outside slot and pool, or too many parts */
	int			strided_count;	/* of them, strided parts */
	uint32_t	bytes;			/* in all */
	uint32_t	page_bytes;		/* of them from pages */
	RfSge		sge[RF_MAX_SGE];
	RfStrided	strided[RF_MAX_SGE];
} RfPartsEntries;

/* Returns entries->count. Each part is read once. */
extern int	rf_parts_describe(const RfPart *parts, int count, const RfPartsPlace *place,
							  RfPartsEntries *entries);

#endif
