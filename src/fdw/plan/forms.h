/*
 * forms.h
 * 	Shared by the files that give a statement another form, which data nodes can compute.
 */
#ifndef RDMA_FDW_FORMS_H
#define RDMA_FDW_FORMS_H

#include "nodes/parsenodes.h"
#include "nodes/pathnodes.h"
#include "nodes/primnodes.h"

/* An equality that correlates. */
typedef struct RfCorrelation
{
	OpExpr	   *op;				/* as it was in the sub-select */
	int			inside;			/* which of its arguments is the sub-select's, 0 or 1 */
	Expr	   *outer;			/* the second, in terms of the query around it */
} RfCorrelation;

/* Where the rewriting of a statement is. */
typedef struct RfRewrite
{
	int			depth;			/* of the query in the statement */
	bool		reduce;			/* read only rows that have a partner */
	Query	   *query;			/* whose sub-selects are dealt with */
	List	   *conditions;		/* that all of its rows fulfil, before that; NIL in ON */
	bool		inner_joins;	/* it has no other conditions */
	JoinExpr   *join;			/* in the ON of this; NULL: elsewhere */
	bool		grouped;		/* above the grouping */
	List	   *group_values;	/* Vars to group by, too */
	int			joined;			/* sub-selects that have become joins, or can */
	int			reduced;		/* the reduced ones among them */
} RfRewrite;

/* decorrelate.c */

/*
 * A copy of the statement without the sub-selects that can become joins, or, if `reduce`, that and
 * with sub-selects that read only rows with a partner. *joined, *reduced: their numbers. *joined,
 * *reduced: how many there are.
 */
extern Query *rf_decorrelated(const Query *statement, bool reduce, int *joined, int *reduced);

/* grouping_sets.c */

/*
 * Groups in two steps where the statement has grouping sets, in place; returns how many queries do.
 */
extern int	rf_group_in_steps(Query *statement);

/* row_names.c */

/*
 * ERROR where a statement, as it comes to the planner, takes a ctid of a table on several nodes for
 * a row's name. Notes where it says ONLY, for rf_says_only (plan.h).
 */
extern void rf_check_row_names(Query *query);

/* query_parts.c */

/*
 * Returns true for a server of this wrapper with nodes. An option "nodes" of another wrapper means
 * something else.
 */
extern bool rf_has_nodes(Oid serverid);

/* Returns true if there is a table of a server with nodes in it. */
extern bool rf_reads_nodes(Node *node);

/* Every table in it is one of the same server with nodes, which goes to *server: false. */
extern bool rf_reads_others(Node *node, Oid *server);

/*
 * Returns true if it refers to a query that is more than `levels` above it. It is in one of this
 * depth.
 */
extern bool rf_looks_beyond(Node *node, int levels, int depth);

extern bool rf_has_sublinks(Node *node);
extern void rf_collect_conjuncts(Node *quals, List **conjuncts);
extern Node *rf_and_of(List *conjuncts);

/* The NULL test of a value that is not a row. */
extern Node *rf_null_test(Node *arg, NullTestType type);

/* The entry of a sub-select in FROM. */
extern RangeTblEntry *rf_subselect_relation(Query *sub, const char *name);

/* The numbers of all relations and joins in a part of FROM. */
extern Relids rf_relations_of(Node *part);

/* decorrelate_select.c */

/*
 * The replacement of a sub-select in an expression: its value from a row of the grouped sub-select
 * that has been joined to the query. EXISTS, and IN where `null_is_false`, are as good as
 * aggregates. NULL: it stays.
 */
extern Node *rf_replace_sublink(RfRewrite *cxt, SubLink *sublink, bool null_is_false);

/*
 * EXISTS or IN, of which the planner makes a semi or anti join, as EXISTS with a sub-select that
 * reads only rows with a partner; NULL: nothing says which these are, or nothing is to be reduced.
 */
extern Node *rf_reduce_exists(RfRewrite *cxt, SubLink *sublink);

/* decorrelate_exists.c */

/*
 * The rows that EXISTS or IN asks for, as a query without columns, a copy; NULL: it is more than
 * tables, joins and conditions. The comparison of IN is one of its conditions.
 */
extern Query *rf_existence(SubLink *sublink);

/* EXISTS (sub) */
extern Node *rf_exists_of(Query *sub);

/*
 * A condition that is evaluated once, instead of EXISTS; NULL: it refers to the query around it, or
 * to other tables.
 */
extern Node *rf_exists_once(SubLink *sublink);

/* EXISTS instead of IN, where NULL is as good as false; NULL: not possible. */
extern Node *rf_exists_for_in(SubLink *sublink);

/* EXISTS instead of NOT IN, where NULL is as good as false; NULL: not possible. */
extern Node *rf_exists_for_not_in(SubLink *sublink);

/*
 * A sub-select without aggregates that gives a value or an array, as one with an aggregate; NULL:
 * not possible. A value is an error where there is more than one row, without LIMIT 1.
 */
extern Query *rf_as_aggregate(SubLink *sublink);

/* decorrelate_rows.c */

/* EXISTS (SELECT FROM tables WHERE correlations AND conditions); NULL: it would keep all rows. */
extern Node *rf_partner_exists(RfRewrite *cxt, List *correlations, Oid server);

/*
 * Adds the rows that the query around asks for to FROM of a sub-select, and the clauses, which
 * correlate in any way, to its conditions; *correlations become equalities with these rows. False,
 * and nothing is changed: not possible.
 */
extern bool rf_request_rows(RfRewrite *cxt, Query *sub, List *clauses, Oid server,
							List **correlations);

#endif
