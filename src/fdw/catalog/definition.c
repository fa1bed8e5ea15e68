/*
 * definition.c - runs a definition that another server describes, if it defines a part of one table
 * and has no code run that the caller does not trust (trust.c).
 *
 * Tables travel between servers with what belongs to them: columns, partitions, constraints,
 * indexes, statistics, comments. Names, options and values may be anything. Expressions may not:
 * the role that makes an index has its expressions evaluated with its rights. So a command from
 * elsewhere is a text that is parsed first: the tree has to be one of the commands below, with no
 * part that they do not need, on the expected table or a partition of it.
 *
 * Its code is checked twice. First the names in it, since the analysis of an expression already
 * converts its constants, and so evaluates checks of domains in arrays and rows: all functions and
 * operators that a name may mean, all types, all columns. Then the expressions as they were
 * analyzed, with implicit casts and the functions that were chosen.
 *
 * When the command runs, its names are looked up once more. Meanwhile no other role can have them
 * mean another object: the schemas of functions, operators and types in expressions are closed to
 * other roles, and so are casts, since all types in an expression belong to trusted roles
 * (Definition.strict). Existing tables are locked. The types of new columns are compared when the
 * table is there.
 */
#include "postgres.h"

#include "catalog/dependency.h"
#include "catalog/index.h"
#include "catalog/namespace.h"
#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "executor/spi.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/parsenodes.h"
#include "parser/analyze.h"
#include "parser/parse_func.h"
#include "parser/parse_node.h"
#include "parser/parse_type.h"
#include "parser/parser.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/varlena.h"

#include "rdma_fdw/compat.h"

#include "catalog.h"

/* A key of an index or of a partitioned table, whose operator class has code, too. */
typedef struct Key
{
	int			place;			/* in Definition.exprs */
	List	   *opclass;
	const char *method;
	bool		optional;		/* the type need not have an operator class */
} Key;

typedef struct Definition
{
	const char *command;
	RangeVar   *root;			/* the table that it may define, with its partitions */
	Node	   *from;			/* in FROM: what the expressions' columns belong to */
	Oid			relid;			/* the same, if it exists */
	List	   *exprs;			/* raw expressions */
	List	   *keys;			/* of Key * */
	List	   *types;			/* of the columns of a new table */
	bool		strict;			/* its names have to mean the same a moment later */
	const char *problem;		/* why it is not run; NULL: no reason */
} Definition;

/* The first reason is kept; NULL is no reason. */
static void
refuse(Definition *definition, const char *problem)
{
	if (definition->problem == NULL)
		definition->problem = problem;
}

/* ---------- expressions: names ---------- */

static const char *
candidates_problem(FuncCandidateList candidate, bool operators)
{
	for (; candidate != NULL; candidate = candidate->next)
	{
		Oid			funcid = operators ? get_opcode(candidate->oid) : candidate->oid;
		const char *problem;

		/* which of the built-in functions it is becomes known by analysis */
		if (funcid < FirstNormalObjectId)
			continue;
		problem = rf_call_problem(funcid, NIL);
		if (problem != NULL)
			return problem;
	}
	return NULL;
}

static const char *
function_names_problem(List *names)
{
	FuncCandidateList candidates = rf_function_candidates(names);

	return candidates_problem(candidates, false);
}

static const char *
operator_names_problem(List *names)
{
	const char *problem = candidates_problem(rf_operator_candidates(names, 'b'), true);

	if (problem == NULL)
		problem = candidates_problem(rf_operator_candidates(names, 'l'), true);
	return problem;
}

/* The types of the columns of an existing table that a name refers to; a whole row: of all. */
static const char *
column_problem(Oid relid, ColumnRef *ref, bool all_owners)
{
	Node	   *last = llast(ref->fields);
	AttrNumber	attnum = IsA(last, String) ? get_attnum(relid, strVal(last)) : InvalidAttrNumber;

	return rf_type_problem(attnum != InvalidAttrNumber ? get_atttype(relid, attnum) :
						   get_rel_type_id(relid), all_owners);
}

