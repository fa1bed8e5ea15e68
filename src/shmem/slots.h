/*
 * slots.h - slots, as one backend sees them: fill, submit, read, check, release. Plain C.
 */
#ifndef RF_SLOTS_H
#define RF_SLOTS_H

#include "layout.h"

/*
 * A producer's place in its piece of value memory: two halves; one is filled while the other is
 * sent.
 */
typedef struct RfValueCursor
{
	uint64_t	copied;			/* bytes of large rows in slots since a piece was requested */
	uint64_t	wait;			/* RF_WAIT_VALUE: until so many slots are sent */
	uint64_t	used;			/* bytes of the half that is being filled */
	uint64_t	until[2];		/* of each half: slots handed over when its last row was */
	uint32_t	half;
} RfValueCursor;

/* A backend's position in its flow; private to it. */
typedef struct RfSlotCursor
{
	RfValueCursor value;
	uint64_t	next;			/* producer: slot to fill next. consumer: slot to read next */
	uint64_t	released;		/* consumer: slots given back */
	uint64_t	rung;			/* consumer: releases the lane was rung for */
	uint64_t	rows;			/* of the data slots so far */
	uint64_t	bytes;
	uint64_t	offset;			/* bytes of the batch whose LAST is not handed over, or read, yet */
	uint32_t	checksum;		/* producer: of the same, see rf_flow_submit; 0 if unknown */
	bool		in_batch;		/* between FIRST and LAST */
	bool		remote_end_noticed; /* consumer: its owner knows that remote_end is set */
	bool		ended;			/* the END slot was submitted (producer) or seen (consumer) */
} RfSlotCursor;

typedef enum RfSlotRead
{
	RF_READ_NOTHING,
	RF_READ_DATA,
	RF_READ_END,				/* the END slot, counts checked; it is released already: ring the
								 * lane */
	RF_READ_BAD					/* error describes the fault of the slot */
} RfSlotRead;

/*
 * Clears every word but the identity for a new use of the entry. Claiming backend, state CLAIMED.
 */
extern void rf_slots_reset(RfFlow *flow);

/*
 * Producer, before the lane gets the flow: takes over from OPENED where the reader's buffers are,
 * and how many there are. The flow has as many send buffers until the caller finds that it has
 * fewer.
 */
extern void rf_slots_opened(RfFlow *flow, const RfControlOpened *opened);

/*
 * Producer. Takes the next slot (FREE -> FILLING; a second call returns the same slot): its
 * address, or NULL if it is not free.
 */
extern uint8_t *rf_slot_fill(RfFlow *flow, RfSlotCursor *cursor);

/*
 * Writes the slot's header and hands it over (FILLING -> READY). True: ring the lane, which has
 * credit to send it.
 */
extern bool rf_slot_submit(RfFlow *flow, RfSlotCursor *cursor, uint32_t length, uint32_t flags,
						   uint64_t rows);

/*
 * The same for a payload that lies in the flow's piece of value memory and stays there until the
 * slot is sent.
 */
extern bool rf_slot_place(RfFlow *flow, RfSlotCursor *cursor, const uint8_t *payload,
						  uint32_t length, uint32_t flags, uint64_t rows);

/*
 * The same for a payload of `length` bytes of which parts lie in shared buffers. First
 * rf_slot_gather stores the parts at `to`: count <= RF_SLOT_PARTS.
 */
extern void rf_slot_gather(RfFlow *flow, RfFlowParts *to, const RfSlotCursor *cursor,
						   const RfPart *parts, int count);
extern bool rf_slot_submit_gathered(RfFlow *flow, RfSlotCursor *cursor, uint32_t length,
									uint32_t flags, uint64_t rows);

/*
 * Closing producer: takes back GATHERED slots that it has handed over, from `first` on, unless a
 * work request reads them. Returns the number of the first slot that no work request reads or will
 * read.
 */
extern uint64_t rf_slots_withdraw(RfFlow *flow, const RfSlotCursor *cursor, uint64_t first);

/* Returns true if the reader has released everything that was handed over. */
extern bool rf_slot_acked(RfFlow *flow);

/* Consumer. Reads the next slot: FULL -> READING, header copied to *header and checked. */
extern RfSlotRead rf_slot_read(RfFlow *flow, RfSlotCursor *cursor, RfSlotHeader *header,
							   uint8_t **payload, RfError *error);

/*
 * READING -> FREE for the oldest slot not released yet. True: ring the lane, because it is time to
 * notify the producer (half of the buffers, a quarter of many, or the end of the stream).
 */
extern bool rf_slot_release(RfFlow *flow, RfSlotCursor *cursor);

/*
 * Returns true if the owner of a flow beyond OPENING has anything to process. For the check between
 * storing `waiting` and sleeping.
 */
extern bool rf_slots_ready(RfFlow *flow, const RfSlotCursor *cursor, RfFlowWaiting waiting);

#endif
