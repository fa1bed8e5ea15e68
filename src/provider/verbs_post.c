/*
 * verbs_post.c - handing chains of work requests to the device: the lane's side of a queue pair.
 *
 * The top of verbs.c explains how requests keep their order when the queue pair fails.
 */
#include <arpa/inet.h>
#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "verbs.h"

/* Our entries are passed to the device without copying. */
static_assert(sizeof(RfSge) == sizeof(struct ibv_sge) &&
			  offsetof(RfSge, length) == offsetof(struct ibv_sge, length) &&
			  offsetof(RfSge, lkey) == offsetof(struct ibv_sge, lkey),
			  "RfSge is not laid out like ibv_sge");

/*
 * A place in the ring. Beyond max_wr it grows: a request that cannot be posted must still complete.
 */
static bool
ring_put(RfQp *qp, uint64_t wr_id)
{
	if (qp->head - qp->completed >= qp->ring_size)
	{
		uint64_t   *ring = calloc((size_t) qp->ring_size * 2, sizeof(uint64_t));

		if (ring == NULL)
			return false;
		for (uint64_t i = qp->completed; i < qp->head; i++)
			ring[i & (qp->ring_size * 2 - 1)] = qp->ring[i & (qp->ring_size - 1)];
		free(qp->ring);
		qp->ring = ring;
		qp->ring_size *= 2;
	}
	qp->ring[qp->head++ & (qp->ring_size - 1)] = wr_id;
	return true;
}

/*
 * Translates the chain into device work requests and posts them with as few doorbells as possible.
 * A request that the device would refuse becomes a completion with an error in its place, so that
 * posting never fails.
 */
void
rf_verbs_post_now(RfQp *qp, RfWr *chain)
{
	RfCq	   *cq = qp->cq;
	RfDevice   *device = qp->domain->device;

	while (chain != NULL)
	{
		struct ibv_send_wr *bad = NULL;
		uint32_t	n = 0;
		uint64_t	bytes = 0;
		uint64_t	start = qp->head;
		bool		strided = false;
		bool		usable = !qp->failed && qp->connected;

		/*
		 * As many as one doorbell covers; after a request that cannot be sent, the next ones only
		 * take their places.
		 */
		for (; chain != NULL && n + 1 < SCRATCH && usable; chain = chain->next)
		{
			struct ibv_send_wr *wr = &cq->scratch[n];
			uint64_t	length = 0;

			for (int i = 0; i < chain->num_sge; i++)
				length += chain->sge[i].length;
			if (length > device->max_message || chain->num_sge > device->max_sge ||
				(chain->opcode == RF_WR_COMPARE_SWAP &&
				 (!device->atomics || chain->num_sge != 1 || length != 8 ||
				  chain->remote_addr % 8 != 0)) ||
				qp->head - qp->completed >= qp->max_wr || !rf_strided_valid(chain))
			{
				usable = false;
				break;
			}
			memset(wr, 0, offsetof(struct ibv_send_wr, qp_type));
			wr->wr_id = MAKE_ID(qp->slot, ID_SEND, qp->head);
			wr->sg_list = (struct ibv_sge *) chain->sge;
			if (chain->num_strided > 0)
			{
				wr->sg_list = rf_mlx5_entries(qp, chain, qp->head);
				if (wr->sg_list == NULL)
				{
					usable = false;
					break;
				}
				strided = true;
			}
			wr->num_sge = chain->num_sge;
			wr->opcode = chain->opcode == RF_WR_WRITE_IMM ?
				IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
			wr->send_flags = chain->signaled ? IBV_SEND_SIGNALED : 0;
			wr->imm_data = htonl(chain->imm);
			wr->wr.rdma.remote_addr = chain->remote_addr;
			wr->wr.rdma.rkey = chain->rkey;
			if (chain->opcode == RF_WR_COMPARE_SWAP)
			{
				wr->opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
				wr->wr.atomic.remote_addr = chain->remote_addr;
				wr->wr.atomic.compare_add = chain->compare;
				wr->wr.atomic.swap = chain->swap;
				wr->wr.atomic.rkey = chain->rkey;
			}
			if (n > 0)
				cq->scratch[n - 1].next = wr;
			if (qp->link != NULL && !chain->signaled)
			{
				wr->wr_id = MAKE_ID(qp->slot, ID_SILENT, qp->head);
				wr->send_flags |= IBV_SEND_SIGNALED;
			}
			if (qp->link != NULL && chain->num_sge == 1 && length <= RF_IWARP_INLINE)
				wr->send_flags |= IBV_SEND_INLINE;
			if (qp->link != NULL && chain->opcode == RF_WR_WRITE_IMM)
			{
				if (length > 0)
				{
					wr->wr_id = MAKE_ID(qp->slot, ID_SILENT, qp->head);
					wr->opcode = IBV_WR_RDMA_WRITE;
					wr->send_flags |= IBV_SEND_SIGNALED;
					wr->next = &cq->scratch[++n];
				}
				rf_iwarp_announce(qp, chain, (uint32_t) length, &cq->scratch[n], &cq->notes[n]);
			}
			n++;
			bytes += length;
			(void) ring_put(qp, chain->wr_id);
		}
		if (n > 0)
		{
			if (strided && !rf_mlx5_configure(qp, start))
				usable = false;
			else if (ibv_post_send(qp->qp, cq->scratch, &bad) == 0)
				qp->posted = qp->head;
			else if (bad != NULL)
				qp->posted += (uint32_t) bad->wr_id - (uint32_t) start;
			rf_verbs_count(&cq->posts, 1);
			rf_verbs_count(&cq->work_requests, qp->posted - start);
			rf_verbs_count(&cq->bytes, bytes);
		}
		if (usable && qp->posted == qp->head)
			continue;

		/*
		 * The rest is never posted. Its first request has the reason, unless an earlier one failed
		 * already.
		 */
		while (chain != NULL && ring_put(qp, chain->wr_id))
			chain = chain->next;
		pthread_mutex_lock(&cq->lock);
		if (!qp->failed)
		{
			qp->told = true;
			rf_verbs_fail(qp, RF_WC_LOCAL);
		}
		else
			rf_verbs_list_ailing(qp);
		pthread_mutex_unlock(&cq->lock);
		return;
	}
}

/* Posts a chain. On an iWARP device requests that cannot go yet are copied, and posted later. */
void
rf_verbs_post(RfQp *qp, RfWr *chain)
{
	if (qp->link == NULL || rf_iwarp_admits(qp, chain))
		rf_verbs_post_now(qp, chain);
	else
	{
		rf_iwarp_hold(qp, chain);
		rf_iwarp_release(qp);
	}
}
