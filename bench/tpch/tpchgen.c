/*
 * tpchgen.c - rows of the eight TPC-H tables as COPY text, for the demo, the benches and the tests.
 *
 * It follows the distributions of the TPC-H specification (clause 4.2): table sizes, sparse order
 * keys, customers without orders, price and supplier formulas, dates and the flags that follow from
 * them, word lists and the comment grammar. It is no dbgen: the random numbers differ (every row is
 * a function of seed, table and row number, so slices can be made on their own), and its text pool
 * has 4 MB. Results are for comparing systems on one data set, not for publishing TPC-H figures.
 *
 * Prices are counted in cents, dates in days since 1992-01-01; nothing is floating point except the
 * scale.
 *
 *		cc -O2 -o tpchgen tpchgen.c
 *		./tpchgen -s 1 -t lineitem >lineitem.tbl
 *		./tpchgen -s 1 -t orders -n 2 -i 0			half of it: the rows of node 0 of 2
 *		./tpchgen -s 0.1 -o folder					all tables, folder/orders.tbl and so on
 */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define POOL_SIZE		(4 * 1024 * 1024)
#define BUFFER_SIZE		(1024 * 1024)
#define ROW_MAX			1024	/* no row is longer */
#define LINES_MAX		7		/* line items of an order */
#define ORDER_DATES		(2557 - 151)	/* days from 1992-01-01 to 1998-12-31, less the last 151 */
#define CURRENT_DATE	1263	/* 1995-06-17, by which the specification sets flags */
#define COUNT(array)	(sizeof(array) / sizeof((array)[0]))

typedef enum
{
	T_REGION, T_NATION, T_SUPPLIER, T_PART, T_PARTSUPP, T_CUSTOMER, T_ORDERS, T_LINEITEM, TABLES,
	T_POOL						/* not a table: the stream that fills the text pool */
} Table;

static const char *const table_names[TABLES] =
	{"region", "nation", "supplier", "part", "partsupp", "customer", "orders", "lineitem"};

/* ---- word lists of the specification ---- */

static const char *const regions[] = {"AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST"};

static const struct
{
	const char *name;
	int			region;
}			nations[] =

{{"ALGERIA", 0}, {"ARGENTINA", 1}, {"BRAZIL", 1}, {"CANADA", 1},
{"EGYPT", 4}, {"ETHIOPIA", 0}, {"FRANCE", 3}, {"GERMANY", 3},
{"INDIA", 2}, {"INDONESIA", 2}, {"IRAN", 4}, {"IRAQ", 4},
{"JAPAN", 2}, {"JORDAN", 4}, {"KENYA", 0}, {"MOROCCO", 0},
{"MOZAMBIQUE", 0}, {"PERU", 1}, {"CHINA", 2}, {"ROMANIA", 3},
{"SAUDI ARABIA", 4}, {"VIETNAM", 2}, {"RUSSIA", 3}, {"UNITED KINGDOM", 3},
{"UNITED STATES", 1}};

static const char *const colours[] = {
	"almond", "antique", "aquamarine", "azure", "beige", "bisque", "black",
	"blanched", "blue", "blush", "brown", "burlywood", "burnished", "chartreuse",
	"chiffon", "chocolate", "coral", "cornflower", "cornsilk", "cream", "cyan",
	"dark", "deep", "dim", "dodger", "drab", "firebrick", "floral",
	"forest", "frosted", "gainsboro", "ghost", "goldenrod", "green", "grey",
	"honeydew", "hot", "indian", "ivory", "khaki", "lace", "lavender",
	"lawn", "lemon", "light", "lime", "linen", "magenta", "maroon",
	"medium", "metallic", "midnight", "mint", "misty", "moccasin", "navajo",
	"navy", "olive", "orange", "orchid", "pale", "papaya", "peach",
	"peru", "pink", "plum", "powder", "puff", "purple", "red",
	"rose", "rosy", "royal", "saddle", "salmon", "sandy", "seashell",
	"sienna", "sky", "slate", "smoke", "snow", "spring", "steel",
	"tan", "thistle", "tomato", "turquoise", "violet", "wheat", "white",
	"yellow"};
