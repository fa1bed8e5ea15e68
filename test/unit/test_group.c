/*
 * test_group.c - groups of flows without a server: descriptions, turns, balance, and the order of a
 * replicating group over a model of its pair flows.
 *
 * The model: a pair is a queue of slots in flight and a queue of slots that have arrived, with as
 * many as there are receive buffers; a flow between consumers the same with messages of bytes. A
 * seed decides which member does something next, so anything between two pairs may come in any
 * order and at any time; within a pair nothing does. Members die, stop or dawdle. Checked at every
 * slot that is given out: it is the pair's next, it has arrived at every consumer, it is the same
 * as at every other consumer in that place, no batch is torn. At the end: nothing lost, nothing
 * twice, every buffer free.
 *
 *   test_group [first seed [count]]      a failing seed is printed; give it as the first argument
 *   to repeat it
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shmem/group_order.h"

static int	failures;

static void
check(bool good, const char *what)
{
	printf("%sok - %s\n", good ? "" : "not ", what);
	failures += !good;
}

static uint64_t random_state;

static uint32_t
pick(uint32_t below)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (uint32_t) ((random_state * 0x2545F4914F6CDD1DULL) >> 32) % below;
}

static void
seed_with(uint64_t seed)
{
	random_state = (seed + 1) * 0x9E3779B97F4A7C15ULL;
	for (int i = 0; i < 8; i++)
		(void) pick(2);
}

/* ---------- descriptions ---------- */