/*
 * Before the command is analyzed, names must lead to objects that may be used; queries and
 * parameters are refused. Returns true, and sets the problem, at the first name that does not.
 */
static bool
check_names(Node *node, Definition *definition)
{
	List	   *names = NIL;
	Oid			typid;

	if (node == NULL || definition->problem != NULL)
		return definition->problem != NULL;
	switch (nodeTag(node))
	{
		case T_SubLink:
		case T_SelectStmt:
			definition->problem = "it contains a query";
			return true;
		case T_ParamRef:
			definition->problem = "it contains a parameter";
			return true;
		case T_FuncCall:
			definition->problem = function_names_problem(((FuncCall *) node)->funcname);
			names = ((FuncCall *) node)->funcname;
			break;
		case T_A_Expr:
			definition->problem = operator_names_problem(((A_Expr *) node)->name);
			names = ((A_Expr *) node)->name;
			break;
		case T_TypeName:
			typid = LookupTypeNameOid(NULL, (TypeName *) node, false);
			definition->problem = rf_type_problem(typid, definition->strict);
			names = ((TypeName *) node)->names;
			if (((TypeName *) node)->pct_type)
				refuse(definition, "it names the type of a column");
			break;
		case T_ColumnRef:
			if (OidIsValid(definition->relid))
				definition->problem = column_problem(definition->relid, (ColumnRef *) node,
													 definition->strict);
			break;
		default:
			break;
	}
	if (definition->strict)
		refuse(definition, rf_schema_problem(names));
	return definition->problem != NULL || raw_expression_tree_walker(node, check_names, definition);
}

/* ---------- expressions: what they have become ---------- */

static bool
check_function(Oid funcid, void *context)
{
	Definition *definition = context;

	if (definition->problem == NULL)
		definition->problem = rf_owner_problem(funcid);
	return definition->problem != NULL;
}

static List *
argument_types(List *args)
{
	List	   *types = NIL;
	ListCell   *lc;

	foreach(lc, args)
		types = lappend_oid(types, exprType(lfirst(lc)));
	return types;
}

/*
 * Why an analyzed expression may call code that a superuser did not choose; NULL: it does not. Its
 * arguments are looked at by the caller.
 */
static const char *
node_problem(Node *node)
{
	Oid			typid;

	/* core refuses all of these, and they contain what has no type */
	if (IsA(node, SubLink) || IsA(node, Aggref) || IsA(node, WindowFunc) || IsA(node, GroupingFunc))
		return "it contains a query or an aggregate";
	typid = exprType(node);
	if (get_typtype(typid) == TYPTYPE_PSEUDO && typid != RECORDOID && typid != RECORDARRAYOID &&
		typid != UNKNOWNOID)
		return psprintf("an expression has the type %s", format_type_be(typid));
	switch (nodeTag(node))
	{
		case T_FuncExpr:
			return rf_call_problem(((FuncExpr *) node)->funcid,
								   argument_types(((FuncExpr *) node)->args));
		case T_OpExpr:
		case T_DistinctExpr:
		case T_NullIfExpr:
			return rf_call_problem(get_opcode(((OpExpr *) node)->opno),
								   argument_types(((OpExpr *) node)->args));
		case T_ScalarArrayOpExpr:
			return rf_call_problem(get_opcode(((ScalarArrayOpExpr *) node)->opno), NIL);
#if PG_VERSION_NUM >= 160000
		case T_JsonConstructorExpr: /* looks for casts, as to_json does */
			return "it makes JSON";
#endif
		default:
			return NULL;
	}
}

static bool
check_tree(Node *node, Definition *definition)
{
	if (node == NULL || definition->problem != NULL)
		return definition->problem != NULL;
	if (!IsA(node, List))
	{
		definition->problem = node_problem(node);
		if (definition->problem == NULL)
			definition->problem = rf_type_problem(exprType(node), definition->strict);
		if (definition->problem != NULL ||
			check_functions_in_node(node, check_function, definition))
			return true;
	}
	return expression_tree_walker(node, check_tree, definition);
}

