/*
 * group_order.c - selects the next member: the consumer with most room, and the order of a
 * replicating group.
 *
 * Plain C, one thread; it sends nothing itself: group_consume.c, and the unit test's model, carry
 * its messages.
 *
 * The order log is a ring of producer numbers, one per slot. Its size is producers x slot_count,
 * and that is enough: a slot in the log that was not delivered here, or whose position another
 * consumer was not told, still occupies a receive buffer of its pair there, and there are only
 * slot_count of them per pair.
 *
 * Safety, for the first consumer's `decided[p]` slots of producer p in the log:
 *   - decided[p] <= min over consumers c of arrived[c][p], where arrived[c][p] is c's own report;
 *     so a slot that any consumer delivers has arrived at all.
 *   - Order within a pair is the pair's; between pairs it is the log's, which has one writer and
 *     reaches each other consumer over one ordered flow.
 *   - A batch of several slots is not split: once its first slot is in the log, nothing but this
 *     producer's slots follow until its last one.
 * Liveness: a consumer's report is due whenever it has changed, and the log is due whenever it has
 * grown; both are cumulative, so a report that waits for a free slot loses nothing. The rest of a
 * torn batch can always arrive: everything before it is in the log, so all consumers can deliver
 * and release it.
 */
#include <string.h>

#include "group_order.h"

int
rf_group_most_free(const uint32_t *free_buffers, uint32_t count, uint32_t turn)
{
	int			best = RF_GROUP_ANY;

	for (uint32_t i = 0; i < count; i++)
	{
		uint32_t	member = (turn + i) % count;

		if (free_buffers[member] > (best < 0 ? 0 : free_buffers[best]))
			best = (int) member;
	}
	return best;
}

/*
 * The state of one consumer; the first knows the state of all, every other consumer only its own.
 */
typedef struct OrderConsumer
{
	uint64_t   *arrived;		/* [producers] slots */
	uint8_t    *ended;			/* [producers] */
	uint64_t	told;			/* the first consumer: log entries it was sent */
	bool		told_all;		/* and the last message */
	bool		drains;
} OrderConsumer;

struct RfOrder
{
	uint32_t	producers;
	uint32_t	consumers;
	uint32_t	me;
	uint32_t	slot_count;
	uint64_t	log_size;
	uint64_t	ordered;		/* slots in the log so far */
	uint64_t	given;			/* of these, delivered here */
	bool		complete;		/* the log is at its end */
	bool		stopped;
	bool		report_due;		/* not the first: something changed since the last message */
	RfTurn		turn;			/* the first consumer: of the producers */
	uint64_t   *decided;		/* [producers] slots of each in the log */
	uint8_t    *last;			/* [producers * slot_count] does a batch end with the slot */
	uint16_t   *log;			/* ring */
	OrderConsumer *others;		/* [consumers]; only [me] but for the first */
};

static size_t
carve(size_t *at, size_t bytes)
{
	size_t		start = *at;

	*at += (bytes + 7) & ~(size_t) 7;
	return start;
}

/* Sizes of the parts, and with a base their addresses. */
static size_t
lay_out(RfOrder *order, uint32_t producers, uint32_t consumers, uint32_t slot_count)
{
	size_t		at = 0;
	size_t		decided;
	size_t		last;
	size_t		log;
	size_t		others;

	(void) carve(&at, sizeof(RfOrder));
	decided = carve(&at, producers * sizeof(uint64_t));
	last = carve(&at, (size_t) producers * slot_count);
	log = carve(&at, (size_t) producers * slot_count * sizeof(uint16_t));
	others = carve(&at, consumers * sizeof(OrderConsumer));
	for (uint32_t i = 0; i < consumers; i++)
	{
		size_t		arrived = carve(&at, producers * sizeof(uint64_t));
		size_t		ended = carve(&at, producers);

		if (order == NULL)
			continue;
		order->others = (OrderConsumer *) ((uint8_t *) order + others);
		order->others[i].arrived = (uint64_t *) ((uint8_t *) order + arrived);
		order->others[i].ended = (uint8_t *) order + ended;
	}
	if (order != NULL)
	{
		order->decided = (uint64_t *) ((uint8_t *) order + decided);
		order->last = (uint8_t *) order + last;
		order->log = (uint16_t *) ((uint8_t *) order + log);
	}
	return at;
}

size_t
rf_order_size(uint32_t producers, uint32_t consumers, uint32_t slot_count)
{
	return lay_out(NULL, producers, consumers, slot_count);
}

void
rf_order_init(RfOrder *order, uint32_t producers, uint32_t consumers, uint32_t me,
			  uint32_t slot_count)
{
	memset(order, 0, rf_order_size(producers, consumers, slot_count));
	order->producers = producers;
	order->consumers = consumers;
	order->me = me;
	order->slot_count = slot_count;
	order->log_size = (uint64_t) producers * slot_count;
	order->turn.torn = -1;
	(void) lay_out(order, producers, consumers, slot_count);
}

