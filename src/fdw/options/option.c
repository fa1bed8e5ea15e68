/*
 * option.c
 * 		Options of servers, user mappings, foreign tables and their columns: their names, valid
 * 		values, and parsing.
 *
 * The names equal postgres_fdw's wherever the meaning is the same, so that existing definitions can
 * be moved by changing the wrapper's name. remote/ connects with them.
 */
#include "postgres.h"

#include <math.h>

#include "access/reloptions.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_foreign_data_wrapper.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_foreign_table.h"
#include "catalog/pg_user_mapping.h"
#include "commands/defrem.h"
#include "commands/extension.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/varlena.h"

#include "rdma_fdw/exchange.h"
#include "rdma_fdw/remote.h"

#include "option.h"

#define ON_SERVER	0x01
#define ON_USER		0x02
#define ON_TABLE	0x04
#define ON_COLUMN	0x08

/* A misspelled name within this distance of a valid one gets the hint "perhaps you meant". */
#define MAX_TYPO_DISTANCE			4

typedef enum OptionKind
{
	KIND_TEXT,
	KIND_NAME,					/* text that must not be empty */
	KIND_BOOL,
	KIND_COST,
	KIND_COUNT,					/* integer within low..high */
	KIND_BYTES,					/* size with unit, low..high bytes */
	KIND_SAMPLING,
	KIND_ENCRYPTION,
	KIND_EXTENSIONS,
	KIND_SERVERS,				/* names of servers */
	KIND_COLUMNS				/* names of columns */
} OptionKind;

typedef struct OptionDef
{
	const char *name;
	int			where;			/* ON_* bits */
	OptionKind	kind;
	int			low;
	int			high;
} OptionDef;

/*
 * Our own options. libpq's options join them in load_options(); sslcert, sslkey and gssdelegation
 * stand here a second time because a user mapping may override the server's.
 */
static const OptionDef own_options[] = {
	{"schema_name", ON_TABLE, KIND_NAME},
	{"table_name", ON_TABLE, KIND_NAME},
	{"column_name", ON_COLUMN, KIND_NAME},
	{"use_remote_estimate", ON_SERVER | ON_TABLE, KIND_BOOL},
	{"fdw_startup_cost", ON_SERVER, KIND_COST},
	{"fdw_tuple_cost", ON_SERVER, KIND_COST},
	{"extensions", ON_SERVER, KIND_EXTENSIONS},
	{"updatable", ON_SERVER | ON_TABLE, KIND_BOOL},
	{"truncatable", ON_SERVER | ON_TABLE, KIND_BOOL},
	{"fetch_size", ON_SERVER | ON_TABLE, KIND_COUNT, 1, INT_MAX},
	{"batch_size", ON_SERVER | ON_TABLE, KIND_COUNT, 1, INT_MAX},
	{"async_capable", ON_SERVER | ON_TABLE, KIND_BOOL},
	{"parallel_scan", ON_SERVER | ON_TABLE, KIND_BOOL},
	{"parallel_commit", ON_SERVER, KIND_BOOL},
	{"parallel_abort", ON_SERVER, KIND_BOOL},
	{"keep_connections", ON_SERVER, KIND_BOOL},
	{"analyze_sampling", ON_SERVER | ON_TABLE, KIND_SAMPLING},
	{"password_required", ON_USER, KIND_BOOL},
	{"sslcert", ON_USER, KIND_TEXT},
	{"sslkey", ON_USER, KIND_TEXT},
#if PG_VERSION_NUM >= 160000
	{"gssdelegation", ON_USER, KIND_TEXT},
#endif
#if PG_VERSION_NUM >= 180000
	{"use_scram_passthrough", ON_SERVER | ON_USER, KIND_BOOL},
#endif
	{"receive_buffers", ON_SERVER | ON_TABLE, KIND_COUNT, 1, RF_MAX_SLOTS},
	{"receive_buffer_size", ON_SERVER | ON_TABLE, KIND_BYTES, RF_MIN_SLOT_SIZE, RF_MAX_SLOT_SIZE},
	{"inline_limit", ON_SERVER | ON_TABLE, KIND_BYTES, 0, RF_MAX_INLINE},
	{"read_in_place", ON_SERVER | ON_TABLE, KIND_BOOL},
	{"accept_pages", ON_SERVER | ON_TABLE, KIND_BOOL},
	{"trusted", ON_SERVER, KIND_BOOL},
	{"encryption", ON_SERVER, KIND_ENCRYPTION},
	{"nodes", ON_SERVER, KIND_SERVERS},
	{"compute_nodes", ON_SERVER, KIND_SERVERS},
	{"distributed_by", ON_TABLE, KIND_COLUMNS},
	{"replicated", ON_TABLE, KIND_BOOL},
	{"propagate_ddl", ON_TABLE, KIND_BOOL},
};