static const char *
key_problem(Key *key, Query *query)
{
	TargetEntry *column = list_nth_node(TargetEntry, query->targetList, key->place);
	Oid			typid = exprType((Node *) column->expr);
	Oid			method = get_index_am_oid(key->method, false);

	return rf_opclass_problem(key->optional ? GetDefaultOpClass(typid, method) :
							  ResolveOpClass(key->opclass, typid, key->method, method));
}

/* The expressions as the columns of a SELECT from the table. */
static Query *
analyze(Definition *definition)
{
	SelectStmt *select = makeNode(SelectStmt);
	RawStmt    *raw = makeNode(RawStmt);
	ParseState *state = make_parsestate(NULL);
	Query	   *query;
	ListCell   *lc;

	foreach(lc, definition->exprs)
	{
		ResTarget  *column = makeNode(ResTarget);

		column->val = copyObject(lfirst(lc));
		column->location = -1;
		select->targetList = lappend(select->targetList, column);
	}
	select->fromClause = list_make1(definition->from);
	raw->stmt = (Node *) select;
	state->p_sourcetext = definition->command;
	query = transformTopLevelStmt(state, raw);
	free_parsestate(state);
	return query;
}

/* A column alone has no casts. */
static void
check_expression(Node *expr, Definition *definition)
{
	if (!IsA(expr, ColumnRef))
		check_names(expr, definition);
	else if (OidIsValid(definition->relid) && definition->problem == NULL)
		definition->problem = column_problem(definition->relid, (ColumnRef *) expr, false);
}

/*
 * Notes as the definition's problem what the nodes could not have in its expressions, or what a key
 * cannot be. Expressions are parsed and analyzed for that, and nothing of them is evaluated.
 */
static void
check_expressions(Definition *definition)
{
	Query	   *query;
	ListCell   *lc;

	foreach(lc, definition->exprs)
		check_expression(lfirst(lc), definition);
	if (definition->problem != NULL || definition->exprs == NIL)
		return;
	query = analyze(definition);
	foreach(lc, query->targetList)
	{
		Expr	   *expr = lfirst_node(TargetEntry, lc)->expr;

		if (!IsA(expr, Var))
			check_tree((Node *) expr, definition);
	}
	foreach(lc, definition->keys)
	{
		if (definition->problem == NULL)
			definition->problem = key_problem(lfirst(lc), query);
	}
}

/* ---------- what commands consist of ---------- */

static Node *
column_named(const char *name)
{
	ColumnRef  *column = makeNode(ColumnRef);

	column->fields = list_make1(makeString(pstrdup(name)));
	column->location = -1;
	return (Node *) column;
}

static void
add_expr(Definition *definition, Node *expr)
{
	if (expr != NULL)
		definition->exprs = lappend(definition->exprs, expr);
}

static void
add_key(Definition *definition, const char *name, Node *expr, List *opclass, const char *method,
		bool optional)
{
	Key		   *key = palloc(sizeof(Key));

	key->place = list_length(definition->exprs);
	key->opclass = opclass;
	key->method = method;
	key->optional = optional;
	definition->keys = lappend(definition->keys, key);
	add_expr(definition, name != NULL ? column_named(name) : expr);
}

static void
add_index_elements(Definition *definition, List *elements, const char *method)
{
	ListCell   *lc;

	foreach(lc, elements)
	{
		IndexElem  *element = lfirst_node(IndexElem, lc);

		add_key(definition, element->name, element->expr, element->opclass, method, false);
	}
}

static bool
same_name(RangeVar *one, RangeVar *other)
{
	return one->catalogname == NULL && other->catalogname == NULL &&
		one->schemaname != NULL && other->schemaname != NULL &&
		strcmp(one->schemaname, other->schemaname) == 0 &&
		strcmp(one->relname, other->relname) == 0;
}

