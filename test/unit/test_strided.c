/*
 * test_strided.c - strided entries (provider.h) against every provider: the bytes that a device
 * puts on the wire, one by one against a loop; which requests are refused; and that a provider
 * without them refuses them all.
 *
 * Arguments: names of providers, see conformance.h; the simulated one has them or not, as its
 * setting says. On a machine with an mlx5 device, "test_strided verbs" tests its interleaved keys.
 */
#include "conformance.h"

#define AREA		(4u << 20)
#define OUT			8			/* max_strided of the simulated device */
#define SPARE		64

typedef struct Strided
{
	Request		r;
	RfStrided	strided[RF_MAX_SGE + 2];
} Strided;

static int	most;				/* of the device: max_strided */
static uint64_t random_state;

static uint32_t
pick(uint32_t limit)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (uint32_t) (random_state % limit);
}

static void
open_pair(Pair *pair)
{
	RfDeviceCaps caps;

	pair_open_as(pair, kind, AREA, 64, 64, false);
	pair->a.provider->device_caps(pair->a.device, &caps);
	most = caps.max_strided;
	for (size_t i = 0; i < AREA; i++)
		pair->a.memory[i] = (char) (i * 31 + (i >> 8) * 7);
}

/* One strided entry from the start of the sender's memory to the start of the receiver's. */
static Request *
simple(Strided *s, Pair *pair, uint32_t element, uint32_t stride, uint32_t count)
{
	request(&s->r, &pair->a, &pair->b, 0, 0, element * count);
	s->strided[0] = (RfStrided) {.entry = 0, .element = element, .stride = stride};
	s->r.wr.strided = s->strided;
	s->r.wr.num_strided = 1;
	s->r.wr.signaled = true;
	return &s->r;
}

/* The bytes that the request has to write, by a loop. */
static uint32_t
expected(const RfWr *wr, uint8_t *to)
{
	uint32_t	length = 0;

	for (int i = 0; i < wr->num_sge; i++)
	{
		const uint8_t *from = wr->sge[i].addr;
		uint32_t	element = wr->sge[i].length;
		uint32_t	stride = 0;

		for (int k = 0; k < wr->num_strided; k++)
			if (wr->strided[k].entry == i)
			{
				element = wr->strided[k].element;
				stride = wr->strided[k].stride;
			}
		for (uint32_t done = 0; done < wr->sge[i].length; done += element, from += stride)
			for (uint32_t b = 0; b < element; b++)
				to[length++] = from[b];
	}
	return length;
}

/* Random requests, some of their entries strided. Each lands whole, and nothing beside it. */
static void
test_transfer(void)
{
	static uint8_t wanted[AREA];
	Pair		pair;
	bool		good = true;
	bool		announced;
	int			announcements = 0;

	open_pair(&pair);
	random_state = 88172645463325252ULL;
	for (int round = 0; round < 400 && good; round++)
	{
		Strided		s;
		uint32_t	to = SPARE + pick(1000);
		uint32_t	length = 0;

		request(&s.r, &pair.a, &pair.b, 0, to, 1);
		s.r.wr.num_sge = 1 + (int) pick(5);
		s.r.wr.strided = s.strided;
		for (int i = 0; i < s.r.wr.num_sge; i++)
		{
			uint32_t	element = 1 + pick(pick(4) == 0 ? 5000 : 40);
			uint32_t	stride = element + (pick(8) == 0 ?
											0 :
											pick(pick(4) == 0 ? RF_MAX_STRIDE - element + 1 : 60));
			uint32_t	count = 1 + pick(pick(4) == 0 ? 2000 : 30);
			uint32_t	room = AREA - 4096;

			while ((uint64_t) count * stride > room || (uint64_t) count * element > 100000)
				count = count / 2 + 1 < count ? count / 2 + 1 : 1;
			s.r.sge[i] = (RfSge)
			{
				pair.a.memory + pick(AREA - count * stride), element * count,
					pair.a.region->lkey
			};
			if (s.r.wr.num_strided < most && pick(4) != 0)
				s.strided[s.r.wr.num_strided++] = (RfStrided) {i, element, stride};
			length += element * count;
		}
		announced = round % 2 == 1 || refused_later(&pair);
		announcements += announced;
		s.r.wr.opcode = announced ? RF_WR_WRITE_IMM : RF_WR_WRITE;
		s.r.wr.signaled = true;
		s.r.wr.wr_id = (uint64_t) round;
		memset(pair.b.memory, 0xaa, to + length + SPARE);
		memset(wanted, 0xaa, to + length + SPARE);
		good = expected(&s.r.wr, wanted + to) == length;
		pair.a.provider->qp_post(pair.a.qp, &s.r.wr);
		memset(&s, 0xee, sizeof(s));
		good = good && pair_wait(&pair, &pair.a, round + 1) &&
			completed(&pair.a, (uint64_t) round, RF_WC_SUCCESS) &&
			(!announced || (pair_wait(&pair, &pair.b, announcements) &&
							pair.b.log[announcements - 1].byte_len == length)) &&
			memcmp(pair.b.memory, wanted, to + length + SPARE) == 0;
		if (!good)
			printf("# round %d\n", round);
	}
	check(good, "random strided entries among others arrive byte for byte");
	pair_close(&pair);
}