static const char *const type_1[] = {"STANDARD", "SMALL", "MEDIUM", "LARGE", "ECONOMY", "PROMO"};
static const char *const type_2[] = {"ANODIZED", "BURNISHED", "PLATED", "POLISHED", "BRUSHED"};
static const char *const type_3[] = {"TIN", "NICKEL", "BRASS", "STEEL", "COPPER"};
static const char *const container_1[] = {"SM", "LG", "MED", "JUMBO", "WRAP"};
static const char *const container_2[] = {"CASE", "BOX", "BAG", "JAR",
	"PKG", "PACK", "CAN", "DRUM"};
static const char *const segments[] = {"AUTOMOBILE", "BUILDING", "FURNITURE", "MACHINERY",
	"HOUSEHOLD"};
static const char *const priorities[] = {"1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED",
	"5-LOW"};
static const char *const instructions[] = {"DELIVER IN PERSON", "COLLECT COD", "NONE",
	"TAKE BACK RETURN"};
static const char *const modes[] = {"REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB"};

static const char *const nouns[] = {
	"foxes", "ideas", "theodolites", "pinto beans", "instructions", "dependencies",
	"excuses", "platelets", "asymptotes", "courts", "dolphins", "multipliers",
	"sauternes", "warthogs", "frets", "dinos", "attainments", "somas",
	"Tiresias'", "patterns", "forges", "braids", "hockey players", "frays",
	"warhorses", "dugouts", "notornis", "epitaphs", "pearls", "tithes",
	"waters", "orbits", "gifts", "sheaves", "depths", "sentiments",
	"decoys", "realms", "pains", "grouches", "escapades"};
static const char *const verbs[] = {
	"sleep", "wake", "are", "cajole", "haggle", "nag", "use", "boost",
	"affix", "detect", "integrate", "maintain", "nod", "was", "lose", "sublate",
	"solve", "thrash", "promise", "engage", "hinder", "print", "x-ray", "breach",
	"eat", "grow", "impress", "mold", "poach", "serve", "run", "dazzle",
	"snooze", "doze", "unwind", "kindle", "play", "hang", "believe", "doubt"};
static const char *const adjectives[] = {"furious", "sly", "careful", "blithe", "quick",
	"fluffy", "slow", "quiet", "ruthless", "thin",
	"close", "dogged", "daring", "brave", "stealthy",
	"permanent", "enticing", "idle", "busy", "regular",
	"final", "ironic", "even", "bold", "silent"};
static const char *const adverbs[] = {
	"sometimes", "always", "never", "furiously", "slyly", "carefully", "blithely",
	"quickly", "fluffily", "slowly", "quietly", "ruthlessly", "thinly", "closely",
	"doggedly", "daringly", "bravely", "stealthily", "permanently", "enticingly", "idly",
	"busily", "regularly", "finally", "ironically", "evenly", "boldly", "silently"};
static const char *const prepositions[] = {
	"about", "above", "according to", "across", "after", "against", "along",
	"alongside of", "among", "around", "at", "atop", "before", "behind",
	"beneath", "beside", "besides", "between", "beyond", "by", "despite",
	"during", "except", "for", "from", "in place of", "inside", "instead of",
	"into", "near", "of", "on", "outside", "over", "past",
	"since", "through", "throughout", "to", "toward", "under", "until",
	"up", "upon", "without", "with", "within"};
static const char *const auxiliaries[] = {
	"do", "may", "might", "shall", "will",
	"would", "can", "could", "should", "ought to",
	"must", "will have to", "shall have to", "could have to", "should have to",
	"must have to", "need to", "try to"};
