/*
 * sql_text.h
 * 	Text of SQL statements, and data of other servers that goes into it.
 *
 * Everything from another server (a field of an answer, a parameter's value, the text of a notice)
 * is data. Into the text of a statement it comes as a number that was read and is printed again, as
 * a literal or an identifier with quotes, or as a type or an expression that the parser has read
 * whole. test/static/sql_text.pl looks at all of src and fails where it is otherwise.
 */
#ifndef RF_SQL_TEXT_H
#define RF_SQL_TEXT_H

#include "postgres.h"

#include "lib/stringinfo.h"
#include "libpq-fe.h"

/*
 * Text of another server that goes into a message to people, and into no statement. If it is not
 * valid in this database's encoding, a copy that has "?" where it is not ASCII; NULL stays NULL.
 */
extern const char *rf_message_text(const char *text);

/* ---------- the form of an answer ---------- */

/*
 * The answer consists of rows of so many columns, and of at least and at most so many: libpq
 * returns NULL for a field that is not there, and "" for one that is NULL.
 */
extern bool rf_answer_has(const PGresult *result, int columns, int least, int most);

/* What came as text is valid in this database's encoding, on which its functions rely. */
extern bool rf_answer_is_valid(const PGresult *result);

/* ---------- numbers ---------- */

/*
 * The field is one decimal number between the limits (rf_answer_double: a finite one), without
 * blanks. False: it is not, it is NULL, or the answer has no such field; *value is as it was.
 */
extern bool rf_answer_int64(const PGresult *result, int row, int column, int64 least, int64 most,
							int64 *value);
extern bool rf_answer_double(const PGresult *result, int row, int column, double least, double most,
							 double *value);

/* Returns true if the field is "t", false if it is missing. */
extern bool rf_answer_is_true(const PGresult *result, int row, int column);

/* ---------- statements ---------- */

extern void rf_append_literal(StringInfo buf, const char *value);

/*
 * The type's name here, with its schema and modifiers. ERROR if the text is not the name of one
 * type, or the type does not exist.
 */
extern void rf_append_type(StringInfo buf, const char *name);

/* In parentheses. ERROR if the text is not one expression. */
extern void rf_append_expression(StringInfo buf, const char *expression);

/* One more member of an array as text. */
extern void rf_append_array_member(StringInfo array, const char *text);

/* text[] in its binary form, which needs no quoting; NULL is a NULL. */
extern void rf_append_text_array(StringInfo buf, int count, const char *const *values);

#endif							/* RF_SQL_TEXT_H */