/* Has the expressions belong to an existing table, the root or a partition of it. */
static void
set_table(Definition *definition, RangeVar *name)
{
	Oid			root;

	definition->from = (Node *) copyObject(name);
	definition->relid = InvalidOid;
	if (name->schemaname == NULL || name->catalogname != NULL)
	{
		refuse(definition, "it names a table without its schema");
		return;
	}
	root = RangeVarGetRelid(definition->root, AccessShareLock, true);
	definition->relid = RangeVarGetRelid(name, AccessShareLock, true);
	if (!OidIsValid(root) || !OidIsValid(definition->relid) ||
		(definition->relid != root &&
		 !list_member_oid(get_partition_ancestors(definition->relid), root)))
		refuse(definition, psprintf("%s is not the table that it is for, nor a partition of it",
									quote_qualified_identifier(name->schemaname, name->relname)));
}

/* Nothing that would be run: a literal, or MINVALUE or MAXVALUE, which core takes for a column. */
static bool
are_constants(List *values)
{
	ListCell   *lc;

	foreach(lc, values)
	{
		Node	   *value = lfirst(lc);

		if (IsA(value, TypeCast))	/* true and false are cast to boolean */
		{
			TypeCast   *cast = (TypeCast *) value;

			if (!IsA(cast->arg, A_Const) || list_length(cast->typeName->names) != 2 ||
				strcmp(strVal(linitial(cast->typeName->names)), "pg_catalog") != 0 ||
				strcmp(strVal(lsecond(cast->typeName->names)), "bool") != 0)
				return false;
		}
		else if (!IsA(value, A_Const) && !IsA(value, ColumnRef))
			return false;
	}
	return true;
}

/* ---------- CREATE TABLE ---------- */

/* NULL of a column's type */
static Node *
null_column(ColumnDef *column)
{
	A_Const    *null = makeNode(A_Const);
	TypeCast   *cast = makeNode(TypeCast);
	CollateClause *collate;

	null->isnull = true;
	null->location = -1;
	cast->arg = (Node *) null;
	cast->typeName = column->typeName;
	cast->location = -1;
	if (column->collClause == NULL)
		return (Node *) cast;
	collate = copyObject(column->collClause);
	collate->arg = (Node *) cast;
	return (Node *) collate;
}

static void
add_column(Definition *definition, ColumnDef *column)
{
	Oid			typid;
	ListCell   *lc;

	if (column->raw_default != NULL || column->identity != 0 || column->fdwoptions != NIL ||
		column->typeName == NULL)
	{
		refuse(definition, "a column is more than name, type and collation");
		return;
	}
	typid = LookupTypeNameOid(NULL, column->typeName, false);
	refuse(definition, rf_type_problem(typid, false));
	definition->types = lappend_oid(definition->types, typid);
	foreach(lc, column->constraints)
	{
		Constraint *constraint = lfirst_node(Constraint, lc);

		if (constraint->contype == CONSTR_GENERATED)
			add_expr(definition, constraint->raw_expr);
		else if (constraint->contype != CONSTR_NOTNULL)
			refuse(definition, "a column has a constraint other than NOT NULL");
	}
}

/* The columns of a table that is not there yet, as a sub-select. */
static void
add_columns(Definition *definition, CreateStmt *statement)
{
	SelectStmt *select = makeNode(SelectStmt);
	RangeSubselect *from = makeNode(RangeSubselect);
	ListCell   *lc;

	foreach(lc, statement->tableElts)
	{
		ResTarget  *column = makeNode(ResTarget);

		if (!IsA(lfirst(lc), ColumnDef))
		{
			refuse(definition, "it has parts that are not columns");
			return;
		}
		add_column(definition, lfirst(lc));
		if (definition->problem != NULL)
			return;
		column->name = ((ColumnDef *) lfirst(lc))->colname;
		column->val = null_column(lfirst(lc));
		column->location = -1;
		select->targetList = lappend(select->targetList, column);
	}
	from->subquery = (Node *) select;
	from->alias = makeAlias(statement->relation->relname, NIL);
	definition->from = (Node *) from;
}

