/*
 * catalog.h
 *		The coordinator's knowledge of remote tables: ANALYZE, IMPORT FOREIGN SCHEMA, statistics,
 *		indexes.
 */
#ifndef RF_CATALOG_H
#define RF_CATALOG_H

#include "postgres.h"

#include "catalog/objectaccess.h"
#include "foreign/fdwapi.h"
#include "tcop/utility.h"

#include "fdw/deparse/statement.h"

struct RfSession;

/*
 * Indexes of the data node's table, as ANALYZE found them, on the first node: the other nodes have
 * the same tables.
 */
typedef struct RfIndex
{
	int			column_count;
	AttrNumber *columns;		/* of the foreign table, leading, up to an unknown one */
	bool		unique;
	double		correlation;	/* of the orders of the first column and of the table */
} RfIndex;

extern List *rf_remote_indexes(Oid relid);

/*
 * Stores the indexes of the data node's table in the catalog, and for a table on several nodes the
 * fraction of its rows on each: node_rows, the number of rows on each of `nodes` nodes, or NULL.
 */
extern void rf_import_indexes(Relation relation, struct RfSession *session,
							  const RfTableOptions *opts, const double *node_rows, int nodes);

/*
 * The fraction of a table's rows on the node with most of them, as ANALYZE found it for a server
 * with this number of nodes; 0: the rows are evenly distributed, or nothing is known.
 */
extern double rf_largest_part(Oid relid, int nodes);

typedef struct RfProbeCost
{
	Cost		cost;			/* of one probe */
	double		tuples;			/* found by it, before other conditions */
} RfProbeCost;

/*
 * The cost for a data node to find rows of the table by an index: by these clauses (RestrictInfos)
 * of a join for each of `count` rows of its other side, sorted in the index's order or not, or,
 * without clauses, once by the table's own conditions. part: the fraction of the matches of one row
 * that is on the probing node. False: no index is usable.
 */
extern bool rf_probe_cost(PlannerInfo *root, RfRelInfo *info, List *clauses, double count,
						  double part, bool sorted, RfProbeCost *result);

/*
 * Returns the column of the foreign table for this column of the data node; 0 if there is no such
 * column.
 */
extern AttrNumber rf_find_column(Relation relation, const char *remote_name);

/*
 * Writes pg_statistic of a foreign table from the results of the data node's ANALYZE; returns the
 * number of columns with statistics. Takes effect in the next command.
 */
extern int	rf_import_statistics(Relation relation, struct RfSession *session,
								 const RfTableOptions *opts);

/*
 * Why the caller must not have this code run (trust.c); NULL: there is no reason. The texts are
 * palloc'd and name function, type or operator class, with the owner.
 *
 * rf_owner_problem: a function that is run, for any purpose. rf_call_problem: a function that an
 * expression calls, with arguments of these types (NIL: not known). rf_type_problem: values of a
 * type, which have checks of domains and functions of base types and ranges run; enumerations and
 * rows have no code of their own, unless casts of their owners count, too (all_owners).
 * rf_schema_problem: the schema of a qualified name, if the name can come to mean another object.
 */
extern const char *rf_owner_problem(Oid funcid);
extern const char *rf_call_problem(Oid funcid, List *types);
extern const char *rf_type_problem(Oid typid, bool all_owners);
extern const char *rf_opclass_problem(Oid opcid);
extern const char *rf_schema_problem(List *names);

/* key_types.c: is it a foreign table of this wrapper? */
extern bool rf_is_own_table(Oid relid);

/*
 * Called by the hook of object accesses: ERROR if it changes which columns of which types the row
 * type of a relation has, and a distribution key has values of that type in it. attnum 0: the
 * relation itself, no error.
 */
extern void rf_check_key_types(ObjectAccessType access, Oid relid, AttrNumber attnum);

/* ERROR if a distribution key has values of this enumeration, which are hashed by their labels. */
extern void rf_check_key_labels(Oid type);

/*
 * DDL on foreign tables reaches the nodes (ddl.c). begin: a command is about to run, which may
 * raise an error. end: it has ended, with an error or not. propagate: it succeeded.
 */
typedef struct RfDdlCommand
{
	MemoryContext context;		/* of the lists' contents */
	bool		watched;		/* it may drop or alter foreign tables */
	List	   *altered;
	List	   *dropped;
	List	   *sent;			/* OIDs of tables that are dropped on the nodes already */
	List	   *rights;			/* tables whose owner or privileges it may change */
	List	   *checks;			/* checks that it dropped with something else */
	List	   *functions;		/* functions that it changed or dropped, as they were */
	List	   *types;			/* OIDs of types that the command changed */
	StringInfoData cascade;		/* columns that ALTER drops with CASCADE: elements of an array */
	StringInfoData usings;		/* expressions of USING by columns: members of an object (JSON) */
	struct RfDdlCommand *outer; /* the watched command around it */
	const TruncateStmt *truncating; /* the TRUNCATE around it */
} RfDdlCommand;

extern void rf_ddl_begin(RfDdlCommand *command, Node *statement, ProcessUtilityContext context);
extern void rf_ddl_end(const RfDdlCommand *command);
extern void rf_ddl_propagate(RfDdlCommand *command, Node *statement);

/*
 * Owners and privileges (ddl_rights.c). begin: notes the tables whose rights the command may
 * change; false: it changes no rights. lose: the same for the privileges of roles that DROP OWNED
 * names. propagate: the command succeeded.
 */