static void
test_descriptions(void)
{
	RfNodeId	nodes[8];
	uint8_t		id[16] = "an identity....";
	RfError		error;
	size_t		size = rf_group_desc_size(RF_GROUP_REPLICATE, 3, 4);
	RfGroupDesc *desc = calloc(1, size);
	RfGroupDesc *other = calloc(1, size);
	RfGroupDesc *bigger;
	uint32_t	accepted = 0;
	uint32_t	bad = 0;
	bool		all_apart = true;

	for (int i = 0; i < 8; i++)
		nodes[i] = (RfNodeId) {{100 + i, 200 + i}};
	check(rf_group_desc_size(RF_GROUP_GATHER, 3, 2) == 0 && rf_group_desc_size(0, 1, 1) == 0 &&
		  rf_group_desc_size(RF_GROUP_BALANCE, 0, 1) == 0 &&
		  rf_group_desc_size(RF_GROUP_BALANCE, RF_GROUP_MAX_MEMBERS + 1, 1) == 0 &&
		  rf_group_desc_size(RF_GROUP_BALANCE, 1, RF_GROUP_MAX_MEMBERS + 1) == 0 &&
		  rf_group_desc_size(RF_GROUP_BALANCE, RF_GROUP_MAX_MEMBERS, RF_GROUP_MAX_MEMBERS) != 0,
		  "impossible shapes have no size");
	check(rf_group_desc_init(desc, &(RfGroupShape) {RF_GROUP_REPLICATE, 3, 4, 4, 65536}, id, nodes,
							 &error) &&
		  rf_group_desc_check(desc, size, &error),
		  "a description is what its own check wants");
	check(rf_group_desc_node(desc, RF_FLOW_PRODUCER, 2)->words[0] == 102 &&
		  rf_group_desc_node(desc, RF_FLOW_CONSUMER,
							 3)->words[0] == 106, "the nodes are in their places");

	/* Every address has a place of its own within the bytes. */
	memcpy(other, desc, size);
	for (uint32_t consumer = 0; consumer < 4; consumer++)
	{
		for (uint32_t producer = 0; producer < 3; producer++)
			rf_group_desc_pair(other, producer, consumer)->flow++;
		if (consumer > 0)
		{
			rf_group_desc_control(other, consumer, RF_FLOW_CONSUMER)->flow++;
			rf_group_desc_control(other, consumer, RF_FLOW_PRODUCER)->flow++;
		}
	}
	for (size_t i = 0; i < 3 * 4 + 2 * 3; i++)
		all_apart = all_apart &&
			((RfGroupAddress *) ((uint8_t *) other + size))[-1 - (int) i].flow == 1;
	check(all_apart, "no two addresses share a place");
	check(!rf_group_desc_check(other, size, &error), "an address that is not known must be empty");

	/* Merge. */
	memcpy(other, desc, size);
	*rf_group_desc_pair(other, 1, 2) = (RfGroupAddress)
	{
		5, 1, 77
	};
	check(rf_group_desc_merge(desc, other, &error) && rf_group_desc_pair(desc, 1, 2)->key == 77 &&
		  rf_group_desc_check(desc, size, &error), "addresses are merged");
	rf_group_desc_pair(other, 1, 2)->key = 78;
	check(!rf_group_desc_merge(desc, other, &error), "two members cannot have one place");
	rf_group_desc_pair(other, 1, 2)->key = 77;
	other->id[3]++;
	check(!rf_group_desc_merge(desc, other, &error), "another group is not merged");
	check(!rf_group_desc_extend(other, desc, RF_FLOW_PRODUCER, nodes, &error),
		  "nobody joins a replicating group");

	/* Bytes that were damaged are refused, or they are another valid description. */
	for (uint32_t i = 0; i < 20000; i++)
	{
		RfGroupDesc *copy = malloc(size);
		size_t		length = pick(4) == 0 ? pick((uint32_t) size + 1) : size;

		memcpy(copy, desc, size);
		for (uint32_t n = pick(3); n-- > 0;)
			((uint8_t *) copy)[pick(4) == 0 ? pick((uint32_t) size) : pick(sizeof(RfGroupHeader))] =
				(uint8_t) pick(256);
		copy = realloc(copy, length > 0 ? length : 1);
		if (length >= sizeof(RfGroupHeader) ? rf_group_desc_check(copy, length, &error) :
			rf_group_desc_check(copy, length, &error))
		{
			accepted++;
			if (rf_group_desc_size(copy->kind, copy->producers, copy->consumers) != length ||
				copy->slot_count > RF_MAX_SLOTS || copy->slot_size > RF_MAX_SLOT_SIZE)
				bad++;
		}
		free(copy);
	}
	check(bad == 0 && accepted > 100, "damaged descriptions are refused");
	free(desc);
	free(other);

	/* Extend. */
	size = rf_group_desc_size(RF_GROUP_BALANCE, 2, 2);
	desc = calloc(1, size);
	(void) rf_group_desc_init(desc, &(RfGroupShape) {RF_GROUP_BALANCE, 2, 2, 4, 65536}, id, nodes,
							  &error);
	*rf_group_desc_pair(desc, 1, 1) = (RfGroupAddress)
	{
		9, 1, 90
	};
	*rf_group_desc_pair(desc, 1, 0) = (RfGroupAddress)
	{
		8, 1, 80
	};
	size = rf_group_desc_size(RF_GROUP_BALANCE, 3, 2);
	other = calloc(1, size);
	check(rf_group_desc_extend(other, desc, RF_FLOW_PRODUCER, &nodes[7], &error) &&
		  rf_group_desc_check(other, size, &error) &&
		  rf_group_desc_pair(other, 1, 1)->key == 90 && rf_group_desc_pair(other, 1,
																		   0)->key == 80 &&
		  rf_group_desc_pair(other, 2, 1)->known == 0 &&
		  rf_group_desc_node(other, RF_FLOW_PRODUCER, 2)->words[0] == 107 &&
		  rf_group_desc_node(other, RF_FLOW_CONSUMER,
							 1)->words[0] == 103, "a producer joins");
	bigger = calloc(1, rf_group_desc_size(RF_GROUP_BALANCE, 3, 3));
	check(rf_group_desc_extend(bigger, other, RF_FLOW_CONSUMER, &nodes[6], &error) &&
		  rf_group_desc_pair(bigger, 1, 1)->key == 90 &&
		  rf_group_desc_node(bigger, RF_FLOW_CONSUMER,
							 2)->words[0] == 106, "a consumer joins");
	free(desc);
	free(other);
	free(bigger);
}

/* ---------- turns and balance ---------- */