/*
 * PARTITION BY: its columns and expressions are keys, as those of an index of the strategy's
 * method.
 */
static void
add_partitioning(Definition *definition, PartitionSpec *spec)
{
	bool		hashed;
	ListCell   *lc;

	if (spec == NULL)
		return;
#if PG_VERSION_NUM >= 160000
	hashed = spec->strategy == PARTITION_STRATEGY_HASH;
#else
	hashed = pg_strcasecmp(spec->strategy, "hash") == 0;
#endif
	foreach(lc, spec->partParams)
	{
		PartitionElem *element = lfirst_node(PartitionElem, lc);

		add_key(definition, element->name, element->expr, element->opclass,
				hashed ? "hash" : "btree", false);
	}
}

/*
 * CREATE TABLE of the table itself with columns only, or of a partition of it with constant bounds.
 */
static void
examine_create(Definition *definition, CreateStmt *statement)
{
	PartitionBoundSpec *bound = statement->partbound;

	if (statement->ofTypename != NULL || statement->constraints != NIL ||
		statement->oncommit != ONCOMMIT_NOOP || statement->tablespacename != NULL ||
		statement->accessMethod != NULL || statement->if_not_exists ||
		statement->relation->relpersistence == RELPERSISTENCE_TEMP)
		refuse(definition, "it is more than a table with columns");
	else if (bound != NULL)
	{
		if (statement->tableElts != NIL || list_length(statement->inhRelations) != 1 ||
			!are_constants(bound->listdatums) || !are_constants(bound->lowerdatums) ||
			!are_constants(bound->upperdatums))
			refuse(definition, "it is more than a partition with constant bounds");
		else if (statement->relation->schemaname == NULL ||
				 statement->relation->catalogname != NULL)
			refuse(definition, "it names a table without its schema");
		else
			set_table(definition, linitial_node(RangeVar, statement->inhRelations));
	}
	else if (statement->inhRelations != NIL || !same_name(statement->relation, definition->root))
		refuse(definition, "it is not the table that it is for");
	else
		add_columns(definition, statement);
	if (definition->problem == NULL)
		add_partitioning(definition, statement->partspec);
}

/* ---------- ALTER TABLE ---------- */

/* The operators of an exclusion constraint, as expressions. */
static void
add_exclusions(Definition *definition, Constraint *constraint)
{
	ListCell   *lc;

	foreach(lc, constraint->exclusions)
	{
		List	   *pair = lfirst_node(List, lc);
		IndexElem  *element = linitial_node(IndexElem, pair);
		Node	   *operand = element->name != NULL ? column_named(element->name) : element->expr;

		add_index_elements(definition, list_make1(element),
						   constraint->access_method != NULL ? constraint->access_method : "btree");
		add_expr(definition, (Node *) makeA_Expr(AEXPR_OP, lsecond_node(List, pair),
												 operand, operand, -1));
	}
}

static void
add_names(Definition *definition, List *names, const char *method)
{
	ListCell   *lc;

	foreach(lc, names)
	{
		if (method != NULL)
			add_key(definition, strVal(lfirst(lc)), NULL, NIL, method, false);
		else
			add_expr(definition, column_named(strVal(lfirst(lc))));
	}
}

