/*
 * querybuild.h
 * 		Shared by the files that write the text of a remote statement: querybuild.c,
 * 		querybuild_expr.c, from_items.c for items that are tables to the rest of it, exchange_text.c
 * 		for rows that move between data nodes, and batch_statement.c for a statement that runs for
 * 		many values.
 */
#ifndef RDMA_FDW_QUERYBUILD_H
#define RDMA_FDW_QUERYBUILD_H

#include "postgres.h"

#include "lib/stringinfo.h"

#include "statement.h"


/*
 * One foreign table of the statement, or a FROM item that replaces some of them: the result of
 * rdma_internal.exchange(), or a sub-select.
 */
typedef struct TableRef
{
	Index		relid;			/* its range table index in the query; 0: an item */
	PlannerInfo *root;			/* the query or sub-select; NULL for an item of a table that was
								 * printed before */
	Oid			foreigntableid; /* InvalidOid: columns are named c1, c2, ... */
	char	   *name;			/* in the statement */
	List	   *colnames;		/* remote column names so far, String */

	/* items */
	RfRelInfo  *derived;		/* whose rows they are; NULL: a table */
	int			exchange;		/* its number, if they move */
	List	   *exprs;			/* the columns' expressions inside, in terms of the query here */
	char	   *item;			/* its text in FROM */
} TableRef;

/* The node that a statement is for, where it names partitions. */
typedef struct NodeText
{
	int			place;
	bool		own;			/* the text depends on the node */
} NodeText;

typedef struct BuildContext
{
	PlannerInfo *root;			/* of the query, or of a sub-select */
	Relids		relids;			/* the tables of the statement; other Vars are parameters */
	bool		qualified;		/* columns need their relation's name */
	bool		for_estimate;
	bool		items;			/* there are items among the tables */
	RfRelInfo  *at;				/* the join whose ON is printed, or the item that is all of FROM */
	NodeText   *node;			/* shared with all contexts inside; NULL: there are no partitions */
	bool		typed;			/* columns must have the types that they have here */
	bool		assigned;		/* INSERT assigns the columns of the outermost SELECT */
	bool		writes;			/* parameters are cast: the node is not told their types */
	bool		batched;		/* the statement runs for many values of its parameters, see
								 * rf_batch_statement() */
	bool		unbatched;		/* but cannot */
	struct BuildContext *outer; /* of a sub-select: the one around it, keeps the rest */
	SubPlan    *subplan;		/* of a sub-select */
	List	   *keys;			/* a condition on keys above the joins in FROM */
	List	   *subselects;		/* texts of those in the expression that is being printed */
	List	   *tables;			/* TableRefs; the made-up range table */
	List	   *flow_rels;		/* RelOptInfos whose rows, which are here, come by flow; exchange i
								 * + 1 is of member i. NIL: they come as arrays */
	List	   *exchanges;		/* RfPlannedExchanges so far, inner exchanges first */
	List	   *readable;		/* exchanges that other places of the statement may read, too: see
								 * exchange_text.c */
	List	   *moves;			/* the moved rows of all of them, of all contexts, TableRefs */
	List	   *leaving;		/* those to compute nodes: FROM item and quoted query, Strings */
	List	   *params;			/* expressions whose values become $1, $2, ... */
	List	   *param_types;
	Bitmapset  *assigned_params;	/* numbers of parameters without a type here: the column that
									 * they are assigned to gives it */
} BuildContext;

/*
 * querybuild_expr.c: prints an expression; the name of a column on the data node, and of a table in
 * the statement; the foreign table of a relation, or InvalidOid for a SELECT
 */
extern char *rf_print_in_statement(Node *expr, BuildContext *cxt);

/*
 * Prints the value that UPDATE assigns to a column. A value from here alone becomes a parameter
 * without a type: the data node's column, which may be an enum that is text here, gives it its own.
 */
extern char *rf_print_assigned(Node *expr, BuildContext *cxt);

/* Such a parameter for a value that does not depend on the rows. */
extern char *rf_assigned_parameter(Node *value, BuildContext *cxt);
extern const char *rf_remote_column(Oid relid, AttrNumber attno);
extern char *rf_statement_table_name(BuildContext *cxt, Index relid);
extern Oid	rf_statement_table(PlannerInfo *root, Index relid);

/* querybuild.c: appends the statement of a relation, or one with these columns instead */
extern void rf_append_statement(StringInfo buf, BuildContext *cxt, RfRelInfo *info, List *columns,
								List *conditions, List *pathkeys, bool limit);

/*
 * The columns of a relation's statement, as expressions; fills retrieved_attrs (RfScanPlan.attrs),
 * in the same order.
 */
extern List *rf_statement_columns(PlannerInfo *root, RelOptInfo *rel, List **retrieved_attrs);

/*
 * from_items.c: adds all items that the statement reads to its tables, before any reference to
 * their columns is printed; the text of one of them in FROM, or NULL; the item that supplies the
 * columns of a relation, or NULL; and the number of a column of an item, 0 if the item lacks it
 */
extern void rf_add_items(BuildContext *cxt, RfRelInfo *info);
extern const char *rf_from_item(BuildContext *cxt, RfRelInfo *info);
extern TableRef *rf_item_of(BuildContext *cxt, Index relid);
extern AttrNumber rf_item_column(TableRef *table, Expr *column);

/*
 * A sub-select is printed for each place where the statement has it, as for a column and in ORDER
 * BY. The next one has items of its own.
 */
extern void rf_forget_items(BuildContext *cxt, PlannerInfo *root);

/* Opens a context for a statement inside this one; the caller closes it when that is printed. */
extern BuildContext rf_open_inner(BuildContext *cxt, PlannerInfo *root, Relids relids);
extern void rf_close_inner(BuildContext *cxt, BuildContext *inner);

/* Sub-selects in expressions share tables and parameters with the statement around them. */
static inline BuildContext *
rf_whole_context(BuildContext *cxt)
{
	while (cxt->outer != NULL)
		cxt = cxt->outer;
	return cxt;
}

/* exchange_text.c: adds the moved rows to the tables of the statement */
extern void rf_add_exchange(BuildContext *cxt, RfRelInfo *move);

/* Makes an item with its columns the exchange of its rows, which are here. */
extern void rf_set_flow_item(BuildContext *cxt, TableRef *table);

/* The statements of nodes that have only one of the roles in it, see RfComputePlan. */
extern char *rf_sending_statement(List *leaving);
extern char *rf_computing_statement(const char *sql, List *leaving);

/* select.c: the text of a SELECT, or set operation */
extern void rf_append_select(StringInfo buf, BuildContext *cxt, RfSelect *select);

#endif							/* RDMA_FDW_QUERYBUILD_H */