/* own_options and libpq's in one array; built once per backend and kept */
static OptionDef *option_defs = NULL;
static int	option_count = 0;

PG_FUNCTION_INFO_V1(rdma_fdw_validator);

static void load_options(void);
static const OptionDef *find_option(const char *name, int where);
static void complain_unknown(const char *name, int where) __attribute__((noreturn));
static void check_value(const OptionDef *opt, DefElem *def);
static void check_together(List *options, int where);
static int	catalog_to_where(Oid catalog);
static int	parse_bytes(const char *value, const OptionDef *opt);

/*
 * CREATE/ALTER of SERVER, USER MAPPING, FOREIGN TABLE, and FOREIGN DATA WRAPPER call this with the
 * complete new set of options.
 */
Datum
rdma_fdw_validator(PG_FUNCTION_ARGS)
{
	List	   *options = untransformRelOptions(PG_GETARG_DATUM(0));
	Oid			catalog = PG_GETARG_OID(1);
	int			where = catalog_to_where(catalog);
	ListCell   *lc;

	load_options();

	foreach(lc, options)
	{
		DefElem    *def = lfirst_node(DefElem, lc);
		const OptionDef *opt = find_option(def->defname, where);

		if (opt == NULL)
			complain_unknown(def->defname, where);
		check_value(opt, def);

		/* Options that an ordinary user must not set in a mapping of his own. */
		if (where == ON_USER && !superuser())
		{
			if (strcmp(def->defname, "password_required") == 0 && !defGetBoolean(def))
				ereport(ERROR,
						(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
						 errmsg("password_required=false is superuser-only"),
						 errhint("User mappings with the password_required option set to false "
								 "may only be created or modified by the superuser.")));
			if (strcmp(def->defname, "sslcert") == 0 || strcmp(def->defname, "sslkey") == 0)
				ereport(ERROR,
						(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
						 errmsg("sslcert and sslkey are superuser-only"),
						 errhint("User mappings with the sslcert or sslkey options set may only "
								 "be created or modified by the superuser.")));
		}
	}
	if (where == ON_SERVER && !superuser() && rf_option_find(options, "trusted") != NULL &&
		defGetBoolean(rf_option_find(options, "trusted")))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("trusted=true is superuser-only"),
				 errhint("Servers with the trusted option set to true may only be created or "
						 "modified by the superuser.")));
	check_together(options, where);

	PG_RETURN_VOID();
}

