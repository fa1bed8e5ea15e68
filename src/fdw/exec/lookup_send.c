/*
 * lookup_send.c
 *		The statements of a lookup (batched_lookup.c): arrays of values for the parameters of its
 *		scan, or of keys, or all rows of the table.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "utils/array.h"

#include "rdma_fdw/compat.h"

#include "exec.h"
#include "lookup_state.h"

/*
 * Builds the parameter arrays for the values that belong to a part (-1: all), and an array of their
 * 1-based positions. Returns NULL if there are no such values. Each is accompanied by its place
 * among all, from 1.
 */
static Datum *
arrays_for(RfLookup *lookup, Known *const *values, int count, int part)
{
	Datum	   *arrays = palloc_array(Datum, lookup->params.count + 1);
	Datum	   *members = palloc_array(Datum, count);
	bool	   *isnull = palloc0_array(bool, count);
	ArrayType  *array;
	int			taken = 0;
	int			lower = 1;

	for (int i = 0; i < count; i++)
	{
		if (part < 0 || values[i]->part == part)
			members[taken++] = Int64GetDatum(i + 1);
	}
	if (taken == 0)
		return NULL;
	array = construct_md_array(members, isnull, 1, &taken, &lower, INT8OID, 8, FLOAT8PASSBYVAL,
							   TYPALIGN_DOUBLE);
	arrays[lookup->params.count] = PointerGetDatum(array);
	for (int i = 0; i < lookup->params.count; i++)
	{
		const ValueType *type = &lookup->params.types[i];

		taken = 0;
		for (int j = 0; j < count; j++)
		{
			if (part >= 0 && values[j]->part != part)
				continue;
			members[taken] = values[j]->values[i];
			isnull[taken++] = values[j]->isnull[i];
		}
		arrays[i] = PointerGetDatum(construct_md_array(members, isnull, 1, &taken, &lower,
													   type->type, type->length, type->by_value,
													   type->align));
	}
	return arrays;
}

/*
 * Lets the scan ask for the rows with these keys or for all, or read what it has kept of them once
 * more.
 */
static void
send_keys(RfLookup *lookup, Known *const *values, int count)
{
	Keys	   *keys = lookup->keys;
	const ValueType *type = &lookup->params.types[0];
	Datum	   *members;

	if (keys->one_statement && keys->asked)
		return;
	/* the first statement is for all */
	if (keys->one_statement && lookup->known.expected.count > 0)
	{
		values = lookup->known.expected.values;
		count = lookup->known.expected.count;
		keys->all_rows = keys->more;
	}
	else if (keys->asked && keys->spent > keys->most)
		keys->all_rows = true;
	keys->asked = true;
	if (keys->all_rows)
	{
		lookup->counters.statements += lookup->counters.read_all ? 0 : 1;
		lookup->counters.read_all = true;
		rf_scan_ask_all(lookup->scan, keys->one_statement || keys->more);
		return;
	}
	members = palloc_array(Datum, count);
	for (int i = 0; i < count; i++)
		members[i] = values[i]->values[0];
	rf_scan_set_keys(lookup->scan,
					 PointerGetDatum(construct_array(members, count, type->type, type->length,
													 type->by_value, type->align)),
					 keys->one_statement);
	keys->spent += count * keys->key_rows;
	lookup->counters.values += count;
	lookup->counters.statements++;
}

/* Notes the time at which a statement that asks for `count` values starts. */
static void
note_start(LookupPace *pace, int count)
{
	if (count != pace->sent_values)
		pace->value_ms_before = pace->value_ms;
	pace->sent_values = count;
	INSTR_TIME_SET_CURRENT(pace->sent_at);
}

void
rf_lookup_send(RfLookup *lookup, Known *const *values, int count)
{
	MemoryContext caller;
	Datum	  **parts;

	lookup->pass++;
	for (int i = 0; i < count; i++)
		values[i]->pass = lookup->pass;
	if (lookup->keys == NULL || !lookup->keys->one_statement || !lookup->keys->asked)
		MemoryContextReset(lookup->sent);
	caller = MemoryContextSwitchTo(lookup->sent);
	if (lookup->keys != NULL)
		send_keys(lookup, values, count);
	else if (lookup->single == NULL)
		rf_scan_set_local(lookup->scan, arrays_for(lookup, values, count, -1));
	else
	{
		parts = palloc_array(Datum *, lookup->part_count);
		for (int i = 0; i < lookup->part_count; i++)
			parts[i] = arrays_for(lookup, values, count, i);
		rf_scan_set_local_by_part(lookup->scan, parts);
	}
	MemoryContextSwitchTo(caller);
	note_start(&lookup->pace, count);
	ExecReScan(&lookup->scan->ss.ps);
	if (lookup->keys != NULL)
		return;
	lookup->counters.statements++;
	lookup->counters.values += count;
}
