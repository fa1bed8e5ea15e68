/*
 * fuzz_part_log.c - the log of the parts of distributed transactions, which grows by the names that roles give prepared transactions: whatever
 * the names and the order of what happens to them, it has what was prepared and not finished, and what was committed lately.
 *
 * The input is a list of steps: a byte for what happens, one for who does it, and for PREPARE a byte for the length of the name, and the
 * name. The log is compared with a list that is kept here.
 */
#include "backend.h"

#include "../../src/serve/part_log.c"

#define BACKENDS	3
#define GIDS		64

int			MaxBackends = BACKENDS;
int			max_prepared_xacts = 2;
Oid			MyDatabaseId = 5;
bool		process_shared_preload_libraries_in_progress = true;
static LWLockPadded locks[64];
LWLockPadded *MainLWLockArray = locks;
uint64		SPI_processed = 0;
SPITupleTable *SPI_tuptable = NULL;

static LWLockPadded lock;
static void *space = NULL;
static uint64 next_xid = 100;
static bool has_access;
static XactCallback at_end;

/* ---------- the backend ---------- */

bool
LWLockAcquire(LWLock *acquired, LWLockMode mode)
{
	return true;
}

void
LWLockRelease(LWLock *released)
{
}

LWLockPadded *
GetNamedLWLockTranche(const char *name)
{
	return &lock;
}

void
RequestNamedLWLockTranche(const char *name, int count)
{
}

void
RequestAddinShmemSpace(Size size)
{
}

Size
add_size(Size a, Size b)
{
	return a + b;
}

Size
mul_size(Size a, Size b)
{
	return a * b;
}

void *
ShmemInitStruct(const char *name, Size size, bool *found)
{
	*found = false;
	if (space == NULL)
		space = malloc(size);
	return space;
}

FullTransactionId
ReadNextFullTransactionId(void)
{
	return FullTransactionIdFromU64(next_xid + 1);
}

FullTransactionId
GetTopFullTransactionIdIfAny(void)
{
	return FullTransactionIdFromU64(next_xid);
}

bool
TransactionIdPrecedes(TransactionId a, TransactionId b)
{
	return (int32) (a - b) < 0;
}

bool
IsAbortedTransactionBlockState(void)
{
	return false;
}

bool
RecoveryInProgress(void)
{
	return false;
}

TimestampTz
GetCurrentTimestamp(void)
{
	return 0;
}

void
RegisterXactCallback(XactCallback callback, void *arg)
{
	at_end = callback;
}

Oid
LookupFuncName(List *name, int count, const Oid *types, bool missing_ok)
{
	return 1;
}

AclResult
pg_proc_aclcheck(Oid function, Oid role, AclMode mode)
{
	return has_access ? ACLCHECK_OK : ACLCHECK_NO_PRIV;
}

AclResult
object_aclcheck(Oid catalog, Oid object, Oid role, AclMode mode)
{
	return has_access ? ACLCHECK_OK : ACLCHECK_NO_PRIV;
}

Oid
GetUserId(void)
{
	return 10;
}

char *
GetUserNameFromId(Oid role, bool missing_ok)
{
	return pstrdup("role");
}

const char *
quote_identifier(const char *name)
{
	return name;
}

char *
quote_literal_cstr(const char *text)
{
	return pstrdup(text);
}

List *
list_make1_impl(NodeTag type, ListCell cell)
{
	return NIL;
}

List *
list_make2_impl(NodeTag type, ListCell first, ListCell second)
{
	return NIL;
}

String *
makeString(char *text)
{
	return NULL;
}

int
SPI_connect(void)
{
	return SPI_OK_CONNECT;
}

int
SPI_execute(const char *sql, bool read_only, long count)
{
	return SPI_OK_SELECT;
}

int
SPI_finish(void)
{
	return SPI_OK_FINISH;
}

char *
SPI_getvalue(HeapTuple row, TupleDesc desc, int column)
{
	return NULL;
}

