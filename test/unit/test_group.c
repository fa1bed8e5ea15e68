/*
 * test_group.c - groups of flows without a server: descriptions, turns, balance.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shmem/group_turn.h"

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
	size_t		size = rf_group_desc_size(RF_GROUP_REPARTITION, 3, 4);
	RfGroupDesc *desc = calloc(1, size);
	RfGroupDesc *other = calloc(1, size);
	RfGroupDesc *bigger;
	uint32_t	accepted = 0;
	uint32_t	bad = 0;
	bool		all_apart = true;

	for (int i = 0; i < 8; i++)
		nodes[i] = (RfNodeId) {{100 + i, 200 + i}};
	check(rf_group_desc_size(RF_GROUP_BALANCE - 1, 1, 1) == 0 &&
		  rf_group_desc_size(RF_GROUP_REPARTITION + 1, 1, 1) == 0 &&
		  rf_group_desc_size(RF_GROUP_BALANCE, 0, 1) == 0 &&
		  rf_group_desc_size(RF_GROUP_BALANCE, RF_GROUP_MAX_MEMBERS + 1, 1) == 0 &&
		  rf_group_desc_size(RF_GROUP_BALANCE, 1, RF_GROUP_MAX_MEMBERS + 1) == 0 &&
		  rf_group_desc_size(RF_GROUP_BALANCE, RF_GROUP_MAX_MEMBERS, RF_GROUP_MAX_MEMBERS) != 0,
		  "impossible shapes have no size");
	check(rf_group_desc_init(desc, &(RfGroupShape) {RF_GROUP_REPARTITION, 3, 4, 4, 65536}, id,
							 nodes, &error) &&
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
	}
	for (size_t i = 0; i < 3 * 4; i++)
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
	check(!rf_group_desc_extend(other, desc, RF_FLOW_CONSUMER, nodes, &error),
		  "no consumer joins a group that names the consumers of batches");

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

int
main(void)
{
	seed_with(42);
	test_descriptions();
	test_turns();
	return failures != 0;
}
