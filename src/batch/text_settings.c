/*
 * text_settings.c - settings under which the text of values means the same in every session.
 *
 * The other end's half is src/remote/session_settings.c.
 */
#include "postgres.h"

#include "access/transam.h"
#include "catalog/namespace.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/bytea.h"
#include "utils/float.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"
#include "utils/xml.h"

#include "rdma_fdw/as_role.h"
#include "rdma_fdw/batch.h"
#include "rdma_fdw/compat.h"

static void
force_setting(const char *name, const char *value)
{
	(void) set_config_option(name, value, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0,
							 false);
}

/* The recursion ends: no type contains itself, at any depth. */
int
rf_text_depends(Oid type)
{
	Oid			base = getBaseType(type);
	Oid			element = get_element_type(base);
	TupleDesc	desc;
	int			depends;

	if (OidIsValid(element))
		return rf_text_depends(element);
	if (rf_type_names_objects(base))
		return RF_TEXT_NAMES;
	if (base == CASHOID)
		return RF_TEXT_MONEY;
	switch (get_typtype(base))
	{
		case TYPTYPE_BASE:
			/* an extension's type may print anything: it may use the functions of regclass */
			return base < FirstGenbkiObjectId ? 0 : RF_TEXT_ALL;
		case TYPTYPE_ENUM:
			return 0;
		case TYPTYPE_RANGE:
			return rf_text_depends(get_range_subtype(base));
		case TYPTYPE_MULTIRANGE:
			return rf_text_depends(get_multirange_range(base));
		case TYPTYPE_COMPOSITE:
			desc = lookup_rowtype_tupdesc(base, -1);
			depends = rf_row_text_depends(desc);
			ReleaseTupleDesc(desc);
			return depends;
		default:
			return RF_TEXT_ALL; /* record: its fields are known per value only */
	}
}

int
rf_row_text_depends(TupleDesc desc)
{
	int			depends = 0;

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (!att->attisdropped)
			depends |= rf_text_depends(att->atttypid);
	}
	return depends;
}

/*
 * Called once per value that is sent as text, so it reads variables, and changes only settings that
 * differ. Every change costs microseconds: lc_monetary has its locale checked, after a change of
 * search_path the next name is looked up again, and AtEOXact_GUC() visits all settings before
 * PostgreSQL 16.
 */
int
rf_neutral_settings(int depends)
{
	int			nestlevel = NewGUCNestLevel();

	if ((depends & RF_TEXT_NAMES) && strcmp(namespace_search_path, RF_SEARCH_PATH) != 0)
		force_setting("search_path", RF_SEARCH_PATH);
	if (!rf_conforming_strings())
		force_setting("standard_conforming_strings", "on");
	if (quote_all_identifiers)
		force_setting("quote_all_identifiers", "off");
	if (DateStyle != USE_ISO_DATES)
		force_setting("datestyle", "ISO");
	if (IntervalStyle != INTSTYLE_POSTGRES)
		force_setting("intervalstyle", "postgres");
	/* all values above 0 select the shortest exact text */
	if (extra_float_digits < 1)
		force_setting("extra_float_digits", "1");
	if (bytea_output != BYTEA_OUTPUT_HEX)
		force_setting("bytea_output", "hex");
	if (xmloption != XMLOPTION_CONTENT)
		force_setting("xmloption", "content");
	if (!Array_nulls)
		force_setting("array_nulls", "on");
	/* a header declares its variable that needs ICU's own header from PostgreSQL 17 on */
	if ((depends & RF_TEXT_MONEY) && strcmp(GetConfigOption("lc_monetary", false, false), "C") != 0)
		force_setting("lc_monetary", "C");
	return nestlevel;
}
