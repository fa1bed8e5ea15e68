/*
 * test_mlx5.c - the requests of the verbs provider to an mlx5 device for strided entries
 * (src/provider/verbs_mlx5.c), by a queue pair that writes them down: layouts, the order of keys,
 * that each is made void before it gets another layout, and not before the write that used it has
 * completed. Whether a device then obeys only a device can tell (test_strided verbs).
 */
#include <errno.h>

#include "../../src/provider/verbs_mlx5.c"

#include "pair.h"

#if __has_include(<infiniband/mlx5dv.h>)

typedef struct Call
{
	bool		layout;			/* else an invalidation */
	uint64_t	wr_id;
	unsigned int flags;
	uint32_t	key;
	uint32_t	access;
	uint32_t	repeat;
	uint16_t	count;
	struct mlx5dv_mr_interleaved data;
} Call;

static Call calls[4 * KEYS];
static int	called;
static bool started;
static int	complete_status;
static struct ibv_qp_ex ex;
static struct mlx5dv_qp_ex dv;
static struct mlx5dv_mkey mkeys[KEYS];

static void
start(struct ibv_qp_ex *qp)
{
	started = true;
}

static int
complete(struct ibv_qp_ex *qp)
{
	started = false;
	return complete_status;
}

static void
local_inv(struct ibv_qp_ex *qp, uint32_t rkey)
{
	calls[called++] = (Call) {.wr_id = qp->wr_id, .flags = qp->wr_flags, .key = rkey};
}

static void
mr_interleaved(struct mlx5dv_qp_ex *qp, struct mlx5dv_mkey *mkey, uint32_t access, uint32_t repeat,
			   uint16_t count, struct mlx5dv_mr_interleaved *data)
{
	calls[called++] = (Call)
	{
		true, ex.wr_id, ex.wr_flags, mkey->lkey,
			access, repeat, count, *data
	};
	if (!started)
		complete_status = EINVAL;
}

static bool
nobody_supported(struct ibv_device *device)
{
	return false;
}

static void
test_keys(void)
{
	RfVerbsKeys *keys = calloc(1, sizeof(RfVerbsKeys));
	RfQp		qp = {.slot = 3, .keys = keys};
	uint8_t		memory[1000];
	RfSge		sge[3] = {{memory, 100, 7}, {memory + 200, 35, 7}, {memory + 300, 64, 8}};
	RfStrided	strided[2] = {{1, 5, 11}, {2, 8, 8}};
	RfWr		wr = {
	.opcode = RF_WR_WRITE, .num_sge = 3, .sge = sge, .num_strided = 2, .strided = strided};
	RfWr		one = {.opcode = RF_WR_WRITE,
		.num_sge = 1,
		.sge = &sge[1],
		.num_strided = 1,
	.strided = &(RfStrided) {0, 5, 11}};
	struct ibv_sge *entries;
	int			taken = 0;

	ex.wr_start = start;
	ex.wr_complete = complete;
	ex.wr_local_inv = local_inv;
	dv.wr_mr_interleaved = mr_interleaved;
	keys->qp = &ex;
	keys->dv = &dv;
	for (int i = 0; i < KEYS; i++)
	{
		mkeys[i] = (struct mlx5dv_mkey) {0x100 * (i + 1), 0x100 * (i + 1)};
		keys->keys[i].mkey = &mkeys[i];
	}

	entries = rf_mlx5_entries(&qp, &wr, 11);
	check(entries != NULL && entries[0].addr == (uintptr_t) memory && entries[0].length == 100 &&
		  entries[0].lkey == 7 && entries[1].addr == 0 && entries[1].length == 35 &&
		  entries[1].lkey == 0x100 && entries[2].addr == 0 && entries[2].length == 64 &&
		  entries[2].lkey == 0x200,
		  "strided entries go through keys, from their start; others as they are");
	check(rf_mlx5_configure(&qp, 10) && called == 2 && !started,
		  "before the batch each key gets its layout");
	check(calls[0].layout && calls[0].key == 0x100 && calls[0].repeat == 7 && calls[0].count == 1 &&
		  calls[0].data.addr == (uintptr_t) (memory + 200) && calls[0].data.bytes_count == 5 &&
		  calls[0].data.bytes_skip == 6 && calls[0].data.lkey == 7 && calls[1].layout &&
		  calls[1].key == 0x200 && calls[1].repeat == 8 && calls[1].data.bytes_count == 8 &&
		  calls[1].data.bytes_skip == 0 && calls[1].data.lkey == 8,
		  "that of its entry");
	check(
		  calls[0].wr_id == MAKE_ID(3, ID_SEND, 10) &&
		  calls[0].flags == IBV_SEND_INLINE && calls[0].access == 0,
		  "silently, with no right but to read, and a failure is that of the batch's first "
		  "request");

	/* The other keys, some of them in one batch. */
	called = 0;
	while (rf_mlx5_entries(&qp, &one, 12 + (uint64_t) taken) != NULL && taken < 2 * KEYS)
		taken++;
	check(taken == KEYS - 2, "no key is taken twice while its write may be under way");
	check(rf_mlx5_configure(&qp, 12) && called == taken, "all of a batch at once");
	qp.completed = 11;
	check(rf_mlx5_entries(&qp, &one, 100) == NULL,
		  "nor when only what was before it has completed");
	qp.completed = 12;
	called = 0;
	entries = rf_mlx5_entries(&qp, &wr, 100);
	check(entries != NULL && entries[1].lkey == 0x100 && entries[2].lkey == 0x200 &&
		  rf_mlx5_entries(&qp, &one, 101) == NULL,
		  "then it is again, and those behind it are not yet");
	check(rf_mlx5_configure(&qp, 100) && called == 4 && !calls[0].layout && calls[0].key == 0x100 &&
		  calls[0].flags == 0 && calls[1].layout && calls[1].key == 0x100 && !calls[2].layout &&
		  calls[2].key == 0x200 && calls[3].layout && calls[3].key == 0x200,
		  "a key is made void before its next layout");
	called = 0;
	check(rf_mlx5_configure(&qp, 102) && called == 0, "and is configured once");

	qp.completed = 200;
	complete_status = ENOMEM;
	check(rf_mlx5_entries(&qp, &one, 200) != NULL && !rf_mlx5_configure(&qp, 200),
		  "a send queue that takes nothing says so");
	qp.keys = NULL;
	check(rf_mlx5_entries(&qp, &one, 201) == NULL, "a queue pair without keys");
	free(keys);
}

/*
 * The library, where it is installed, has all functions that are used; devices of other vendors are
 * left alone.
 */
static void
test_library(void)
{
	void	   *handle = dlopen("libmlx5.so.1", RTLD_NOW | RTLD_LOCAL);

	check(load() == (handle != NULL), "libmlx5 is loaded where there is one");
	check(load() == (handle != NULL), "once");
	lib.is_supported = nobody_supported;
	check(rf_mlx5_open(NULL) == NULL, "another maker's device is not opened by it");
	if (handle != NULL)
		dlclose(handle);
}
#endif

int
main(void)
{
#if __has_include(<infiniband/mlx5dv.h>)
	test_keys();
	test_library();
#else
	printf("# made without infiniband/mlx5dv.h\n");
#endif
	return failures > 0;
}