extern bool rf_rights_begin(RfDdlCommand *command, Node *statement);
extern void rf_rights_lose(RfDdlCommand *command, List *roles);
extern void rf_rights_propagate(RfDdlCommand *command, Node *statement);

/*
 * Functions and types that the nodes have, too (ddl_functions.c). rf_note_changed() remembers an
 * object that the command changes or drops; it ignores an object that the command creates.
 * rf_functions_propagate() sends the remembered functions to the nodes. rf_types_tell() raises a
 * NOTICE for each remembered type, because the type has changed on the coordinator only.
 */
extern bool rf_changes_object(Node *statement);
extern void rf_note_changed(RfDdlCommand *command, ObjectAccessType access, Oid class_id,
							Oid object_id);
extern void rf_functions_propagate(const RfDdlCommand *command);
extern void rf_types_tell(const RfDdlCommand *command);

/* Other databases have no distributed tables, and no functions to ask. */
extern bool rf_is_installed(void);

/* What the hook of object accesses saw: a table, or a column of it, that such a command drops. */
extern void rf_ddl_object_access(ObjectAccessType access, Oid class_id, Oid object_id, int sub_id);

/* Is it a foreign table whose commands reach the nodes (option propagate_ddl; propagated.c)? */
extern bool rf_is_propagated(Oid relid);
extern bool rf_names_propagated(RangeVar *name);

/*
 * Runs a query that returns one value with a role's rights, and with search_path = pg_catalog,
 * pg_temp. `count` parameters follow, each as its type (Oid) and its value (Datum). The value is in
 * the current memory context; 0: it was NULL.
 */
extern Datum rf_ask_as(Oid role, const char *sql, int count,...);

/*
 * The roles that DROP or REASSIGN OWNED names; NIL: core is going to refuse it, as the caller lacks
 * the rights of one of them.
 */
extern List *rf_owning_roles(List *names);

/* Appends an element to an array of JSON (value NULL), or a member to an object. */
extern void rf_add_json(StringInfo json, const char *name, const char *value);

/*
 * Core refuses some commands for distributed tables. Returns the commands that are run in place of
 * such a command, in this order and in the current memory context (ddl_steps.c); NIL if core can
 * run the command itself.
 */
extern List *rf_ddl_steps(const PlannedStmt *planned);

/* ---------- tables of the nodes (shadow.c) ---------- */

/* The quoted name that a foreign table has on the nodes. */
extern char *rf_remote_table(Oid relid);

/* Runs a command on the nodes of a table, with a role's rights, or with those of its owner. */
extern void rf_run_there_as(Oid role, Oid relid, const char *command);
extern void rf_run_there(Oid relid, const char *command);

/* No other session alters it from here on. ERROR if it is not the caller's. */
extern void rf_lock_own(Oid relid);

/* ERROR with a hint to run the command `remote`, with %s for the table's name there. */
extern void rf_refuse_there(Oid relid, const char *what, const char *detail, const char *remote);

/* ERROR of that kind if columns have other names there: definitions name them as they are here. */
extern void rf_check_column_names(Oid relid, const char *what, const char *remote);

typedef struct RfShadowAnswer
{
	char	   *definition;		/* what follows the table's name, see rf_defined_by */
	char	   *events;			/* of a trigger: what is before the table's name, after its own */
	char	   *problem;		/* why it would be unique on each node only, or NULL */
	Datum		objects;		/* jsonb: what it needs on the nodes */
} RfShadowAnswer;

/*
 * What core makes of a CREATE INDEX, ALTER TABLE ... ADD of one constraint, or CREATE TRIGGER.
 * ERROR if core refuses it.
 */
extern RfShadowAnswer rf_defined_by(Oid relid, Node *statement, const char *source);

/* Functions and types that it needs, to the nodes: before it. */
extern void rf_send_needed(Oid relid, const RfShadowAnswer *what);

/*
 * Row triggers run on the nodes (ddl_triggers.c). False: core is to run the command. ERROR if the
 * nodes refuse it.
 */
extern bool rf_create_trigger(CreateTrigStmt * statement, const char *source);
extern bool rf_drop_trigger(DropStmt *statement);
extern bool rf_rename_trigger(RenameStmt *statement);

/* Is it a part of ALTER TABLE that switches triggers which only the nodes have? */
extern bool rf_switches_triggers_there(Oid relid, const AlterTableCmd *part);
extern void rf_switch_triggers(Oid relid, const AlterTableCmd *part);

/* Is it a part of ALTER TABLE for the nodes, or a foreign key to be noted until it is? */
extern bool rf_ddl_is_for_nodes(Oid relid, const AlterTableCmd *part);

/*
 * Runs a command that only the nodes can run for a distributed table (ddl_nodes.c), with the
 * rights of the table's owner. False: core is to run it. ERROR if the nodes refuse it.
 */
extern bool rf_ddl_on_nodes(PlannedStmt *planned, const char *source,
							ProcessUtilityContext context);

/* Does a foreign key of this name wait until both of its tables are distributed? */
extern bool rf_has_noted_key(Oid relid, const char *name);

/* The constraint that tables of a node have, on the columns of their key. */
#define RF_PLACEMENT_CONSTRAINT	"rdma_placement"

/* Returns true if the running TRUNCATE says ONLY of this table. */
extern bool rf_truncates_only(Oid relid);

extern bool rdmaAnalyzeForeignTable(Relation relation, AcquireSampleRowsFunc *func,
									BlockNumber *totalpages);

extern List *rdmaImportForeignSchema(ImportForeignSchemaStmt *stmt, Oid serverOid);

#endif
