/*
 * verbs_mlx5.c - strided entries on an mlx5 device, as interleaved memory keys (D-RDMA, section 5).
 *
 * A work request of its own gives an indirect key the layout of a strided entry; it goes to the
 * send queue before the WRITE that reads through the key: the device gathers the elements while it
 * fetches them. Each queue pair has KEYS such keys and uses them in turn. A key may get another
 * layout only when the WRITE that used it was acknowledged: until then the device may have to read
 * it again.
 *
 * Does: open the device in the mode that keys need, find out whether it has them, make queue pairs
 * that can configure them, and post the layouts before a batch. Does not: post the batch
 * (verbs_post.c). libmlx5 is loaded only if there is such a device, so that other machines do not
 * need it; without its header at build time, or if any of this fails, the device has no strided
 * entries and is used like any other.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>

#include "verbs.h"

#if __has_include(<infiniband/mlx5dv.h>)

#include <infiniband/mlx5dv.h>

#define KEYS			32		/* of a queue pair */
#define KEY_ENTRIES		2		/* per key: the repeated block, the repetition */

_Static_assert(KEYS >= RF_MAX_SGE, "a request may have more strided entries than there are keys");

/*
 * The functions of libmlx5 that are used. Written once, by the main thread, when the first such
 * device is opened.
 */
static struct
{
	bool		tried;
				__typeof__(mlx5dv_is_supported) * is_supported;
				__typeof__(mlx5dv_open_device) * open_device;
				__typeof__(mlx5dv_create_qp) * create_qp;
				__typeof__(mlx5dv_qp_ex_from_ibv_qp_ex) * qp_ex;
				__typeof__(mlx5dv_create_mkey) * create_mkey;
				__typeof__(mlx5dv_destroy_mkey) * destroy_mkey;
}			lib;

typedef struct Key
{
	struct mlx5dv_mkey *mkey;
	bool		has_layout;
	uint64_t	position;		/* in the ring, of the WRITE that took it last */
} Key;

/* Per queue pair; used by its lane only, once it is connected. */
struct RfVerbsKeys
{
	struct ibv_qp_ex *qp;
	struct mlx5dv_qp_ex *dv;
	Key			keys[KEYS];
	uint64_t	taken;			/* keys so far; the next is keys[taken % KEYS] */
	int			pending;		/* of these, the last ones, whose layout was not posted yet */
	struct mlx5dv_mr_interleaved layouts[KEYS]; /* of all below: of the key with the same number */
	uint32_t	repeats[KEYS];
	struct ibv_sge sges[KEYS][RF_MAX_SGE];	/* of the request that uses it and maybe more */
};

/* Loads the mlx5 library's functions once, if it is installed: the build does not depend on it. */
static bool
load(void)
{
	void	   *handle;

	if (lib.tried)
		return lib.destroy_mkey != NULL;
	lib.tried = true;
	handle = dlopen("libmlx5.so.1", RTLD_NOW | RTLD_LOCAL);
	if (handle == NULL)
		return false;
	/* Never closed: the provider that libibverbs has loaded is the same library. */
	lib.is_supported = (__typeof__(lib.is_supported)) dlsym(handle, "mlx5dv_is_supported");
	lib.open_device = (__typeof__(lib.open_device)) dlsym(handle, "mlx5dv_open_device");
	lib.create_qp = (__typeof__(lib.create_qp)) dlsym(handle, "mlx5dv_create_qp");
	lib.qp_ex = (__typeof__(lib.qp_ex)) dlsym(handle, "mlx5dv_qp_ex_from_ibv_qp_ex");
	lib.create_mkey = (__typeof__(lib.create_mkey)) dlsym(handle, "mlx5dv_create_mkey");
	if (lib.is_supported != NULL && lib.open_device != NULL && lib.create_qp != NULL &&
		lib.qp_ex != NULL && lib.create_mkey != NULL)
		lib.destroy_mkey = (__typeof__(lib.destroy_mkey)) dlsym(handle, "mlx5dv_destroy_mkey");
	return lib.destroy_mkey != NULL;
}

struct ibv_context *
rf_mlx5_open(struct ibv_device *device)
{
	struct mlx5dv_context_attr attr = {.flags = MLX5DV_CONTEXT_FLAGS_DEVX};

	return load() && lib.is_supported(device) ? lib.open_device(device, &attr) : NULL;
}

static struct mlx5dv_mkey *
make_key(struct ibv_pd *pd)
{
	struct mlx5dv_mkey_init_attr attr = {
		.pd = pd, .create_flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT, .max_entries = KEY_ENTRIES
	};

	return lib.create_mkey(&attr);
}

/* A queue pair that can be given layouts, or NULL. */
static struct ibv_qp *
make_qp(RfDevice *device, struct ibv_pd *pd, const struct ibv_qp_init_attr *plain)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = plain->send_cq,
		.recv_cq = plain->recv_cq,
		.cap = plain->cap,
		.qp_type = plain->qp_type,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = pd,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
			IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_LOCAL_INV |
	(device->atomics ? IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP : 0)};
	struct mlx5dv_qp_init_attr dv = {
		.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS |
			MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS,
		.create_flags = MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE,	/* indirect keys need it */
	.send_ops_flags = MLX5DV_QP_EX_WITH_MR_INTERLEAVED};

	/* For each key that is out: its invalidation, and its layout, which is inline data. */
	attr.cap.max_send_wr += 2 * KEYS;
	attr.cap.max_inline_data = (KEY_ENTRIES + 2) * sizeof(struct ibv_sge);
	return lib.create_qp(device->context, &attr, &dv);
}