static void
test_turns(void)
{
	uint32_t	free_buffers[3] = {0, 2, 2};
	double		sums[4] = {0};
	double		mean = 0;
	double		variance = 0;
	RfTurn		turn = {0, -1};
	double		taken[3] = {0};
	double		balance[3] = {0};
	uint32_t	used[3] = {0};
	double		due[3];
	const double speed[3] = {1, 1.5, 3};
	uint32_t	next = 0;

	check(rf_group_most_free(free_buffers, 3, 0) == 1 && rf_group_most_free(free_buffers, 3,
																			2) == 2,
		  "of equals the one whose turn it is");
	free_buffers[0] = 3;
	check(rf_group_most_free(free_buffers, 3, 2) == 0, "most free buffers go first");
	memset(free_buffers, 0, sizeof(free_buffers));
	check(rf_group_most_free(free_buffers, 3, 1) == RF_GROUP_ANY, "nobody has room");

	/*
	 * Four producers that always have something, in batches of one to three parts: a reader takes
	 * whole batches in turn.
	 */
	for (uint32_t round = 0; round < 4000; round++)
	{
		uint32_t	producer = rf_turn_look(&turn, 0, 4);

		for (uint32_t parts = 1 + pick(3); parts-- > 0; rf_turn_take(&turn, producer, parts == 0))
		{
			failures += rf_turn_look(&turn, 2, 4) != producer && turn.torn >= 0;
			sums[producer] += 1;
		}
	}
	for (int i = 0; i < 4; i++)
		mean += sums[i] / 4;
	for (int i = 0; i < 4; i++)
		variance += (sums[i] - mean) * (sums[i] - mean) / 4;
	check(sqrt(variance) / mean < 0.05,
		  "producers with equal load get equal shares (coefficient of variation < 5 %)");

	/*
	 * Three consumers, four buffers each, which need 1/speed for a batch. Balanced: a producer
	 * that always has one gives it away as soon as there is room, and sees released buffers two at
	 * a time. Static: a third for each, over when the slowest is.
	 */
	for (int i = 0; i < 3; i++)
		due[i] = 1 / speed[i];
	for (uint32_t sent = 0; sent < 30000;)
	{
		int			to;

		for (int i = 0; i < 3; i++)
			free_buffers[i] = 4 - ((used[i] + 1) & ~1u);
		to = rf_group_most_free(free_buffers, 3, next);
		if (to >= 0)
		{
			used[to]++;
			taken[to]++;
			sent++;
			next = (uint32_t) to + 1;
			continue;
		}
		/* All are full: the next one to finish a batch. */
		to = 0;
		for (int i = 1; i < 3; i++)
			to = due[i] < due[to] ? i : to;
		used[to]--;
		balance[to] = due[to];
		due[to] += 1 / speed[to];
	}
	check(fabs(taken[0] / 30000 - 1 / 5.5) < 0.01 && fabs(taken[1] / 30000 - 1.5 / 5.5) < 0.01 &&
		  fabs(taken[2] / 30000 - 3 / 5.5) < 0.01, "balance follows speeds of 1 : 1.5 : 3");
	for (int i = 1; i < 3; i++)
		balance[0] = balance[i] > balance[0] ? balance[i] : balance[0];
	check(10000 / balance[0] >= 1.4, "and is at least 1.4 times as fast as a third for each");
}

/* ---------- replicate ---------- */

#define MAX_P		4
#define MAX_C		4
#define MAX_SLOTS	4
#define MAX_ORDER	4096

typedef struct Slot
{
	uint32_t	number;			/* of the producer's slots */
	bool		last;
} Slot;

typedef struct Pair
{
	uint64_t	sent;
	uint64_t	arrived;
	uint64_t	polled;
	uint64_t	given;
	uint64_t	released;
	bool		end_sent;
	bool		end_seen;
	Slot		slots[MAX_SLOTS];
} Pair;

typedef struct Message
{
	uint32_t	length;
	uint8_t		bytes[512];
} Message;

typedef struct Channel			/* between consumers */
{
	uint64_t	sent;
	uint64_t	arrived;
	uint64_t	read;
	Message		messages[RF_GROUP_CONTROL_SLOTS];
} Channel;

typedef struct Consumer
{
	RfOrder    *order;
	uint64_t	place;			/* in the global order */
	uint64_t	hash;
	int			torn;
	bool		drains;
	bool		over;
	bool		stopped;
	bool		dead;
} Consumer;

typedef struct Model
{
	uint32_t	producers;
	uint32_t	consumers;
	uint32_t	slots;
	uint32_t	total[MAX_P];	/* slots each will send */
	uint32_t	left_of_batch[MAX_P];
	bool		producer_dead[MAX_P];
	Pair		pairs[MAX_P][MAX_C];
	Channel		channels[MAX_C][MAX_C];
	Consumer	consumer[MAX_C];
	uint64_t	known;			/* places of the order that somebody has seen */
	uint64_t	order[MAX_ORDER];
	uint32_t	slowest;		/* a consumer that seldom gets its turn */
	const char *wrong;
} Model;

