/*
 * as_role.h
 *		Running something with the rights of another role than the caller, and in background
 *		workers.
 *
 * The role whose rights count must also decide what names mean: an operator or a function without a
 * schema is looked up in search_path, which the caller or the owner of a database chooses. Only
 * this file switches users.
 */
#ifndef RF_AS_ROLE_H
#define RF_AS_ROLE_H

#include "postgres.h"

/*
 * What our own statements are written for, here and in sessions on nodes. If it did not name
 * pg_temp, that schema would come first for the names of tables and types.
 */
#define RF_SEARCH_PATH	"pg_catalog, pg_temp"

/* Whose turn it was before. */
typedef struct RfRole
{
	Oid			user;
	int			context;
	int			nest;
} RfRole;

/*
 * From here to the end: the role's rights, in a security-restricted operation, with search_path =
 * pg_catalog, pg_temp. Settings that are changed meanwhile are restored by the end. An error needs
 * no end: the abort of the (sub)transaction restores all.
 */
extern void rf_role_begin(RfRole *before, Oid role);
extern void rf_role_end(const RfRole *before);

/*
 * The same without the restriction, which refuses temporary tables, for statements that run no code
 * of the role.
 */
extern void rf_role_begin_making(RfRole *before, Oid role);

extern Oid	rf_relation_owner(Oid relid);

/*
 * The same as the owner of the relation that rdma_fdw.as_owner_of names, for code that is its own:
 * its constraints, generated columns, index expressions. ERROR unless the caller has the owner's
 * rights. False: the setting names no relation, and there is nothing to end.
 */
extern bool rf_owner_begin_if_set(RfRole *before);

/*
 * Runs one statement with the rights of the owner of a table of schema rdma, and returns how many
 * rows it had to do with. ERROR if there is no such table.
 */
extern uint64 rf_execute_as_owner(const char *table, const char *sql, int count, Oid *types,
								  Datum *values, const char *nulls);

/*
 * For a background worker that was just connected with a database: protects the settings that the
 * database or the role must not change.
 */
extern void rf_worker_settings(void);

#endif							/* RF_AS_ROLE_H */