void
rf_mlx5_probe(RfDevice *device)
{
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp = NULL;
	struct mlx5dv_mkey *key = NULL;

	if (!load() || !lib.is_supported(device->context->device) || device->attr.max_qp_wr < 8 * KEYS)
		return;
	pd = ibv_alloc_pd(device->context);
	cq = ibv_create_cq(device->context, 1, NULL, NULL, 0);
	if (pd != NULL && cq != NULL)
	{
		struct ibv_qp_init_attr attr = {.send_cq = cq,
			.recv_cq = cq,
			.qp_type = IBV_QPT_RC,
			.cap = {.max_send_wr = 1,
				.max_recv_wr = 1,
				.max_send_sge = (uint32_t) device->max_sge,
		.max_recv_sge = 1}};

		/* Fails if the context was not opened for it, or if the device or its firmware lacks it. */
		key = make_key(pd);
		qp = key == NULL ? NULL : make_qp(device, pd, &attr);
	}
	device->max_strided = qp == NULL ? 0 : KEYS;
	if (qp != NULL)
		ibv_destroy_qp(qp);
	if (key != NULL)
		lib.destroy_mkey(key);
	if (cq != NULL)
		ibv_destroy_cq(cq);
	if (pd != NULL)
		ibv_dealloc_pd(pd);
}

struct ibv_qp *
rf_mlx5_create_qp(RfQp *qp, struct ibv_pd *pd, const struct ibv_qp_init_attr *init)
{
	RfVerbsKeys *keys = calloc(1, sizeof(RfVerbsKeys));
	struct ibv_qp *made = NULL;

	if (keys == NULL)
	{
		errno = ENOMEM;
		return NULL;
	}
	qp->keys = keys;
	for (int i = 0; i < KEYS; i++)
	{
		keys->keys[i].mkey = make_key(qp->domain->pd);
		if (keys->keys[i].mkey == NULL)
			return NULL;
	}
	made = make_qp(qp->domain->device, pd, init);
	if (made != NULL)
	{
		keys->qp = ibv_qp_to_qp_ex(made);
		keys->dv = lib.qp_ex(keys->qp);
	}
	return made;
}

/* After its queue pair, so that no request reads through them any more. */
void
rf_mlx5_free_keys(RfVerbsKeys *keys)
{
	if (keys == NULL)
		return;
	for (int i = 0; i < KEYS; i++)
		if (keys->keys[i].mkey != NULL)
			lib.destroy_mkey(keys->keys[i].mkey);
	free(keys);
}

struct ibv_sge *
rf_mlx5_entries(RfQp *qp, const RfWr *wr, uint64_t position)
{
	RfVerbsKeys *keys = qp->keys;
	struct ibv_sge *sges;

	if (keys == NULL)
		return NULL;
	sges = keys->sges[keys->taken % KEYS];
	for (int i = 0; i < wr->num_strided; i++)
	{
		uint64_t	next = keys->taken + (uint64_t) i;

		if (next >= KEYS && keys->keys[next % KEYS].position >= qp->completed)
			return NULL;
	}
	for (int i = 0; i < wr->num_sge; i++)
		sges[i] = (struct ibv_sge)
	{
		(uintptr_t) wr->sge[i].addr, wr->sge[i].length,
			wr->sge[i].lkey
	};
	for (int i = 0; i < wr->num_strided; i++)
	{
		const RfStrided *strided = &wr->strided[i];
		struct ibv_sge *sge = &sges[strided->entry];
		int			number = (int) (keys->taken++ % KEYS);

		keys->layouts[number] = (struct mlx5dv_mr_interleaved)
		{
			.addr = sge->addr,
				.bytes_count = strided->element,
				.bytes_skip = strided->stride -
				strided->element,
				.lkey = sge->lkey
		};
		keys->repeats[number] = sge->length / strided->element;
		keys->keys[number].position = position;
		keys->pending++;
		/* Addresses below such a key count from 0. */
		sge->addr = 0;
		sge->lkey = keys->keys[number].mkey->lkey;
	}
	return sges;
}

bool
rf_mlx5_configure(RfQp *qp, uint64_t first)
{
	RfVerbsKeys *keys = qp->keys;

	ibv_wr_start(keys->qp);
	/* If one of these fails, the first request of the batch fails, and all after it. */
	keys->qp->wr_id = MAKE_ID(qp->slot, ID_SEND, first);
	for (; keys->pending > 0; keys->pending--)
	{
		int			number = (int) ((keys->taken - (uint64_t) keys->pending) % KEYS);
		Key		   *key = &keys->keys[number];

		if (key->has_layout)
		{
			keys->qp->wr_flags = 0;
			ibv_wr_local_inv(keys->qp, key->mkey->rkey);
		}
		key->has_layout = true;

		/*
		 * The layout is in the request; local reads need no access right; later requests wait for
		 * it.
		 */
		keys->qp->wr_flags = IBV_SEND_INLINE;
		mlx5dv_wr_mr_interleaved(keys->dv, key->mkey, 0, keys->repeats[number], 1,
								 &keys->layouts[number]);
	}
	return ibv_wr_complete(keys->qp) == 0;
}

#else

struct ibv_context *
rf_mlx5_open(struct ibv_device *device)
{
	return NULL;
}

void
rf_mlx5_probe(RfDevice *device)
{
}

/* The functions below are not called without strided entries. */
struct ibv_qp *
rf_mlx5_create_qp(RfQp *qp, struct ibv_pd *pd, const struct ibv_qp_init_attr *init)
{
	return NULL;
}

void
rf_mlx5_free_keys(RfVerbsKeys *keys)
{
}

struct ibv_sge *
rf_mlx5_entries(RfQp *qp, const RfWr *wr, uint64_t position)
{
	return NULL;
}

bool
rf_mlx5_configure(RfQp *qp, uint64_t first)
{
	return true;
}

#endif