static void
wrong(Model *model, const char *what)
{
	static char problem[sizeof(((RfError *) 0)->message)];

	if (model->wrong != NULL)
		return;
	snprintf(problem, sizeof(problem), "%s", what);
	model->wrong = problem;
}

/* A producer sends a slot to all, when all have room: as the group's producer does. */
static bool
produce(Model *model, uint32_t producer)
{
	Pair	   *pairs = model->pairs[producer];
	bool		last;

	if (model->producer_dead[producer])
		return false;
	for (uint32_t i = 0; i < model->consumers; i++)
	{
		if (pairs[i].end_sent || pairs[i].sent - pairs[i].released >= model->slots ||
			model->consumer[i].stopped)
			return false;
	}
	if (pairs[0].sent == model->total[producer])
	{
		for (uint32_t i = 0; i < model->consumers; i++)
			pairs[i].end_sent = true;
		return true;
	}
	if (model->left_of_batch[producer] == 0)
		model->left_of_batch[producer] = pick(5) == 0 ? 1 + pick(2 * model->slots) : 1;
	last = --model->left_of_batch[producer] == 0 || pairs[0].sent + 1 == model->total[producer];
	if (last)
		model->left_of_batch[producer] = 0;
	for (uint32_t i = 0; i < model->consumers; i++)
	{
		Slot	   *slot = &pairs[i].slots[pairs[i].sent % model->slots];

		slot->number = (uint32_t) pairs[i].sent++;
		slot->last = last;
	}
	return true;
}

static bool
send_to(Model *model, uint32_t from, uint32_t to)
{
	Channel    *channel = &model->channels[from][to];
	Message    *message = &channel->messages[channel->sent % RF_GROUP_CONTROL_SLOTS];
	bool		moved = false;

	while (channel->sent - channel->read < RF_GROUP_CONTROL_SLOTS)
	{
		/* Little room, so that a long log goes in pieces. */
		message = &channel->messages[channel->sent % RF_GROUP_CONTROL_SLOTS];
		message->length = rf_order_write(model->consumer[from].order, to, message->bytes,
										 from == 0 ? 28 : sizeof(message->bytes));
		if (message->length == 0)
			break;
		channel->sent++;
		moved = true;
	}
	return moved;
}

static bool
exchange(Model *model, uint32_t me)
{
	Consumer   *consumer = &model->consumer[me];
	bool		moved = false;
	RfError		error;

	for (uint32_t producer = 0; producer < model->producers; producer++)
	{
		Pair	   *pair = &model->pairs[producer][me];

		for (; pair->polled < pair->arrived; pair->polled++, moved = true)
			rf_order_arrived(consumer->order, producer,
							 pair->slots[pair->polled % model->slots].last);
		if (pair->end_sent && pair->polled == pair->sent && !pair->end_seen)
		{
			pair->end_seen = moved = true;
			rf_order_ended(consumer->order, producer);
		}
	}
	for (uint32_t from = 0; from < model->consumers; from++)
	{
		Channel    *channel = &model->channels[from][me];

		for (; channel->read < channel->arrived; channel->read++, moved = true)
		{
			Message    *message = &channel->messages[channel->read % RF_GROUP_CONTROL_SLOTS];

			if (!rf_order_read(consumer->order, from, message->bytes, message->length, &error))
				wrong(model, error.message);
		}
	}
	if (me == 0 && !rf_order_decide(consumer->order, &error))
		wrong(model, error.message);
	for (uint32_t to = 0; to < model->consumers; to++)
	{
		if (to != me)
			moved = send_to(model, me, to) || moved;
	}
	return moved;
}

static bool
consume(Model *model, uint32_t me)
{
	Consumer   *consumer = &model->consumer[me];
	uint32_t	producer;
	Pair	   *pair;
	Slot	   *slot;
	uint64_t	what;

	if (consumer->over || consumer->dead)
		return false;
	switch (rf_order_next(consumer->order, &producer))
	{
		case RF_ORDER_NOTHING:
			return false;
		case RF_ORDER_STOP:
			consumer->stopped = true;
			__attribute__((fallthrough));
		case RF_ORDER_END:
			consumer->over = true;
			return true;
		case RF_ORDER_SLOT:
			break;
	}
	pair = &model->pairs[producer][me];
	if (pair->given == pair->polled)
	{
		wrong(model, "a slot is given out that has not come");
		return false;
	}
	slot = &pair->slots[pair->given % model->slots];
	if (slot->number != pair->given++)
		wrong(model, "a slot is lost, twice there or out of order");
	for (uint32_t i = 0; i < model->consumers; i++)
	{
		if (model->pairs[producer][i].arrived < pair->given)
			wrong(model, "a slot is seen that has not arrived at all consumers");
	}
	if (consumer->torn >= 0 && consumer->torn != (int) producer)
		wrong(model, "a batch is torn apart");
	consumer->torn = slot->last ? -1 : (int) producer;
	what = (uint64_t) producer << 32 | slot->number;
	if (consumer->place < model->known && model->order[consumer->place] != what)
		wrong(model, "two consumers see different orders");
	model->order[consumer->place] = what;
	if (consumer->place == model->known)
		model->known++;
	consumer->place++;
	consumer->hash = (consumer->hash ^ what) * 1099511628211ULL;
	return true;
}