/* Rejects contradictions: one cannot connect to a server with nodes. */
static void
check_together(List *options, int where)
{
	if (where == ON_SERVER && rf_option_find(options, "nodes") != NULL)
	{
		const RfConnectionOption *connection_options;
		int			count;

		connection_options = rf_connection_options(&count);
		for (int i = 0; i < count; i++)
		{
			if (rf_option_find(options, connection_options[i].name) != NULL)
				ereport(ERROR,
						(errcode(ERRCODE_FDW_INVALID_ATTRIBUTE_VALUE),
						 errmsg("option \"%s\" cannot be used together with \"nodes\"",
								connection_options[i].name),
						 errhint("A server with nodes is not connected to; give the option to the "
								 "servers that it names.")));
		}
	}
	if (where == ON_SERVER && rf_option_find(options, "compute_nodes") != NULL &&
		rf_option_find(options, "nodes") == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FDW_INVALID_ATTRIBUTE_VALUE),
				 errmsg("option \"compute_nodes\" needs \"nodes\""),
				 errhint("\"nodes\" names the servers that hold the rows.")));
	if (where == ON_TABLE && rf_option_find(options, "distributed_by") != NULL &&
		rf_option_find(options, "replicated") != NULL &&
		defGetBoolean(rf_option_find(options, "replicated")))
		ereport(ERROR,
				(errcode(ERRCODE_FDW_INVALID_ATTRIBUTE_VALUE),
				 errmsg("option \"distributed_by\" cannot be used together with \"replicated\""),
				 errdetail("Rows of a replicated table lie on every node.")));
}

static int
catalog_to_where(Oid catalog)
{
	switch (catalog)
	{
		case ForeignServerRelationId:
			return ON_SERVER;
		case UserMappingRelationId:
			return ON_USER;
		case ForeignTableRelationId:
			return ON_TABLE;
		case AttributeRelationId:
			return ON_COLUMN;
		default:
			return 0;			/* the wrapper itself has no options */
	}
}

/* Our options and libpq's (remote/ knows those) in one array. */
static void
load_options(void)
{
	const RfConnectionOption *connection_options;
	int			nconnection;
	int			nown = lengthof(own_options);
	OptionDef  *defs;

	if (option_defs != NULL)
		return;

	connection_options = rf_connection_options(&nconnection);
	defs = MemoryContextAllocZero(TopMemoryContext, sizeof(OptionDef) * (nown + nconnection));
	memcpy(defs, own_options, sizeof(own_options));
	for (int i = 0; i < nconnection; i++)
	{
		defs[nown + i].name = connection_options[i].name;
		defs[nown + i].where = connection_options[i].in_user_mapping ? ON_USER : ON_SERVER;
		defs[nown + i].kind = KIND_TEXT;
	}

	option_count = nown + nconnection;
	option_defs = defs;
}

static const OptionDef *
find_option(const char *name, int where)
{
	for (int i = 0; i < option_count; i++)
	{
		if ((option_defs[i].where & where) && strcmp(option_defs[i].name, name) == 0)
			return &option_defs[i];
	}
	return NULL;
}

/* The first version whose core supports this option of postgres_fdw; 0: all. */
static int
needed_version(const char *name)
{
	return strcmp(name, "use_scram_passthrough") == 0 ? 18 :
		strcmp(name, "gssdelegation") == 0 ? 16 :
		0;
}

/*
 * Raises the error for an option that is not known at this place. The hint names the option that
 * was probably meant, the place where it belongs, or all valid options.
 */