/* The limits themselves. */
static void
test_edges(void)
{
	static uint8_t wanted[AREA];
	static const struct
	{
		uint32_t	element;
		uint32_t	stride;
		uint32_t	count;
	}			cases[] = {{1, 1, 1},
	{1, 2, 60000},
	{3, 7, 9999},
	{4, RF_MAX_STRIDE, 60},
	{RF_MAX_STRIDE, RF_MAX_STRIDE, 60},
	{RF_MAX_STRIDE - 1, RF_MAX_STRIDE, 3},
	{8, 8, 4096}};
	Pair		pair;
	bool		good = true;

	open_pair(&pair);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		Strided		s;
		Request    *r = simple(&s, &pair, cases[i].element, cases[i].stride, cases[i].count);
		uint32_t	extent = (cases[i].count - 1) * cases[i].stride + cases[i].element;
		uint32_t	length;

		/* Up to the region's last byte: the place of the next element does not matter. */
		r->sge[0].addr = pair.a.memory + AREA - extent;
		r->wr.wr_id = i;
		length = expected(&r->wr, wanted);
		pair.a.provider->qp_post(pair.a.qp, &r->wr);
		good = good && pair_wait(&pair, &pair.a, (int) i + 1) &&
			completed(&pair.a, i, RF_WC_SUCCESS) && memcmp(pair.b.memory, wanted, length) == 0;
	}
	check(good, "the narrowest, widest and farthest, up to the end of the region");
	pair_close(&pair);
}

/* As many as may be out, again and again in one chain; then one more. */
static void
test_most(void)
{
	static Strided s[64];
	Pair		pair;
	bool		good = true;
	int			done = 0;

	open_pair(&pair);
	for (int round = 0; round < 5; round++)
	{
		for (int i = 0; i < most; i++)
		{
			Request    *r = simple(&s[i], &pair, 5, 11, 200);

			r->sge[0].addr = pair.a.memory + round * 10000 + i;
			r->wr.remote_addr += i * 1000;
			r->wr.signaled = i == most - 1;
			r->wr.wr_id = round;
			r->wr.next = i < most - 1 ? &s[i + 1].r.wr : NULL;
		}
		pair.a.provider->qp_post(pair.a.qp, &s[0].r.wr);
		good = good && pair_wait(&pair, &pair.a, ++done) &&
			completed(&pair.a, round, RF_WC_SUCCESS);
		for (int i = 0; i < most; i++)
		{
			uint8_t		wanted[1000];

			expected(&s[i].r.wr, wanted);
			good = good && memcmp(pair.b.memory + i * 1000, wanted, 1000) == 0;
		}
	}
	check(good, "as many as may be out, five times over");

	for (int i = 0; i <= most; i++)
	{
		simple(&s[0], &pair, 5, 11, 20)->wr.wr_id = 100 + i;
		pair.a.provider->qp_post(pair.a.qp, &s[0].r.wr);
	}
	check(pair_wait(&pair, &pair.a, done + most + 1) &&
		  completed(&pair.a, 100 + most - 1, RF_WC_SUCCESS) &&
		  completed(&pair.a, 100 + most, RF_WC_LOCAL),
		  "and one more fails");
	pair_close(&pair);
}