/* Something moves on its way, or a member does something. False: it could not. */
static bool
step(Model *model)
{
	uint32_t	producer = pick(model->producers);
	uint32_t	me = pick(model->consumers);
	uint32_t	other = pick(model->consumers);
	Pair	   *pair = &model->pairs[producer][me];

	if (me == model->slowest && pick(4) != 0)
		return false;
	switch (pick(6))
	{
		case 0:
			return produce(model, producer);
		case 1:
			if (pair->arrived < pair->sent)
			{
				pair->arrived++;
				return true;
			}
			return false;
		case 2:
			if (model->channels[me][other].arrived < model->channels[me][other].sent)
			{
				model->channels[me][other].arrived++;
				return true;
			}
			return false;
		case 3:
			return !model->consumer[me].dead && exchange(model, me);
		case 4:
			return consume(model, me);
		default:
			if (pair->released < pair->given && !model->consumer[me].dead)
			{
				pair->released++;
				return true;
			}
			return false;
	}
}

typedef enum Fate
{
	ALL_WELL,
	ONE_DRAINS,
	ALL_DRAIN,
	PRODUCER_DIES,
	CONSUMER_DIES,
	FATES
} Fate;

static const char *
run_model(uint64_t seed)
{
	Model	   *model = calloc(1, sizeof(*model));
	Fate		fate = (Fate) (seed % FATES);
	uint32_t	victim;
	uint32_t	when;
	uint32_t	idle = 0;
	uint32_t	over = 0;
	const char *result;

	seed_with(seed);
	model->producers = 1 + pick(MAX_P);
	model->consumers = 1 + pick(MAX_C);
	model->slots = 1 + pick(MAX_SLOTS);
	model->slowest = pick(2 * MAX_C);
	for (uint32_t i = 0; i < model->producers; i++)
		model->total[i] = pick(4) == 0 ? 0 : pick(60);
	for (uint32_t i = 0; i < model->consumers; i++)
	{
		model->consumer[i].order = malloc(rf_order_size(model->producers, model->consumers,
														model->slots));
		rf_order_init(model->consumer[i].order, model->producers, model->consumers, i,
					  model->slots);
		model->consumer[i].torn = -1;
	}
	when = pick(3000);
	victim = pick(fate == PRODUCER_DIES ? model->producers : model->consumers);

	/* Nothing moved in this many tries: nothing can. */
	for (uint32_t steps = 0; idle < 30000 && over < model->consumers &&
		 model->wrong == NULL; steps++)
	{
		if (steps == when && fate == PRODUCER_DIES && !model->pairs[victim][0].end_sent)
			model->producer_dead[victim] = true;
		if (steps == when && fate == CONSUMER_DIES)
			model->consumer[victim].dead = true;
		for (uint32_t i = 0; i < model->consumers; i++)
		{
			if (!model->consumer[i].drains && !model->consumer[i].over &&
				steps >= when + i * 20 && (fate == ALL_DRAIN || (fate == ONE_DRAINS &&
																 i == victim)))
			{
				model->consumer[i].drains = true;
				rf_order_drain(model->consumer[i].order);
				idle = 0;
			}
		}
		idle = step(model) ? 0 : idle + 1;

		/* All ended: only released buffers are still on their way. */
		if (idle == 10000)
		{
			over = 0;
			for (uint32_t i = 0; i < model->consumers; i++)
				over += model->consumer[i].over;
		}
	}
	over = 0;

	for (uint32_t i = 0; i < model->consumers && model->wrong == NULL; i++)
	{
		Consumer   *consumer = &model->consumer[i];
		uint64_t	all = 0;

		over += consumer->over;
		for (uint32_t p = 0; p < model->producers; p++)
			all += model->total[p];
		if (consumer->over && !consumer->stopped && consumer->place != all)
			wrong(model, "an end with slots missing");
		if (consumer->over && !consumer->stopped && consumer->hash != model->consumer[0].hash &&
			model->consumer[0].place == all)
			wrong(model, "orders differ");
		if (consumer->stopped && fate != ALL_DRAIN && !(fate == ONE_DRAINS &&
														model->consumers == 1))
			wrong(model, "stopped although somebody wants more");
		if (!consumer->over && (fate == ALL_WELL || fate == ONE_DRAINS || fate == ALL_DRAIN))
			wrong(model, "it hangs");
		for (uint32_t p = 0; p < model->producers; p++)
		{
			Pair	   *pair = &model->pairs[p][i];

			if (consumer->over && !consumer->stopped && !consumer->dead &&
				pair->released != pair->sent)
				wrong(model, "a buffer is not given back");
			if (consumer->over && !consumer->stopped && model->producer_dead[p])
				wrong(model, "an end without a producer's end");
		}
	}
	/* One consumer that is dead before all has arrived there leaves nobody with an end. */
	if (fate == CONSUMER_DIES && over > 0 && model->wrong == NULL)
	{
		for (uint32_t p = 0; p < model->producers; p++)
		{
			if (!model->pairs[p][victim].end_seen)
				wrong(model, "an end although a consumer died without its own");
		}
	}
	result = model->wrong;
	for (uint32_t i = 0; i < model->consumers; i++)
		free(model->consumer[i].order);
	free(model);
	return result;
}