static void
complain_unknown(const char *name, int where)
{
	StringInfoData valid;
	const char *best = NULL;
	int			best_distance = MAX_TYPO_DISTANCE + 1;
	int			name_len = strlen(name);
	const char *elsewhere = NULL;

	initStringInfo(&valid);
	for (int i = 0; i < option_count; i++)
	{
		const char *candidate = option_defs[i].name;
		int			distance;

		if (!(option_defs[i].where & where))
			continue;
		appendStringInfo(&valid, "%s%s", valid.len > 0 ? ", " : "", candidate);

		if (name_len > 255)
			continue;			/* too long for the distance function */
		distance = varstr_levenshtein_less_equal(name, name_len, candidate, strlen(candidate),
												 1, 1, 1, MAX_TYPO_DISTANCE, true);
		/* A distance of more than half the word is another word, not a typo. */
		if (distance < best_distance && distance * 2 <= name_len)
		{
			best = candidate;
			best_distance = distance;
		}
	}

	/* A valid name in the wrong place is not a typo. */
	if (find_option(name, ON_SERVER))
		elsewhere = "server";
	else if (find_option(name, ON_TABLE))
		elsewhere = "foreign table";
	else if (find_option(name, ON_USER))
		elsewhere = "user mapping";
	else if (find_option(name, ON_COLUMN))
		elsewhere = "column of a foreign table";

	ereport(ERROR,
			(errcode(ERRCODE_FDW_INVALID_OPTION_NAME), errmsg("invalid option \"%s\"", name),
			 needed_version(name) > PG_MAJORVERSION_NUM ?
			 errdetail("The option needs PostgreSQL %d; this server is PostgreSQL %d.",
					   needed_version(name), PG_MAJORVERSION_NUM) :
			 0,
			 elsewhere != NULL && valid.len == 0 ?
			 errhint("This is an option of a %s. There are no valid options in this context.",
					 elsewhere) :
			 elsewhere != NULL ?
			 errhint("This is an option of a %s. Valid options in this context are: %s", elsewhere,
					 valid.data) :
			 valid.len == 0 ?
			 errhint("There are no valid options in this context.") :
			 best == NULL ?
			 errhint("Valid options in this context are: %s", valid.data) :
			 errhint("Perhaps you meant the option \"%s\". Valid options in this context are: %s",
					 best, valid.data)));
}

/* Sizes are written like the settings of the same names: a bare number means kilobytes. */
static int
parse_bytes(const char *value, const OptionDef *opt)
{
	const char *hint = NULL;
	int			kilobytes;

	if (!parse_int(value, &kilobytes, GUC_UNIT_KB, &hint))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid value for option \"%s\": %s", opt->name, value),
				 hint ? errhint("%s", _(hint)) : 0));
	if (kilobytes < opt->low / 1024 || kilobytes > opt->high / 1024)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s is outside the valid range for option \"%s\"", value, opt->name),
				 errdetail("Valid values are between %dkB and %dkB.",
						   opt->low / 1024, opt->high / 1024),
				 errhint("A number without a unit means kilobytes.")));
	return kilobytes * 1024;
}

/*
 * Parses a comma separated list of extension names to OIDs; names that are not installed are left
 * out, with a WARNING if warn_on_missing.
 */
static List *
extension_list(const char *names, bool warn_on_missing)
{
	List	   *extensions = NIL;
	List	   *identifiers;
	ListCell   *lc;

	/* SplitIdentifierString scribbles on its input, and the list points into it */
	if (!SplitIdentifierString(pstrdup(names), ',', &identifiers))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("parameter \"%s\" must be a list of extension names", "extensions")));

	foreach(lc, identifiers)
	{
		const char *name = (const char *) lfirst(lc);
		Oid			extension = get_extension_oid(name, true);

		if (OidIsValid(extension))
			extensions = list_append_unique_oid(extensions, extension);
		else if (warn_on_missing)
			ereport(WARNING,
					(errcode(ERRCODE_UNDEFINED_OBJECT),
					 errmsg("extension \"%s\" is not installed", name)));
	}
	list_free(identifiers);
	return extensions;
}

/* Accepts the same values as defGetBoolean(), and adds a hint to its error. */
static void
check_boolean(const OptionDef *opt, DefElem *def)
{
	static const char *const words[] = {"true", "false", "on", "off", "1", "0"};
	char	   *value = defGetString(def);

	for (int i = 0; i < lengthof(words); i++)
	{
		if (pg_strcasecmp(value, words[i]) == 0)
			return;
	}
	ereport(ERROR,
			(errcode(ERRCODE_SYNTAX_ERROR),
			 errmsg("%s requires a Boolean value", opt->name),
			 errhint("Valid values are \"true\", \"on\", \"1\", \"false\", \"off\" and \"0\".")));
}