/* ---------- refused requests ---------- */

static void
spoil_element(Pair *pair, Strided *s)
{
	s->strided[0].element = 0;
}

static void
spoil_stride(Pair *pair, Strided *s)
{
	s->strided[0].stride = s->strided[0].element - 1;
}

static void
spoil_far(Pair *pair, Strided *s)
{
	s->strided[0].stride = RF_MAX_STRIDE + 1;
}

static void
spoil_length(Pair *pair, Strided *s)
{
	s->r.sge[0].length++;
}

static void
spoil_empty(Pair *pair, Strided *s)
{
	s->r.sge[0].length = 0;
}

static void
spoil_entry(Pair *pair, Strided *s)
{
	s->strided[0].entry = 1;
}

static void
spoil_before(Pair *pair, Strided *s)
{
	s->strided[0].entry = -1;
}

static void
spoil_twice(Pair *pair, Strided *s)
{
	s->r.wr.num_sge = 2;
	s->r.sge[1] = s->r.sge[0];
	s->strided[1] = s->strided[0];
	s->r.wr.num_strided = 2;
}

static void
spoil_count(Pair *pair, Strided *s)
{
	s->r.wr.num_strided = -1;
}

static void
spoil_many(Pair *pair, Strided *s)
{
	s->r.wr.num_strided = 2;
}

static void
spoil_swap(Pair *pair, Strided *s)
{
	s->r.wr.opcode = RF_WR_COMPARE_SWAP;
	s->r.sge[0].length = 8;
	s->strided[0] = (RfStrided) {.entry = 0, .element = 4, .stride = 8};
}

static void
spoil_key(Pair *pair, Strided *s)
{
	s->r.sge[0].lkey += 0x00abcd00;
}

/* All that is sent would be within the region, if it lay together. */
static void
spoil_bounds(Pair *pair, Strided *s)
{
	s->r.sge[0].addr = pair->a.memory + AREA -
		(uint32_t) (rf_strided_extent(&s->r.sge[0], &s->strided[0]) - 1);
}

static void
nothing(Pair *pair, Strided *s)
{
}

/* Good, bad, good: the second fails, the third is flushed, the peer's memory stays as it is. */
static void
refused(const char *name, void (*spoil) (Pair *pair, Strided *s))
{
	static char before[1000];
	char		title[160];
	Pair		pair;
	Strided		s;

	open_pair(&pair);
	memset(pair.b.memory, 0x55, sizeof(before));
	memset(before, 0x55, sizeof(before));
	send_one(&pair.a, &pair.b, 4096, 100, false, 0, true, 1);
	simple(&s, &pair, 6, 10, 30)->wr.wr_id = 2;
	spoil(&pair, &s);
	pair.a.provider->qp_post(pair.a.qp, &s.r.wr);
	send_one(&pair.a, &pair.b, 4096, 100, false, 0, true, 3);
	snprintf(title, sizeof(title), "refused: %s", name);
	check(pair_wait(&pair, &pair.a, 3) && completed(&pair.a, 1, RF_WC_SUCCESS) &&
		  completed(&pair.a, 2, RF_WC_LOCAL) && completed(&pair.a, 3, RF_WC_FLUSHED) &&
		  memcmp(pair.b.memory, before, sizeof(before)) == 0,
		  title);
	pair_close(&pair);
}

/* ---------- requests only for the simulated device ---------- */