Datum
SPI_getbinval(HeapTuple row, TupleDesc desc, int column, bool *isnull)
{
	return 0;
}

/* ---------- what the log has to have ---------- */

typedef struct Known
{
	char		gid[200];		/* "": free */
	bool		logged;
} Known;

static Known known[GIDS];		/* prepared, not finished */
static uint64 committed = 0;

static Known *
find_known(const char *gid)
{
	for (int i = 0; i < GIDS; i++)
	{
		if (known[i].gid[0] != '\0' && strcmp(known[i].gid, gid) == 0)
			return &known[i];
	}
	return NULL;
}

static bool
any(const RfTransactionPart *part, const void *arg)
{
	return true;
}

/* Returns how many are prepared. */
static int
compare(void)
{
	int			logged = 0;

	for (int i = 0; i < GIDS; i++)
		logged += known[i].gid[0] != '\0' && known[i].logged;
	require(part_log->prepared_count == logged && part_log->ended_count == committed);
	return logged;
}

static void
collect_all(void)
{
	int			count;
	RfTransactionPart *parts = rf_part_log_collect(any, NULL, &count);

	require(count == compare() + (int) Min(committed, ENDED_PARTS));
	pfree(parts);
}

/* So many can be prepared at a time; the others are refused by core. */
static int
count_known(void)
{
	int			count = 0;

	for (int i = 0; i < GIDS; i++)
		count += known[i].gid[0] != '\0';
	return count;
}

static void
prepare(const char *gid, bool access, bool fails)
{
	RfTransactionPart part;
	bool		ours = parse_gid(gid, &part);

	has_access = access;
	next_xid++;
	free_all();
	if (setjmp(error_place) != 0)
	{
		require(ours && (!access || find_known(gid)));
		at_transaction_end(XACT_EVENT_ABORT, NULL);
		return;
	}
	will_prepare(gid);
	at_transaction_end(XACT_EVENT_PRE_PREPARE, NULL);
	/* core refuses a name twice, and too many; what it refuses it aborts */
	if (fails || find_known(gid) || count_known() >= max_prepared_xacts)
	{
		at_transaction_end(XACT_EVENT_ABORT, NULL);
		return;
	}
	at_transaction_end(XACT_EVENT_PREPARE, NULL);
	for (int i = 0; i < GIDS; i++)
	{
		if (known[i].gid[0] == '\0')
		{
			strlcpy(known[i].gid, gid, sizeof(known[i].gid));
			known[i].logged = ours;
			break;
		}
	}
}

static void
finish(Known *one, bool commit)
{
	rf_part_log_ended(&(RfPreparedEnd) {.commit = commit, .gid = one->gid});
	committed += commit && one->logged;
	one->gid[0] = '\0';
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	rf_part_log_shmem_startup();
	part_log->recovered = true;
	memset(known, 0, sizeof(known));
	committed = 0;
	preparing = 0;
	while (size >= 2)
	{
		uint8_t		what = data[0];
		uint8_t		who = data[1];

		data += 2;
		size -= 2;
		if (what % 4 < 2 && size >= 1)
		{
			char		gid[200];
			size_t		length = Min(Min(data[0], size - 1), sizeof(gid) - 1 - strlen(RF_GID_PREFIX));

			/* most have the prefix */
			memcpy(gid, what & 4 ? "rdma fdw " : RF_GID_PREFIX, strlen(RF_GID_PREFIX));
			memcpy(gid + strlen(RF_GID_PREFIX), data + 1, length);
			gid[strlen(RF_GID_PREFIX) + length] = '\0';
			data += 1 + length;
			size -= 1 + length;
			prepare(gid, (who & 7) != 0, (who & 8) != 0);
		}
		else if (known[who % GIDS].gid[0] != '\0')
			finish(&known[who % GIDS], what % 4 == 2);
		(void) compare();
	}
	collect_all();
	free_all();
	return 0;
}