static void
check_cost(const OptionDef *opt, const char *value)
{
	const char *hint = NULL;
	double		cost;

	if (!parse_real(value, &cost, 0, &hint))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid value for floating point option \"%s\": %s", opt->name, value),
				 hint ? errhint("%s", _(hint)) :
				 errhint("It must be a number greater than or equal to zero, without a unit.")));
	if (isnan(cost) || cost < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"%s\" must be a floating point value greater than or equal to zero",
						opt->name)));
}

/*
 * Checks an integer option against its limits, with postgres_fdw's messages for options that it
 * has, too.
 */
static void
check_count(const OptionDef *opt, const char *value)
{
	const char *hint = NULL;
	int			count;

	if (!parse_int(value, &count, 0, &hint))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid value for integer option \"%s\": %s", opt->name, value),
				 hint ? errhint("%s", _(hint)) :
				 errhint("It must be an integer between %d and %d, without a unit.",
						 opt->low, opt->high)));
	if (opt->high == INT_MAX && count < opt->low)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"%s\" must be an integer value greater than zero", opt->name)));
	if (count < opt->low || count > opt->high)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%d is outside the valid range for option \"%s\"", count, opt->name),
				 errdetail("Valid values are between %d and %d.", opt->low, opt->high)));
}

static void
check_sampling(const OptionDef *opt, const char *value)
{
	static const char *const words[] = {"off", "auto", "random", "system", "bernoulli", "import"};

	for (int i = 0; i < lengthof(words); i++)
	{
		if (strcmp(value, words[i]) == 0)
			return;
	}
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid value for string option \"%s\": %s", opt->name, value),
			 errhint("Valid values are \"off\", \"auto\", \"random\", \"system\", "
					 "\"bernoulli\" and \"import\".")));
}

static void
check_encryption(const OptionDef *opt, const char *value)
{
	if (strcmp(value, "auto") != 0 && strcmp(value, "require") != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid value for string option \"%s\": %s", opt->name, value),
				 errhint("Valid values are \"auto\" and \"require\".")));
}

static void
check_columns(const OptionDef *opt, const char *value)
{
	List	   *names;

	if (!SplitIdentifierString(pstrdup(value), ',', &names) || names == NIL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("option \"%s\" must be a list of names of columns", opt->name)));
}

/* Also rejects "OPTIONS (name)" without a value, which the grammar does not allow anyway. */
static void
check_value(const OptionDef *opt, DefElem *def)
{
	switch (opt->kind)
	{
		case KIND_TEXT:
			break;
		case KIND_NAME:
			if (defGetString(def)[0] == '\0')
				ereport(ERROR,
						(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						 errmsg("option \"%s\" must not be empty", opt->name)));
			break;
		case KIND_BOOL:
			check_boolean(opt, def);
			break;
		case KIND_COST:
			check_cost(opt, defGetString(def));
			break;
		case KIND_COUNT:
			check_count(opt, defGetString(def));
			break;
		case KIND_BYTES:
			(void) parse_bytes(defGetString(def), opt);
			break;
		case KIND_SAMPLING:
			check_sampling(opt, defGetString(def));
			break;
		case KIND_ENCRYPTION:
			check_encryption(opt, defGetString(def));
			break;
		case KIND_EXTENSIONS:
			(void) extension_list(defGetString(def), true);
			break;
		case KIND_SERVERS:
			(void) rf_node_names(opt->name, defGetString(def));
			break;
		case KIND_COLUMNS:
			check_columns(opt, defGetString(def));
			break;
	}
}