static const char *const terminators[] = {".", ";", ":", "?", "!", "--"};

/* ---- random numbers: one stream per (seed, table, row) ---- */

typedef struct
{
	uint64_t	state;
} Random;

static uint64_t global_seed = 19920101;

static uint64_t
mix(uint64_t x)
{
	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

static Random
random_row(Table table, int64_t row)
{
	return (Random)
	{
		mix(mix(global_seed + table * UINT64_C(0x9e3779b97f4a7c15)) ^ mix((uint64_t) row))
	};
}

static uint64_t
random_next(Random *r)
{
	r->state += UINT64_C(0x9e3779b97f4a7c15);
	return mix(r->state);
}

/* uniform in low..high, both included */
static int64_t
random_in(Random *r, int64_t low, int64_t high)
{
	return low +
		(int64_t) (((unsigned __int128) random_next(r) * (uint64_t) (high - low + 1)) >> 64);
}

#define random_word(r, list) ((list)[random_in((r), 0, COUNT(list) - 1)])

/* ---- output ---- */

static struct
{
	char	   *data;
	size_t		used;
	int			fd;
}			out;

static void
out_flush(void)
{
	size_t		done = 0;

	while (done < out.used)
	{
		ssize_t		n = write(out.fd, out.data + done, out.used - done);

		if (n < 0 && errno != EINTR)
		{
			/* A reader that has seen enough (head) is no failure. */
			if (errno == EPIPE)
				exit(0);
			perror("tpchgen: write");
			exit(1);
		}
		if (n > 0)
			done += (size_t) n;
	}
	out.used = 0;
}

static void
put_bytes(const char *bytes, size_t length)
{
	memcpy(out.data + out.used, bytes, length);
	out.used += length;
}

static void
put_char(char c)
{
	out.data[out.used++] = c;
}

static void
put_string(const char *s)
{
	put_bytes(s, strlen(s));
}

/* at least `width` digits */
static void
put_number(int64_t value, int width)
{
	char		digits[24];
	int			n = 0;

	if (value < 0)
	{
		put_char('-');
		value = -value;
	}
	do
	{
		digits[n++] = (char) ('0' + value % 10);
		value /= 10;
	} while (value > 0 || n < width);
	while (n > 0)
		put_char(digits[--n]);
}

static void
put_cents(int64_t cents)
{
	if (cents < 0)
	{
		put_char('-');
		cents = -cents;
	}
	put_number(cents / 100, 1);
	put_char('.');
	put_number(cents % 100, 2);
}

/* days since 1992-01-01; the table covers every date that can occur */
static void
put_date(int day)
{
	static char dates[2700][10];
	static bool ready = false;

	if (!ready)
	{
		static const int lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
		int			n = 0;

		for (int year = 1992; n < (int) COUNT(dates); year++)
			for (int month = 0; month < 12; month++)
			{
				int			length = lengths[month] + (month == 1 && year % 4 == 0);

				for (int d = 1; d <= length && n < (int) COUNT(dates); d++, n++)
				{
					char		text[40];

					snprintf(text, sizeof(text), "%04d-%02d-%02d", year, month + 1, d);
					memcpy(dates[n], text, 10);
				}
			}
		ready = true;
	}
	put_bytes(dates[day], 10);
}

static void
put_tab(void)
{
	put_char('\t');
}

static void
put_end(void)
{
	put_char('\n');
	if (out.used > BUFFER_SIZE - ROW_MAX)
		out_flush();
}

/* ---- text ---- */

static char *pool;

static size_t
append(size_t at, const char *word)
{
	size_t		length = strlen(word);

	if (at + length > POOL_SIZE)
		length = POOL_SIZE - at;
	memcpy(pool + at, word, length);
	return at + length;
}

static size_t
noun_phrase(Random *r, size_t at)
{
	switch (random_in(r, 0, 3))
	{
		case 1:
			at = append(append(at, random_word(r, adjectives)), " ");
			break;
		case 2:
			at = append(append(at, random_word(r, adjectives)), ", ");
			at = append(append(at, random_word(r, adjectives)), " ");
			break;
		case 3:
			at = append(append(at, random_word(r, adverbs)), " ");
			at = append(append(at, random_word(r, adjectives)), " ");
			break;
	}
	return append(append(at, random_word(r, nouns)), " ");
}

static size_t
verb_phrase(Random *r, size_t at)
{
	int			form = (int) random_in(r, 0, 3);

	if (form & 1)
		at = append(append(at, random_word(r, auxiliaries)), " ");
	at = append(append(at, random_word(r, verbs)), " ");
	if (form & 2)
		at = append(append(at, random_word(r, adverbs)), " ");
	return at;
}

static size_t
prepositional_phrase(Random *r, size_t at)
{
	at = append(append(at, random_word(r, prepositions)), " the ");
	return noun_phrase(r, at);
}

static void
make_pool(void)
{
	Random		r = random_row(T_POOL, 0);
	size_t		at = 0;

	pool = malloc(POOL_SIZE);
	while (at < POOL_SIZE)
	{
		int			form = (int) random_in(&r, 0, 4);

		at = noun_phrase(&r, at);
		if (form >= 3)
			at = prepositional_phrase(&r, at);
		at = verb_phrase(&r, at);
		if (form == 1 || form == 4)
			at = prepositional_phrase(&r, at);
		if (form == 2 || form == 3)
			at = noun_phrase(&r, at);
		if (at < POOL_SIZE)
			at--;				/* the terminator follows the last word directly */
		at = append(append(at, random_word(&r, terminators)), " ");
	}
}

static void
put_text(Random *r, int min, int max)
{
	int			length = (int) random_in(r, min, max);

	put_bytes(pool + random_in(r, 0, POOL_SIZE - length), (size_t) length);
}

static void
put_address(Random *r)
{
	static const char letters[65] =
		"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ, ";
	int			length = (int) random_in(r, 10, 40);
	uint64_t	bits = 0;

	for (int i = 0; i < length; i++, bits >>= 6)
	{
		if (i % 10 == 0)
			bits = random_next(r);
		put_char(letters[bits & 63]);
	}
}

static void
put_phone(Random *r, int nation)
{
	put_number(nation + 10, 2);
	put_char('-');
	put_number(random_in(r, 100, 999), 3);
	put_char('-');
	put_number(random_in(r, 100, 999), 3);
	put_char('-');
	put_number(random_in(r, 1000, 9999), 4);
}

/* ---- tables ---- */

static int64_t suppliers,
			parts,
			customers,
			orders,
			clerks,
			complaints;			/* suppliers with a complaint, and as many with a recommendation */

static int	node_count = 1,
			node_index = 0;
static bool orders_by_customer = false;

static bool
mine(int64_t key)
{
	return node_count == 1 || mix((uint64_t) key) % (uint64_t) node_count == (uint64_t) node_index;
}

static int64_t
retail_price(int64_t part)
{
	return 90000 + (part / 10) % 20001 + 100 * (part % 1000);
}

/* the i-th of the four suppliers of a part */
static int64_t
part_supplier(int64_t part, int64_t i)
{
	return (part + i * (suppliers / 4 + (part - 1) / suppliers)) % suppliers + 1;
}

/* the n-th order's key: only the first 8 of every 32 keys are used */
static int64_t
order_key(int64_t n)
{
	return (n / 8) * 32 + n % 8 + 1;
}

typedef struct
{
	int64_t		part,
				supplier,
				quantity,
				price;
	int			discount,
				tax,
				ship,
				commit,
				receipt;
	char		return_flag,
				status;
} Line;

typedef struct
{
	int64_t		key,
				customer,
				total;
	int			date,
				lines;
	char		status;
	Line		line[LINES_MAX];
	Random		texts;			/* continues with the random numbers that only orders' rows need */
} Order;

/*
 * The values that orders and lineitem share. The customer is drawn first, so that a slice by
 * customer can skip the rest.
 */
static bool
make_order(int64_t n, Order *o)
{
	Random		r = random_row(T_ORDERS, n);
	int			shipped = 0;

	o->key = order_key(n);
	/* A third of the customers never orders: those whose key is a multiple of 3. */
	do
		o->customer = random_in(&r, 1, customers);
	while (o->customer % 3 == 0);
	if (!mine(orders_by_customer ? o->customer : o->key))
		return false;
	o->date = (int) random_in(&r, 0, ORDER_DATES - 1);
	o->lines = (int) random_in(&r, 1, LINES_MAX);
	o->total = 0;
	for (int i = 0; i < o->lines; i++)
	{
		Line	   *l = &o->line[i];

		l->part = random_in(&r, 1, parts);
		l->supplier = part_supplier(l->part, random_in(&r, 0, 3));
		l->quantity = random_in(&r, 1, 50);
		l->price = l->quantity * retail_price(l->part);
		l->discount = (int) random_in(&r, 0, 10);
		l->tax = (int) random_in(&r, 0, 8);
		l->ship = o->date + (int) random_in(&r, 1, 121);
		l->commit = o->date + (int) random_in(&r, 30, 90);
		l->receipt = l->ship + (int) random_in(&r, 1, 30);
		l->return_flag = l->receipt > CURRENT_DATE ? 'N' : (random_next(&r) & 1) ? 'R' : 'A';
		l->status = l->ship > CURRENT_DATE ? 'O' : 'F';
		shipped += l->status == 'F';
		o->total += l->price * (100 + l->tax) / 100 * (100 - l->discount) / 100;
	}
	o->status = shipped == o->lines ? 'F' : shipped == 0 ? 'O' : 'P';
	o->texts = r;
	return true;
}

static void
write_orders(void)
{
	Order		o;

	for (int64_t n = 0; n < orders; n++)
	{
		Random	   *r = &o.texts;

		if (!make_order(n, &o))
			continue;
		put_number(o.key, 1), put_tab();
		put_number(o.customer, 1), put_tab();
		put_char(o.status), put_tab();
		put_cents(o.total), put_tab();
		put_date(o.date), put_tab();
		put_string(random_word(r, priorities)), put_tab();
		put_string("Clerk#"), put_number(random_in(r, 1, clerks), 9), put_tab();
		put_char('0'), put_tab();
		put_text(r, 19, 78);
		put_end();
	}
}

static void
write_lineitem(void)
{
	Order		o;

	for (int64_t n = 0; n < orders; n++)
	{
		Random		r = random_row(T_LINEITEM, n);

		if (!make_order(n, &o))
			continue;
		for (int i = 0; i < o.lines; i++)
		{
			const Line *l = &o.line[i];

			put_number(o.key, 1), put_tab();
			put_number(l->part, 1), put_tab();
			put_number(l->supplier, 1), put_tab();
			put_number(i + 1, 1), put_tab();
			put_number(l->quantity, 1), put_string(".00\t");
			put_cents(l->price), put_tab();
			put_cents(l->discount), put_tab();
			put_cents(l->tax), put_tab();
			put_char(l->return_flag), put_tab();
			put_char(l->status), put_tab();
			put_date(l->ship), put_tab();
			put_date(l->commit), put_tab();
			put_date(l->receipt), put_tab();
			put_string(random_word(&r, instructions)), put_tab();
			put_string(random_word(&r, modes)), put_tab();
			put_text(&r, 10, 43);
			put_end();
		}
	}
}

static void
write_customer(void)
{
	for (int64_t key = 1; key <= customers; key++)
	{
		Random		r = random_row(T_CUSTOMER, key);
		int			nation = (int) random_in(&r, 0, COUNT(nations) - 1);

		if (!mine(key))
			continue;
		put_number(key, 1), put_tab();
		put_string("Customer#"), put_number(key, 9), put_tab();
		put_address(&r), put_tab();
		put_number(nation, 1), put_tab();
		put_phone(&r, nation), put_tab();
		put_cents(random_in(&r, -99999, 999999)), put_tab();
		put_string(random_word(&r, segments)), put_tab();
		put_text(&r, 29, 116);
		put_end();
	}
}

/*
 * The specification hides "Customer ... Complaints" or "Customer ... Recommends" in a few comments.
 */
static void
put_supplier_comment(Random *r, int64_t key)
{
	int64_t		every = suppliers / (complaints > 0 ? complaints : 1);
	const char *second = key % every == every / 3 ? "Complaints" :
		key % every == every / 2 + 1 ? "Recommends" :
		NULL;

	if (second == NULL || complaints == 0)
	{
		put_text(r, 25, 100);
		return;
	}
	put_text(r, 5, 20);
	put_string("Customer");
	put_text(r, 4, 20);
	put_string(second);
	put_text(r, 5, 30);
}

static void
write_supplier(void)
{
	for (int64_t key = 1; key <= suppliers; key++)
	{
		Random		r = random_row(T_SUPPLIER, key);
		int			nation = (int) random_in(&r, 0, COUNT(nations) - 1);

		if (!mine(key))
			continue;
		put_number(key, 1), put_tab();
		put_string("Supplier#"), put_number(key, 9), put_tab();
		put_address(&r), put_tab();
		put_number(nation, 1), put_tab();
		put_phone(&r, nation), put_tab();
		put_cents(random_in(&r, -99999, 999999)), put_tab();
		put_supplier_comment(&r, key);
		put_end();
	}
}

static void
write_part(void)
{
	for (int64_t key = 1; key <= parts; key++)
	{
		Random		r = random_row(T_PART, key);
		bool		used[COUNT(colours)] = {false};
		int			maker = (int) random_in(&r, 1, 5);

		if (!mine(key))
			continue;
		put_number(key, 1), put_tab();
		for (int i = 0; i < 5; i++)
		{
			int			colour;

			do
				colour = (int) random_in(&r, 0, COUNT(colours) - 1);
			while (used[colour]);
			used[colour] = true;
			put_string(colours[colour]), put_char(i < 4 ? ' ' : '\t');
		}
		put_string("Manufacturer#"), put_number(maker, 1), put_tab();
		put_string("Brand#"), put_number(maker, 1), put_number(random_in(&r, 1, 5), 1), put_tab();
		put_string(random_word(&r, type_1)), put_char(' ');
		put_string(random_word(&r, type_2)), put_char(' ');
		put_string(random_word(&r, type_3)), put_tab();
		put_number(random_in(&r, 1, 50), 1), put_tab();
		put_string(random_word(&r, container_1)), put_char(' ');
		put_string(random_word(&r, container_2)), put_tab();
		put_cents(retail_price(key)), put_tab();
		put_text(&r, 5, 22);
		put_end();
	}
}

static void
write_partsupp(void)
{
	for (int64_t key = 1; key <= parts; key++)
	{
		Random		r = random_row(T_PARTSUPP, key);

		if (!mine(key))
			continue;
		for (int i = 0; i < 4; i++)
		{
			put_number(key, 1), put_tab();
			put_number(part_supplier(key, i), 1), put_tab();
			put_number(random_in(&r, 1, 9999), 1), put_tab();
			put_cents(random_in(&r, 100, 100000)), put_tab();
			put_text(&r, 49, 198);
			put_end();
		}
	}
}

/* nation and region are small: every node has them whole */
static void
write_nation(void)
{
	for (int key = 0; key < (int) COUNT(nations); key++)
	{
		Random		r = random_row(T_NATION, key);

		put_number(key, 1), put_tab();
		put_string(nations[key].name), put_tab();
		put_number(nations[key].region, 1), put_tab();
		put_text(&r, 31, 114);
		put_end();
	}
}

static void
write_region(void)
{
	for (int key = 0; key < (int) COUNT(regions); key++)
	{
		Random		r = random_row(T_REGION, key);

		put_number(key, 1), put_tab();
		put_string(regions[key]), put_tab();
		put_text(&r, 31, 115);
		put_end();
	}
}

static void (*const writers[TABLES]) (void) =
{
	write_region, write_nation, write_supplier,
		write_part, write_partsupp, write_customer,
		write_orders, write_lineitem
};

/* ---- the command ---- */

static void
usage(void)
{
	fprintf(stderr,
			"usage: tpchgen [-s SCALE] [-S SEED] [-n NODES -i NODE] [-c] (-t TABLE | -o FOLDER)\n"
			"  -s SCALE   1 is about 6 million line items (default 1)\n"
			"  -t TABLE   region nation supplier part partsupp customer orders lineitem, to "
			"standard output\n"
			"  -o FOLDER  all tables, as FOLDER/TABLE.tbl\n"
			"  -n, -i     only the rows of node NODE (from 0) of NODES, by a hash of the table's "
			"first column;\n"
			"             nation and region are whole everywhere\n"
			"  -c         orders and lineitem by the order's customer instead\n"
			"  -S SEED    other random numbers\n");
	exit(2);
}

static int64_t
scaled(double scale, int64_t rows, int64_t least)
{
	int64_t		n = (int64_t) (scale * (double) rows + 0.5);

	return n < least ? least : n;
}

int
main(int argc, char **argv)
{
	double		scale = 1;
	const char *table = NULL,
			   *folder = NULL;
	int			option;

	while ((option = getopt(argc, argv, "s:t:o:n:i:cS:")) != -1)
	{
		switch (option)
		{
			case 's':
				scale = atof(optarg);
				break;
			case 't':
				table = optarg;
				break;
			case 'o':
				folder = optarg;
				break;
			case 'n':
				node_count = atoi(optarg);
				break;
			case 'i':
				node_index = atoi(optarg);
				break;
			case 'c':
				orders_by_customer = true;
				break;
			case 'S':
				global_seed = strtoull(optarg, NULL, 10);
				break;
			default:
				usage();
		}
	}
	if (optind != argc || (table == NULL) == (folder == NULL) || !(scale > 0 && scale <= 100000) ||
		node_count < 1 || node_index < 0 || node_index >= node_count)
		usage();

	suppliers = scaled(scale, 10000, 4);
	parts = scaled(scale, 200000, 20);
	customers = scaled(scale, 150000, 15);
	orders = scaled(scale, 1500000, 15);
	clerks = scaled(scale, 1000, 1);
	complaints = scaled(scale, 5, 0);
	out.data = malloc(BUFFER_SIZE);
	make_pool();
	if (out.data == NULL || pool == NULL)
	{
		fprintf(stderr, "tpchgen: out of memory\n");
		return 1;
	}

	for (int t = 0; t < TABLES; t++)
	{
		if (folder != NULL)
		{
			char		path[4096];

			snprintf(path, sizeof(path), "%s/%s.tbl", folder, table_names[t]);
			fflush(stdout);
			if (freopen(path, "w", stdout) == NULL)
			{
				fprintf(stderr, "tpchgen: %s: %s\n", path, strerror(errno));
				return 1;
			}
		}
		else if (strcmp(table, table_names[t]) != 0)
			continue;
		out.fd = fileno(stdout);
		writers[t] ();
		out_flush();
		if (folder == NULL)
			return 0;
	}
	if (folder == NULL)
	{
		fprintf(stderr, "tpchgen: there is no table \"%s\"\n", table);
		usage();
	}
	return 0;
}