void
rf_order_arrived(RfOrder *order, uint32_t producer, bool last)
{
	uint64_t	slot = order->others[order->me].arrived[producer]++;

	order->last[producer * order->slot_count + slot % order->slot_count] = last;
	order->report_due = true;
}

void
rf_order_ended(RfOrder *order, uint32_t producer)
{
	order->others[order->me].ended[producer] = 1;
	order->report_due = true;
}

void
rf_order_drain(RfOrder *order)
{
	order->others[order->me].drains = true;
	order->report_due = true;
}

/* ---------- the first consumer ---------- */

/* Slots of a producer that have arrived at all. */
static uint64_t
arrived_everywhere(const RfOrder *order, uint32_t producer)
{
	uint64_t	least = order->others[0].arrived[producer];

	for (uint32_t i = 1; i < order->consumers; i++)
	{
		if (order->others[i].arrived[producer] < least)
			least = order->others[i].arrived[producer];
	}
	return least;
}

bool
rf_order_decide(RfOrder *order, RfError *error)
{
	uint32_t	idle = 0;		/* producers in a row that had nothing */
	bool		all_ended = true;
	bool		all_drain = true;

	/* Decisions that the other consumers may have been told are final. */
	if (order->complete || order->stopped)
		return true;
	while (idle < order->producers)
	{
		uint32_t	producer = rf_turn_look(&order->turn, idle, order->producers);
		uint64_t	limit = arrived_everywhere(order, producer);
		bool		last = false;

		while (order->decided[producer] < limit && !last)
		{
			last = order->last[producer * order->slot_count +
							   order->decided[producer]++ % order->slot_count];
			order->log[order->ordered++ % order->log_size] = (uint16_t) producer;
			rf_turn_take(&order->turn, producer, last);
		}
		if (last)
			idle = 0;
		else if (order->turn.torn >= 0)
			break;				/* its rest has not arrived everywhere */
		else
			idle++;
	}

	for (uint32_t consumer = 0; consumer < order->consumers; consumer++)
	{
		OrderConsumer *other = &order->others[consumer];

		all_drain = all_drain && other->drains;
		for (uint32_t producer = 0; producer < order->producers; producer++)
		{
			if (!other->ended[producer])
				all_ended = false;
			else if (order->others[0].ended[producer] &&
					 other->arrived[producer] != order->others[0].arrived[producer])
				return rf_error(error, RF_ERROR_PROTOCOL, NULL, NULL,
								"producer %u sent %llu parts to consumer %u and %llu to the first "
								"one",
								producer, (unsigned long long) other->arrived[producer], consumer,
								(unsigned long long) order->others[0].arrived[producer]);
		}
	}
	/* Streams that ended with equal counts are in the log as a whole: none ends within a batch. */
	order->complete = all_ended;
	order->stopped = all_drain && !all_ended;
	return true;
}

/* ---------- messages ---------- */

static uint32_t
write_log(RfOrder *order, OrderConsumer *other, void *message, uint32_t room)
{
	RfOrderHeader header = {.kind = RF_ORDER_LOG, .first = other->told};
	uint8_t    *entries = (uint8_t *) message + sizeof(header);
	uint64_t	left = order->ordered - other->told;
	uint32_t	most = (room - (uint32_t) sizeof(header)) / (uint32_t) sizeof(uint16_t);

	if (other->told_all || (left == 0 && !order->complete && !order->stopped))
		return 0;
	header.count = left < most ? (uint32_t) left : most;
	for (uint32_t i = 0; i < header.count; i++)
		memcpy(entries + i * sizeof(uint16_t), &order->log[(other->told + i) % order->log_size],
			   sizeof(uint16_t));
	other->told += header.count;
	if (other->told == order->ordered)
	{
		if (order->complete)
			header.flags = RF_ORDER_COMPLETE;
		else if (order->stopped)
			header.flags = RF_ORDER_STOPPED;
		other->told_all = header.flags != 0;
	}
	memcpy(message, &header, sizeof(header));
	return (uint32_t) (sizeof(header) + header.count * sizeof(uint16_t));
}

/*
 * Writes this consumer's arrivals into `message`. Returns its length, or 0 if there is nothing to
 * report.
 */
