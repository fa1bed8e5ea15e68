/*
 * spec.c - parses the argument of rdma_internal.exchange(): "number=1 kind=repartition keys=1,2
 * rows=750000 ...".
 *
 * It is text, so that a fragment can be read, logged and run by hand. Every word of it is checked,
 * because any role may open a session and send one.
 */
#include "node.h"

#include <math.h>

#include "access/htup_details.h"

#include "rdma_fdw/compat.h"

const char	rf_exchange_name[] = "RdmaExchange";

__attribute__((noreturn, format(printf, 2, 0))) static void
bad_spec(const char *text, const char *format, const char *what)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid description of an exchange: \"%s\"", text),
			 errdetail_internal(format, what),
			 errhint("Descriptions are made by rdma_fdw of a coordinator, like "
					 "\"number=1 kind=repartition keys=1,2 rows=1000\".")));
}

static int
count_members(const char *list)
{
	int			count = 1;

	for (; *list != '\0'; list++)
		count += *list == ',';
	return count;
}

static double
read_number(const char *text, char *from, double least, double most)
{
	char	   *end;
	double		value = strtod(from, &end);

	if (end == from || *end != '\0' || isnan(value) || value < least || value > most)
		bad_spec(text, "\"%s\" is not a number that can be here.", from);
	return value;
}

static int
read_count(const char *text, char *from, int most)
{
	double		number = read_number(text, from, 1, most);

	if (number != floor(number))
		bad_spec(text, "\"%s\" is not a number that can be here.", from);
	return (int) number;
}

static double *
read_numbers(const char *text, char *list, int *count)
{
	double	   *numbers = palloc(count_members(list) * sizeof(double));
	char	   *member;

	*count = 0;
	while ((member = strsep(&list, ",")) != NULL)
		numbers[(*count)++] = read_number(text, member, -1e300, 1e300);
	return numbers;
}

static void
read_keys(const char *text, char *list, ExchangeSpec *spec)
{
	char	   *member;

	spec->keys = palloc(count_members(list) * sizeof(AttrNumber));
	while ((member = strsep(&list, ",")) != NULL)
	{
		double		key = read_number(text, member, 1, MaxTupleAttributeNumber);

		if (key != floor(key))
			bad_spec(text, "\"%s\" is not a column.", member);
		spec->keys[spec->key_count++] = (AttrNumber) key;
	}
}

static void
read_map(const char *text, char *list, ExchangeSpec *spec)
{
	char	   *member;

	spec->map = palloc(count_members(list) * sizeof(uint16));
	while ((member = strsep(&list, ",")) != NULL)
	{
		double		number = read_number(text, member, 0, RF_MAX_PEERS - 1);

		if (number != floor(number))
			bad_spec(text, "\"%s\" is not a node.", member);
		spec->map[spec->map_count++] = (uint16) number;
	}
}

static int
compare_hashes(const void *a, const void *b)
{
	uint64		left = *(const uint64 *) a;
	uint64		right = *(const uint64 *) b;

	return left < right ? -1 : left > right;
}

/*
 * Reads "spread:HASH,..." or "broadcast:HASH,...", the keys that many rows have. ERROR if it is
 * neither.
 */
static void
read_heavy(const char *text, char *value, ExchangeSpec *spec)
{
	char	   *how = strsep(&value, ":");
	char	   *member;

	if (strcmp(how, "spread") == 0)
		spec->heavy = HEAVY_SPREAD;
	else if (strcmp(how, "broadcast") == 0)
		spec->heavy = HEAVY_BROADCAST;
	else
		bad_spec(text, "\"%s\" is not a way to handle heavy keys.", how);
	if (value == NULL)
		bad_spec(text, "It names no heavy %s.", "keys");
	spec->heavy_hashes = palloc(count_members(value) * sizeof(uint64));
	while ((member = strsep(&value, ",")) != NULL)
	{
		char	   *end;

		errno = 0;
		spec->heavy_hashes[spec->heavy_count++] = strtoull(member, &end, 10);
		if (*member < '0' || *member > '9' || *end != '\0' || errno != 0)
			bad_spec(text, "\"%s\" is not a hash.", member);
	}
	qsort(spec->heavy_hashes, spec->heavy_count, sizeof(uint64), compare_hashes);
}

