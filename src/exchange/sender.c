/*
 * sender.c - the coordinator's rows as the input of an exchange: it is the only producer, and no
 * consumer. The rows take the way of a node's (node_out.c).
 *
 * Nothing here waits but rf_sender_connect() and rf_senders_wait(). The coordinator sends all rows
 * before it reads the first of the statement's result, and meanwhile stores what comes of that
 * (fdw/exec/scan_nodes.c). It waits for no node's rows, and numbers its exchanges below all other
 * ones: so whatever a node waits for, it takes these rows.
 */
#include "node.h"

#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "mb/pg_wchar.h"
#include "utils/memutils.h"

#include "rdma_fdw/compat.h"
#include "rdma_fdw/remote.h"
#include "rdma_fdw/serve.h"

/* How often a sleeping coordinator looks at its sessions, whose errors set no latch. */
#define SESSION_CHECK_MS	100

struct RfSender
{
	MemoryContext context;
	ExchangeState state;		/* what node_out.c needs of it */
	ExchangeMember member;
};

RfSender *
rf_sender_create(const char *spec, PlanState *plan)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "rdma_fdw sender",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext caller = MemoryContextSwitchTo(context);
	RfSender   *sender = palloc0(sizeof(RfSender));

	sender->context = context;
	sender->state.spec = rf_exchange_spec_parse(spec);
	sender->state.member = &sender->member;
	sender->state.reader.over = true;
	sender->state.input.node = plan;
	sender->state.input.local = true;
	sender->state.input.started = true;
	sender->member.consumer = -1;
	MemoryContextSwitchTo(caller);
	return sender;
}

/*
 * Hashes of text are of its bytes, so rows cannot be routed by a type with text in it where the
 * nodes' databases have another encoding.
 */
static bool
has_text(Form_pg_attribute key)
{
	return OidIsValid(key->attcollation) ||
		(key->attlen < 0 && key->atttypid != NUMERICOID && key->atttypid != BYTEAOID);
}

static bool
routes_by_text(const ExchangeSpec *spec, TupleDesc columns)
{
	for (int i = 0; i < spec->key_count && !spec->replicate; i++)
	{
		if (has_text(TupleDescAttr(columns, spec->keys[i] - 1)))
			return true;
	}
	return false;
}

static void
settle_format(RfSender *sender, TupleDesc columns, struct RfSession *const *sessions, int count)
{
	ExchangeSending *sending = &sender->state.sending;

	for (int i = 0; i < count; i++)
	{
		bool		portable;
		int			encoding = rf_session_encoding(sessions[i], &portable);

		if (portable)
			sending->flags |= RF_STREAM_PORTABLE;
		if (i > 0 && encoding != sending->encoding)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("the databases on nodes of one statement have several encodings"),
					 errhint("Databases that exchange rows must have the same encoding.")));
		sending->encoding = encoding;
	}
	if (sending->encoding != GetDatabaseEncoding() &&
		routes_by_text(sender->state.spec, columns))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("the nodes' databases have the encoding %s, and this one %s",
						pg_encoding_to_char(sending->encoding), GetDatabaseEncodingName()),
				 errhint("With rdma_fdw.disable = local_rows rows of this database are joined "
						 "here.")));
}

/* The rows begin to travel. */
void
rf_sender_connect(RfSender *sender, RfGroupDesc *desc, struct RfSession *const *sessions, int count)
{
	MemoryContext caller = MemoryContextSwitchTo(sender->context);
	TupleDesc	columns = CreateTupleDescCopy(ExecGetResultType(sender->state.input.node));

	/* values have their modifiers already */
	for (int i = 0; i < columns->natts; i++)
		TupleDescAttr(columns, i)->atttypmod = -1;
	settle_format(sender, columns, sessions, count);
	sender->member.desc = palloc(desc->length);
	memcpy(sender->member.desc, desc, desc->length);
	PG_TRY();
	{
		sender->member.out = rf_group_open_begin(sender->member.desc, 0, RF_GROUP_ANY);
		rf_group_open_end(sender->member.out);
	}
	PG_CATCH();
	{
		rf_sender_disconnect(sender);
		PG_RE_THROW();
	}
	PG_END_TRY();
	sender->state.sending.production = PRODUCTION_RUNNING;
	rf_exchange_begin_sending(&sender->state, columns);
	MemoryContextSwitchTo(caller);
}

void
rf_sender_disconnect(RfSender *sender)
{
	if (sender->member.out != NULL)
		rf_group_close(sender->member.out);
	sender->member.out = NULL;
}

bool
rf_sender_send(RfSender *sender, bool *moved)
{
	MemoryContext caller = MemoryContextSwitchTo(sender->context);
	bool		stepped = rf_exchange_produce(&sender->state) != STEP_STUCK;

	*moved |= stepped;
	MemoryContextSwitchTo(caller);
	return sender->state.sending.production != PRODUCTION_OVER;
}

void
rf_senders_wait(RfSender *const *senders, int count)
{
	RfGroup   **groups = palloc(count * sizeof(RfGroup *));
	int			waiting = 0;

	for (int i = 0; i < count; i++)
	{
		if (senders[i]->member.out != NULL)
			groups[waiting++] = senders[i]->member.out;
	}
	(void) rf_groups_wait(groups, waiting, PGINVALID_SOCKET, SESSION_CHECK_MS);
	pfree(groups);
}

void
rf_sender_count(const RfSender *sender, uint64 *rows, uint64 *bytes)
{
	*rows += sender->state.input.rows;
	*bytes += sender->member.counters.bytes_out;
}

void
rf_sender_close(RfSender *sender)
{
	rf_sender_disconnect(sender);
	rf_exchange_end_sending(&sender->state);
	MemoryContextDelete(sender->context);
}