static uint32_t
write_arrivals(RfOrder *order, void *message)
{
	RfOrderHeader header = {.kind = RF_ORDER_ARRIVALS, .count = order->producers};
	const OrderConsumer *mine = &order->others[order->me];
	uint8_t    *counts = (uint8_t *) message + sizeof(header);

	if (!order->report_due || order->complete || order->stopped)
		return 0;
	if (mine->drains)
		header.flags = RF_ORDER_DRAINS;
	memcpy(message, &header, sizeof(header));
	for (uint32_t producer = 0; producer < order->producers; producer++)
	{
		uint64_t	count = mine->arrived[producer] * 2 + mine->ended[producer];

		memcpy(counts + producer * sizeof(count), &count, sizeof(count));
	}
	order->report_due = false;
	return (uint32_t) (sizeof(header) + order->producers * sizeof(uint64_t));
}

uint32_t
rf_order_write(RfOrder *order, uint32_t to, void *message, uint32_t room)
{
	if (order->me == 0)
		return to == 0 ? 0 : write_log(order, &order->others[to], message, room);
	return to == 0 ? write_arrivals(order, message) : 0;
}

static bool
bad_message(RfError *error, uint32_t from)
{
	return rf_error(error, RF_ERROR_PROTOCOL, NULL, NULL,
					"consumer %u sent an invalid message about the order of batches", from);
}

/*
 * Takes the arrivals that a consumer reports. Counts that cannot be are a protocol error, so that a
 * wrong peer cannot bring the log out of step.
 */
static bool
read_arrivals(RfOrder *order, uint32_t from, const RfOrderHeader *header, const uint8_t *counts,
			  RfError *error)
{
	OrderConsumer *other = &order->others[from];

	if ((header->flags & ~RF_ORDER_DRAINS) != 0)
		return bad_message(error, from);
	for (uint32_t producer = 0; producer < order->producers; producer++)
	{
		uint64_t	count;

		memcpy(&count, counts + producer * sizeof(count), sizeof(count));
		/* More than it can have beyond its deliveries, or less than before. */
		if (count / 2 < other->arrived[producer] ||
			count / 2 > order->decided[producer] + order->slot_count ||
			(other->ended[producer] && count != other->arrived[producer] * 2 + 1))
			return bad_message(error, from);
		other->arrived[producer] = count / 2;
		other->ended[producer] = count & 1;
	}
	other->drains = other->drains || (header->flags & RF_ORDER_DRAINS) != 0;
	return true;
}

/*
 * Takes the next entries of the log. Each has to name a slot that has arrived here, and the end has
 * to fit the counts; else the first consumer breaks the rules.
 */
static bool
read_log(RfOrder *order, const RfOrderHeader *header, const uint8_t *entries, RfError *error)
{
	const OrderConsumer *mine = &order->others[order->me];

	if (header->first != order->ordered || order->complete || order->stopped ||
		header->flags > RF_ORDER_STOPPED ||
		order->ordered + header->count - order->given > order->log_size)
		return bad_message(error, 0);
	for (uint32_t i = 0; i < header->count; i++)
	{
		uint16_t	producer;

		memcpy(&producer, entries + i * sizeof(producer), sizeof(producer));
		if (producer >= order->producers || order->decided[producer] >= mine->arrived[producer])
			return bad_message(error, 0);
		order->decided[producer]++;
		order->log[order->ordered++ % order->log_size] = producer;
	}
	order->complete = (header->flags & RF_ORDER_COMPLETE) != 0;
	order->stopped = (header->flags & RF_ORDER_STOPPED) != 0;
	for (uint32_t producer = 0; order->complete && producer < order->producers; producer++)
	{
		if (!mine->ended[producer] || order->decided[producer] != mine->arrived[producer])
			return bad_message(error, 0);
	}
	return true;
}

bool
rf_order_read(RfOrder *order, uint32_t from, const void *message, uint32_t length, RfError *error)
{
	RfOrderHeader header;
	const uint8_t *rest = (const uint8_t *) message + sizeof(header);

	if (length < sizeof(header) || from >= order->consumers || from == order->me)
		return bad_message(error, from);
	memcpy(&header, message, sizeof(header));
	if (order->me == 0 && header.kind == RF_ORDER_ARRIVALS && header.count == order->producers &&
		length == sizeof(header) + (size_t) header.count * sizeof(uint64_t))
		return read_arrivals(order, from, &header, rest, error);
	if (from == 0 && header.kind == RF_ORDER_LOG &&
		length == sizeof(header) + (size_t) header.count * sizeof(uint16_t))
		return read_log(order, &header, rest, error);
	return bad_message(error, from);
}

bool
rf_order_told(const RfOrder *order, uint32_t to)
{
	return order->me == 0 ? order->others[to].told_all : order->complete || order->stopped;
}

RfOrderNext
rf_order_next(RfOrder *order, uint32_t *producer)
{
	if (order->given < order->ordered)
	{
		*producer = order->log[order->given++ % order->log_size];
		return RF_ORDER_SLOT;
	}
	return order->complete ? RF_ORDER_END : order->stopped ? RF_ORDER_STOP : RF_ORDER_NOTHING;
}