ExchangeSpec *
rf_exchange_spec_parse(const char *text)
{
	ExchangeSpec *spec = palloc0(sizeof(ExchangeSpec));
	char	   *rest = pstrdup(text);
	char	   *word;
	bool		has_kind = false;

	spec->rows = 1000;
	while ((word = strsep(&rest, " ")) != NULL)
	{
		char	   *value = word;
		char	   *name = strsep(&value, "=");

		if (*name == '\0' && value == NULL)
			continue;			/* more than one space */
		if (value == NULL)
			bad_spec(text, "\"%s\" has no value.", name);
		if (strcmp(name, "number") == 0)
			spec->number = read_count(text, value, EXCHANGE_MAX);
		else if (strcmp(name, "kind") == 0)
		{
			has_kind = true;
			spec->replicate = strcmp(value, "replicate") == 0;
			if (!spec->replicate && strcmp(value, "repartition") != 0)
				bad_spec(text, "\"%s\" is not a kind of exchange.", value);
		}
		else if (strcmp(name, "keys") == 0 && spec->keys == NULL)
			read_keys(text, value, spec);
		else if (strcmp(name, "rows") == 0)
			spec->rows = read_number(text, value, 0, 1e300);
		else if (strcmp(name, "uneven") == 0)
			spec->uneven = read_number(text, value, 0, 1) > 0;
		else if (strcmp(name, "distinct") == 0)
			spec->distinct = read_numbers(text, value, &spec->distinct_count);
		else if (strcmp(name, "map") == 0 && spec->map == NULL)
			read_map(text, value, spec);
		else if (strcmp(name, "heavy") == 0 && spec->heavy == HEAVY_NONE)
			read_heavy(text, value, spec);
		else if (strcmp(name, "filter") == 0 && spec->filter == 0)
			spec->filter = read_count(text, value, EXCHANGE_MAX);
		else if (strcmp(name, "reader") == 0 && spec->reader == 0)
			spec->reader = read_count(text, value, PG_INT16_MAX);
		else
			bad_spec(text, "\"%s\" is not known, or is there twice.", name);
	}
	if (spec->number == 0 || !has_kind)
		bad_spec(text, "It has no %s.", spec->number == 0 ? "number" : "kind");
	if (spec->replicate ? spec->key_count > 0 || spec->map != NULL || spec->heavy != HEAVY_NONE :
		spec->key_count == 0)
		bad_spec(text, "%s.", spec->replicate ? "What is replicated has no keys and no map" :
				 "What is repartitioned needs keys");
	if (spec->filter > 0 && (spec->replicate || spec->filter >= spec->number))
		bad_spec(text, "%s.",
				 "What is repartitioned can be filtered by exchanges with lower numbers only");
	return spec;
}

RfRoute *
rf_exchange_spec_route(const ExchangeSpec *spec, TupleDesc desc)
{
	Oid		   *types = palloc(spec->key_count * sizeof(Oid));
	Oid		   *collations = palloc(spec->key_count * sizeof(Oid));
	RfRoute    *route;

	for (int i = 0; i < spec->key_count; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, spec->keys[i] - 1);

		types[i] = att->atttypid;
		collations[i] = att->attcollation;
	}
	route = rf_route_create(spec->key_count, types, collations);
	pfree(types);
	pfree(collations);
	return route;
}

const char *
rf_exchange_describe(const ExchangeSpec *spec)
{
	StringInfoData text;

	initStringInfo(&text);
	appendStringInfo(&text, "%d, %s", spec->number, spec->replicate ? "replicate" :
					 "repartition by column");
	for (int i = 0; i < spec->key_count; i++)
		appendStringInfo(&text, "%s %d", i > 0 ? "," : "", spec->keys[i]);
	if (spec->heavy != HEAVY_NONE)
		appendStringInfo(&text, ", %d heavy %s %s", spec->heavy_count, spec->heavy_count == 1 ?
						 "key" : "keys",
						 spec->heavy == HEAVY_SPREAD ? "spread" : "broadcast");
	if (spec->filter > 0)
		appendStringInfo(&text, ", filtered by %d", spec->filter);
	if (spec->reader > 0)
		appendStringInfo(&text, ", reader %d", spec->reader);
	return text.data;
}