/* Applies one list of options over another; called for the server first, then for the table. */
static void
apply_options(List *options, RfTableOptions *opts)
{
	ListCell   *lc;

	foreach(lc, options)
	{
		DefElem    *def = lfirst_node(DefElem, lc);
		const char *name = def->defname;

		if (strcmp(name, "schema_name") == 0)
			opts->schema_name = defGetString(def);
		else if (strcmp(name, "table_name") == 0)
			opts->table_name = defGetString(def);
		else if (strcmp(name, "use_remote_estimate") == 0)
			opts->use_remote_estimate = defGetBoolean(def);
		else if (strcmp(name, "updatable") == 0)
			opts->updatable = defGetBoolean(def);
		else if (strcmp(name, "truncatable") == 0)
			opts->truncatable = defGetBoolean(def);
		else if (strcmp(name, "batch_size") == 0)
			(void) parse_int(defGetString(def), &opts->batch_size, 0, NULL);
		else if (strcmp(name, "async_capable") == 0)
			opts->fetch.async_capable = defGetBoolean(def);
		else if (strcmp(name, "parallel_scan") == 0)
			opts->parallel_scan = defGetBoolean(def);
		else if (strcmp(name, "fdw_startup_cost") == 0)
			(void) parse_real(defGetString(def), &opts->fdw_startup_cost, 0, NULL);
		else if (strcmp(name, "fdw_tuple_cost") == 0)
			(void) parse_real(defGetString(def), &opts->fdw_tuple_cost, 0, NULL);
		else if (strcmp(name, "analyze_sampling") == 0)
			opts->analyze_sampling = defGetString(def);
		else if (strcmp(name, "extensions") == 0)
			opts->extensions = extension_list(defGetString(def), false);
		else if (strcmp(name, "fetch_size") == 0)
			(void) parse_int(defGetString(def), &opts->fetch.fetch_size, 0, NULL);
		else if (strcmp(name, "receive_buffers") == 0)
			(void) parse_int(defGetString(def), &opts->fetch.receive_buffers, 0, NULL);
		else if (strcmp(name, "receive_buffer_size") == 0)
			opts->fetch.receive_buffer_size = parse_bytes(defGetString(def),
														  find_option(name, ON_TABLE));
		else if (strcmp(name, "inline_limit") == 0)
			opts->fetch.inline_limit = parse_bytes(defGetString(def),
												   find_option(name, ON_TABLE));
		else if (strcmp(name, "read_in_place") == 0)
			opts->fetch.read_in_place = defGetBoolean(def);
		else if (strcmp(name, "accept_pages") == 0)
			opts->fetch.accept_pages = defGetBoolean(def);
		else if (strcmp(name, "trusted") == 0)
			opts->fetch.trusted = defGetBoolean(def);
	}
}

void
rf_table_options(ForeignTable *table, ForeignServer *server, RfTableOptions *opts)
{
	memset(opts, 0, sizeof(*opts));
	load_options();
	opts->fdw_startup_cost = -1;
	opts->fdw_tuple_cost = -1;
	opts->analyze_sampling = "auto";
	opts->updatable = true;
	opts->truncatable = true;
	opts->fetch.receive_buffers = -1;
	opts->fetch.receive_buffer_size = -1;
	opts->fetch.inline_limit = -1;
	opts->fetch.read_in_place = true;
	opts->fetch.accept_pages = true;
	opts->fetch.async_capable = -1;
	opts->parallel_scan = -1;

	apply_options(server->options, opts);
	apply_options(table->options, opts);

	/* Without these options a foreign table maps to the remote table of its own name. */
	if (opts->schema_name == NULL)
		opts->schema_name = get_namespace_name(get_rel_namespace(table->relid));
	if (opts->table_name == NULL)
		opts->table_name = get_rel_name(table->relid);
}

const char *
rf_column_name(Oid relid, AttrNumber attno)
{
	ListCell   *lc;

	foreach(lc, GetForeignColumnOptions(relid, attno))
	{
		DefElem    *def = lfirst_node(DefElem, lc);

		if (strcmp(def->defname, "column_name") == 0)
			return defGetString(def);
	}
	return get_attname(relid, attno, false);
}

List *
rf_all_columns(Relation rel)
{
	TupleDesc	desc = RelationGetDescr(rel);
	List	   *columns = NIL;

	for (int i = 0; i < desc->natts; i++)
		if (!TupleDescAttr(desc, i)->attisdropped)
			columns = lappend_int(columns, i + 1);
	return columns;
}
