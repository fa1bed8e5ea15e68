/*
 * settings.c - settings under which the text of values means the same in every session.
 *
 * The other end's half is src/remote/settings.c.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "miscadmin.h"
#include "parser/parser.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/bytea.h"
#include "utils/float.h"
#include "utils/guc.h"
#include "utils/pg_locale.h"
#include "utils/xml.h"

#include "rdma_fdw/batch.h"

static void
force_setting(const char *name, const char *value)
{
	(void) set_config_option(name, value, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0,
							 false);
}

/*
 * Called per value where values have to go as text, so it looks at variables, and changes only what
 * differs. A change of search_path is the dear one, as it has the next name looked up anew.
 */
int
rf_neutral_settings(bool names)
{
	int			nestlevel = NewGUCNestLevel();

	if (names && strcmp(namespace_search_path, "pg_catalog") != 0)
		force_setting("search_path", "pg_catalog");
	if (!standard_conforming_strings)
		force_setting("standard_conforming_strings", "on");
	if (quote_all_identifiers)
		force_setting("quote_all_identifiers", "off");
	if (DateStyle != USE_ISO_DATES)
		force_setting("datestyle", "ISO");
	if (IntervalStyle != INTSTYLE_POSTGRES)
		force_setting("intervalstyle", "postgres");
	/* all above 0 mean the shortest text that is exact */
	if (extra_float_digits < 1)
		force_setting("extra_float_digits", "1");
	if (bytea_output != BYTEA_OUTPUT_HEX)
		force_setting("bytea_output", "hex");
	if (xmloption != XMLOPTION_CONTENT)
		force_setting("xmloption", "content");
	if (!Array_nulls)
		force_setting("array_nulls", "on");
	if (strcmp(locale_monetary, "C") != 0)
		force_setting("lc_monetary", "C");
	return nestlevel;
}
