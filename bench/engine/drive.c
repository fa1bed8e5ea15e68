/*
 * drive.c - a producer that is one thread and has no lane: it posts to the consumer's lane itself,
 * in bursts with gaps, so that only the lane's way of waiting is measured.
 */
#include <stdlib.h>
#include <unistd.h>

#include "shmem/ring.h"

#include "node.h"

static void
drain(Node *node)
{
	RfWc		wcs[32];

	while (node->provider->cq_poll(node->drive_cq, wcs, 32) > 0);
}

/*
 * A message of a few bytes; returns when the consumer's lane has told its flow of it. The other
 * node's buffers are not mapped here, so its backend's part is played with the status words alone.
 */
static void
drive_one(Node *node, uint64_t number, Backend *backend)
{
	RfFlow	   *from = &node->shared->flows[0];
	RfFlow	   *to = &bench_nodes[1].shared->flows[0];
	uint32_t	place = (uint32_t) (number % from->slot_count);
	RfSge		sge = {.addr = from->memory.buffers + (size_t) place * from->slot_size,
		.length = sizeof(RfSlotHeader),
	.lkey = from->memory.lkey};
	RfWr		wr = {.wr_id = number + 1,
		.opcode = RF_WR_WRITE_IMM,
		.signaled = true,
		.num_sge = 1,
		.sge = &sge,
		.remote_addr = from->memory.remote_addr + (uint64_t) place * from->slot_size,
		.rkey = from->memory.remote_rkey,
	.imm = RF_IMM(RF_IMM_DATA, 0, number + 1)};
	int64_t		posted = bench_now_ns();

	node->provider->qp_post(node->drive_qp, &wr);
	while (atomic_load(&to->completed) <= number)
		drain(node);
	backend->samples[backend->sample_count++ % BENCH_MAX_SAMPLES] = (uint32_t) (bench_now_ns() -
																				posted);
	atomic_store(&to->status[place], RF_SLOT_FREE);
	atomic_store(&to->handed, number + 1);
	if ((number + 1) % (to->slot_count / 4) == 0)
		rf_lane_ring(&bench_nodes[1].shared->lanes[0], bench_nodes[1].shared->flows, 0);
}

void
bench_drive(Node *node)
{
	const BenchLoad *load = node->load;
	int64_t		stop_at = bench_stop_at(node);
	Backend    *backend = &node->backends[0];
	uint64_t	number = 0;

	backend->samples = malloc(BENCH_MAX_SAMPLES * sizeof(uint32_t));
	while (bench_now_ns() < stop_at)
	{
		for (uint32_t i = 0; i < load->drive_burst; i++)
		{
			int64_t		next;

			drive_one(node, number++, backend);
			next = bench_now_ns() + (int64_t) load->drive_gap_us * 1000;
			while (bench_now_ns() < next)
				drain(node);
		}
		usleep(load->drive_idle_us);
	}
	node->backend_count = 1;
	backend->group = load->groups;
	backend->wake_fd = -1;
	backend->messages = number;
	backend->bytes = number * sizeof(RfSlotHeader);
}