/*
 * Messages that nobody would send are refused, and accepted messages keep the books in order.
 */
static void
test_damaged_messages(void)
{
	RfOrder    *first = malloc(rf_order_size(2, 2, 4));
	RfOrder    *second = malloc(rf_order_size(2, 2, 4));
	RfError		error;
	uint32_t	refused = 0;

	for (uint32_t round = 0; round < 20000; round++)
	{
		uint8_t		message[256];
		uint32_t	length;
		uint32_t	producer;
		uint8_t    *exact;

		rf_order_init(first, 2, 2, 0, 4);
		rf_order_init(second, 2, 2, 1, 4);
		for (int i = 0; i < 3; i++)
		{
			rf_order_arrived(first, 0, true);
			rf_order_arrived(second, 0, true);
		}
		length = rf_order_write(second, 0, message, sizeof(message));
		if (round % 2 == 0)
		{
			(void) rf_order_read(first, 1, message, length, &error);
			(void) rf_order_decide(first, &error);
			length = rf_order_write(first, 1, message, sizeof(message));
		}
		for (uint32_t n = 1 + pick(2); n-- > 0;)
			message[pick(length)] = (uint8_t) pick(256);
		if (pick(4) == 0)
			length = pick(length + 1);
		exact = malloc(length > 0 ? length : 1);
		memcpy(exact, message, length);
		if (round % 2 == 0)
		{
			refused += !rf_order_read(second, 0, exact, length, &error);
			for (int given = 0; rf_order_next(second, &producer) == RF_ORDER_SLOT; given++)
				failures += producer != 0 || given >= 3;
		}
		else
		{
			refused += !rf_order_read(first, 1, exact, length, &error);
			(void) rf_order_decide(first, &error);
			for (int given = 0; rf_order_next(first, &producer) == RF_ORDER_SLOT; given++)
				failures += producer != 0 || given >= 3;
		}
		free(exact);
	}
	check(refused > 10000, "damaged messages about the order are refused");
	free(first);
	free(second);
}

int
main(int argc, char **argv)
{
	uint64_t	first = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
	uint64_t	count = argc > 2 ? strtoull(argv[2], NULL, 0) : argc > 1 ? 1 : 5000;
	bool		all_good = true;

	seed_with(42);
	test_descriptions();
	test_turns();
	test_damaged_messages();
	for (uint64_t seed = first; seed < first + count; seed++)
	{
		const char *problem = run_model(seed);

		if (problem != NULL)
		{
			printf("# seed %llu: %s; repeat it with: test_group %llu\n", (unsigned long long) seed,
				   problem,
				   (unsigned long long) seed);
			all_good = false;
			break;
		}
	}
	check(all_good, "replicate: every seed keeps one order, all or none, nothing lost");
	return failures != 0;
}