/* A constraint that ALTER TABLE adds: a key, an exclusion or a check. */
static void
examine_constraint(Definition *definition, Constraint *constraint)
{
	const char *method = "btree";

	if (constraint->indexname != NULL || constraint->indexspace != NULL)
		refuse(definition, "it names an index or a tablespace");
#if PG_VERSION_NUM >= 180000
	if (constraint->without_overlaps)
		method = "gist";
#endif
	switch (constraint->contype)
	{
		case CONSTR_PRIMARY:
		case CONSTR_UNIQUE:
			add_names(definition, constraint->keys, method);
			break;
		case CONSTR_EXCLUSION:
			add_exclusions(definition, constraint);
			add_expr(definition, constraint->where_clause);
			break;
		case CONSTR_CHECK:
			add_expr(definition, constraint->raw_expr);
			break;
		default:
			refuse(definition, "it is a constraint of another kind");
			return;
	}
	add_names(definition, constraint->including, NULL);
}

static void
examine_alter_index(Definition *definition, AlterTableStmt *statement, AlterTableCmd *part)
{
	Oid			index = RangeVarGetRelid(statement->relation, AccessShareLock, true);
	Oid			table = OidIsValid(index) ? IndexGetRelation(index, true) : InvalidOid;

	if (part->subtype != AT_SetStatistics || !OidIsValid(table))
		refuse(definition, "it changes more than the statistics of an index");
	else
		set_table(definition, makeRangeVar(get_namespace_name(get_rel_namespace(table)),
										   get_rel_name(table), -1));
}

/* ALTER TABLE or ALTER INDEX with one change, of a kind that runs no code of its own. */
static void
examine_alter(Definition *definition, AlterTableStmt *statement)
{
	AlterTableCmd *part;

	if (list_length(statement->cmds) != 1 || statement->missing_ok)
	{
		refuse(definition, "it is not one change");
		return;
	}
	part = linitial_node(AlterTableCmd, statement->cmds);
	if (statement->objtype == OBJECT_INDEX)
	{
		examine_alter_index(definition, statement, part);
		return;
	}
	if (statement->objtype != OBJECT_TABLE)
	{
		refuse(definition, "it does not alter a table");
		return;
	}
	set_table(definition, statement->relation);
	switch (part->subtype)
	{
		case AT_AddConstraint:
			examine_constraint(definition, castNode(Constraint, part->def));
			break;
		case AT_SetStorage:
		case AT_SetCompression:
		case AT_SetStatistics:
		case AT_SetOptions:
		case AT_SetNotNull:
		case AT_EnableAlwaysTrig:
		case AT_EnableReplicaTrig:
		case AT_DisableTrig:
			break;
		default:
			refuse(definition, "it is a change of another kind");
	}
}

/* ---------- the other commands ---------- */

static void
examine_index(Definition *definition, IndexStmt *statement)
{
	ListCell   *lc;

	set_table(definition, statement->relation);
	if (statement->tableSpace != NULL || statement->concurrent || statement->if_not_exists)
		refuse(definition, "it is more than an index");
	add_index_elements(definition, statement->indexParams, statement->accessMethod);
	foreach(lc, statement->indexIncludingParams)
	{
		IndexElem  *element = lfirst_node(IndexElem, lc);

		add_expr(definition, element->name != NULL ? column_named(element->name) : element->expr);
	}
	add_expr(definition, statement->whereClause);
}

static void
examine_statistics(Definition *definition, CreateStatsStmt *statement)
{
	ListCell   *lc;

	if (list_length(statement->relations) != 1 || !IsA(linitial(statement->relations), RangeVar) ||
		statement->if_not_exists)
	{
		refuse(definition, "it is more than statistics of one table");
		return;
	}
	set_table(definition, linitial(statement->relations));
	foreach(lc, statement->exprs)
	{
		StatsElem  *element = lfirst_node(StatsElem, lc);

		add_key(definition, element->name, element->expr, NIL, "btree", true);
	}
}

static void
examine_comment(Definition *definition, CommentStmt *statement)
{
	if (statement->objtype != OBJECT_TABLE)
		refuse(definition, "it is not the comment of a table");
	else
		set_table(definition, makeRangeVarFromNameList(castNode(List, statement->object)));
}