static void
test_simulated(void)
{
	RfSimConfig config = {.seed = 3, .strided = OUT, .check_payload = true};
	RfSimCounters counters;
	Pair		pair;
	Strided		s;
	uint64_t	took[2];

	rf_sim_reset(&config);
	open_pair(&pair);
	pair.a.provider->qp_post(pair.a.qp, &simple(&s, &pair, 6, 10, 30)->wr);
	pair.a.memory[7]++;			/* in a gap */
	check(pair_wait(&pair, &pair.a, 1) &&
		  (rf_sim_counters(&counters), counters.payload_changed == 0 && counters.strided == 1),
		  "what changes in a gap while it is sent is not the sender's mistake");
	pair.a.provider->qp_post(pair.a.qp, &simple(&s, &pair, 6, 10, 30)->wr);
	pair.a.memory[10 * 29 + 5]++;	/* the last byte */
	check(pair_wait(&pair, &pair.a, 2) &&
		  (rf_sim_counters(&counters), counters.payload_changed > 0),
		  "in an element it is");

	pair_close(&pair);

	/* Whether the first one's acknowledgement is lost, too, is the seed's choice. */
	for (int after = 0; after < 2; after++)
	{
		rf_sim_reset(&config);
		open_pair(&pair);
		memset(pair.b.memory, 0x55, 1000);
		rf_sim_fail_nth(pair.a.qp, 2, after);
		for (int i = 0; i < 3; i++)
		{
			simple(&s, &pair, 6, 10, 30)->wr.wr_id = i;
			s.r.wr.remote_addr += i == 0 ? 500 : 0;
			pair.a.provider->qp_post(pair.a.qp, &s.r.wr);
		}
		check(pair_wait(&pair, &pair.a, 3) &&
			  count_of(&pair.a, RF_WC_WRITE, RF_WC_TRANSPORT) == 1 &&
			  !completed(&pair.a, 1, RF_WC_SUCCESS) &&
			  completed(&pair.a, 2, RF_WC_FLUSHED) && (pair.b.memory[0] == 0x55) == !after,
			  after ? "a link cut behind a strided request" :
			  "a link cut before a strided request");
		pair_close(&pair);
	}

	/* Its key has to be made void and given a layout, which the adapter has to execute as well. */
	for (int strided = 0; strided < 2; strided++)
	{
		config = (RfSimConfig) {.seed = 3, .strided = OUT, .service = 10};
		rf_sim_reset(&config);
		open_pair(&pair);
		for (int i = 0; i < OUT; i++)
		{
			simple(&s, &pair, 6, 10, 30)->wr.num_strided = strided;
			pair.a.provider->qp_post(pair.a.qp, &s.r.wr);
		}
		pair_wait(&pair, &pair.a, OUT);
		took[strided] = rf_sim_now();
		pair_close(&pair);
	}
	check(took[1] > 2 * took[0] && took[1] < 4 * took[0],
		  "the simulated adapter takes its time for the keys");
	rf_sim_reset(NULL);
}

static void
all(void)
{
	static int	runs;
	Pair		pair;

	if (kind == PAIR_SIM)
		rf_sim_reset(&(RfSimConfig) {.seed = 42, .delay_max = runs * 30, .tear = runs > 0, .strided = OUT});
	runs++;
	open_pair(&pair);
	pair_close(&pair);
	test_transfer();
	refused("an element of no bytes", spoil_element);
	refused("elements that overlap", spoil_stride);
	refused("elements too far apart", spoil_far);
	refused("half an element", spoil_length);
	refused("no element", spoil_empty);
	refused("an entry behind the last", spoil_entry);
	refused("an entry before the first", spoil_before);
	refused("one entry strided twice", spoil_twice);
	refused("less than none", spoil_count);
	refused("more strided entries than entries", spoil_many);
	refused("a compare-and-swap", spoil_swap);
	refused("a key that nothing has", spoil_key);
	refused("an element behind the end of the region", spoil_bounds);
	if (most > 0)
	{
		test_edges();
		test_most();
	}
	else
		refused("everything, where the device has none", nothing);
	if (kind == PAIR_SIM)
	{
		test_simulated();
		rf_sim_reset(NULL);
		open_pair(&pair);
		check(most == 0, "the simulated device without them");
		pair_close(&pair);
		test_transfer();
		refused("everything, where the simulated device has none", nothing);
	}
}

int
main(int argc, char **argv)
{
	return conformance_main(argc, argv, all);
}