/* A row trigger whose function is trusted; its condition would be about OLD and NEW. */
static void
examine_trigger(Definition *definition, CreateTrigStmt * statement)
{
	Oid			funcid = LookupFuncName(statement->funcname, 0, NULL, true);

	set_table(definition, statement->relation);
	if (!statement->row || statement->whenClause != NULL || statement->constrrel != NULL ||
		statement->transitionRels != NIL || statement->replace)
		refuse(definition, "it is a trigger for statements or with a condition");
	else if (!OidIsValid(funcid))
		refuse(definition, psprintf("function %s does not exist",
									NameListToString(statement->funcname)));
	else if (funcid < FirstNormalObjectId ||
			 OidIsValid(getExtensionOfObject(ProcedureRelationId, funcid)))
		refuse(definition, "it calls a built-in function, or one of an extension");
	else
	{
		refuse(definition, rf_owner_problem(funcid));
		refuse(definition, rf_schema_problem(statement->funcname));
	}
}

/* The kinds of commands that a definition may have. */
static void
examine(Definition *definition, Node *statement)
{
	switch (nodeTag(statement))
	{
		case T_CreateStmt:
			examine_create(definition, (CreateStmt *) statement);
			break;
		case T_AlterTableStmt:
			examine_alter(definition, (AlterTableStmt *) statement);
			break;
		case T_IndexStmt:
			examine_index(definition, (IndexStmt *) statement);
			break;
		case T_CreateStatsStmt:
			examine_statistics(definition, (CreateStatsStmt *) statement);
			break;
		case T_CreateTrigStmt:
			examine_trigger(definition, (CreateTrigStmt *) statement);
			break;
		case T_CommentStmt:
			examine_comment(definition, (CommentStmt *) statement);
			break;
		default:
			refuse(definition, "it is a command of another kind");
	}
}

static void
run(const char *command)
{
	if (SPI_connect() != SPI_OK_CONNECT || SPI_execute(command, false, 0) != SPI_OK_UTILITY)
		elog(ERROR, "could not run \"%s\"", command);
	SPI_finish();
}

/* The columns of a new table have the types that were checked. */
static void
compare_types(const Definition *definition)
{
	Oid			relid = RangeVarGetRelid(definition->root, NoLock, false);
	ListCell   *lc;

	foreach(lc, definition->types)
	{
		if (get_atttype(relid, foreach_current_index(lc) + 1) != lfirst_oid(lc))
			ereport(ERROR,
					(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
					 errmsg("the type of a column of \"%s\" was replaced meanwhile",
							definition->root->relname),
					 errhint("Try the transaction again.")));
	}
}

PG_FUNCTION_INFO_V1(rdma_define);

/*
 * rdma_internal.define(table, command, run): NULL: the command defines a part of the table, has no
 * code run that the caller does not trust, and was run, if that was asked for. Else: why it was
 * not.
 */
Datum
rdma_define(PG_FUNCTION_ARGS)
{
	Definition	definition = {0};
	List	   *parsed;

	definition.root = makeRangeVarFromNameList(textToQualifiedNameList(PG_GETARG_TEXT_PP(0)));
	definition.command = text_to_cstring(PG_GETARG_TEXT_PP(1));
	parsed = raw_parser(definition.command, RAW_PARSE_DEFAULT);
	if (list_length(parsed) != 1)
		refuse(&definition, "it is not one command");
	else
	{
		Node	   *statement = linitial_node(RawStmt, parsed)->stmt;

		/* a table is created by the caller where it is only checked here */
		definition.strict = PG_GETARG_BOOL(2) || IsA(statement, CreateStmt);
		examine(&definition, statement);
	}
	if (definition.problem == NULL)
		check_expressions(&definition);
	if (definition.problem != NULL)
		PG_RETURN_TEXT_P(cstring_to_text(definition.problem));
	if (PG_GETARG_BOOL(2))
	{
		run(definition.command);
		if (definition.types != NIL)
			compare_types(&definition);
	}
	PG_RETURN_NULL();
}
