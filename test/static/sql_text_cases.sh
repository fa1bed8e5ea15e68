#!/usr/bin/env bash
# sql_text_cases.sh FOLDER: does sql_text.pl find what it is for? Each case is a file in a tree of its own below FOLDER.
set -uo pipefail
check=$(cd "$(dirname "$0")" && pwd)/sql_text.pl
folder=$1
wrong=0

# text_case EXPECTED NAME <<<code: status 0 (nothing is found) or 1
text_case()
{
	mkdir -p "$folder/$2/src"
	cat >"$folder/$2/src/case.c"
	"$check" "$folder/$2" >"$folder/$2/log" 2>&1
	if [ $? != "$1" ]; then
		echo "sql_text.pl: case $2 should end with $1:"
		cat "$folder/$2/log"
		wrong=$((wrong + 1))
	fi
}

text_case 1 pasted <<-'EOF2'
	static void
	take(StringInfo buf, PGresult *result)
	{
		appendStringInfo(buf, "SELECT f(%s)", PQgetvalue(result, 0, 0));
	}
EOF2
text_case 1 variable <<-'EOF2'
	static char *
	make(PGresult *result)
	{
		const char *value = pstrdup(PQgetvalue(result, 0, 0));
		char	   *again;

		again = pchomp(value);
		return psprintf("SELECT f('{%s}')", again);
	}
EOF2
text_case 1 helper <<-'EOF2'
	static const char *
	field(PGresult *result, int row)
	{
		return PQgetisnull(result, row, 0) ? NULL : PQgetvalue(result, row, 0);
	}

	static void
	put(StringInfo buf, const char *text)
	{
		appendStringInfoString(buf, text);
	}

	static void
	take(StringInfo buf, PGresult *result)
	{
		put(buf, field(result, 0));
	}
EOF2
text_case 1 pointer <<-'EOF2'
	static void
	take(PGresult *result, char **text)
	{
		*text = pstrdup(PQgetvalue(result, 0, 0));
	}

	static void
	run(RfSession *session, PGresult *result)
	{
		char	   *text;

		take(result, &text);
		PQclear(rf_session_query(session, text));
	}
EOF2
text_case 1 field <<-'EOF2'
	static void
	note(Node *node, PGconn *conn)
	{
		node->version = PQparameterStatus(conn, "server_version");
	}

	static char *
	make(const Node *node)
	{
		return psprintf("SELECT %s", node->version);
	}
EOF2
text_case 1 statements <<-'EOF2'
	static void
	run(PGconn *conn)
	{
		PQsendQuery(conn, "SELECT 1; SELECT 2");
	}
EOF2
text_case 1 user <<-'EOF2'
	static void
	run(Oid owner)
	{
		SetUserIdAndSecContext(owner, SECURITY_LOCAL_USERID_CHANGE);
	}
EOF2
text_case 1 worker <<-'EOF2'
	void
	worker_main(Datum arg)
	{
		BackgroundWorkerInitializeConnectionByOid(DatumGetObjectId(arg), InvalidOid, 0);
		work();
	}
EOF2
mkdir -p "$folder/definer/src/sql"
cat >"$folder/definer/src/sql/10_schema.sql" <<-'EOF2'
	CREATE FUNCTION rdma.good() RETURNS int LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$ SELECT 1 $$;
	CREATE FUNCTION rdma.bad()
	RETURNS int
	LANGUAGE sql SECURITY DEFINER
	AS $$ SELECT 1 $$;
EOF2
text_case 1 definer </dev/null
text_case 0 harmless <<-'EOF2'
	static int64
	length_of(const char *text)
	{
		return strlen(text);
	}

	static void
	take(StringInfo buf, RfSession *session, PGresult *result)
	{
		int64		number;
		bool		first = PQgetvalue(result, 0, 1)[0] == 't';

		if (!rf_answer_int64(result, 0, 0, 0, PG_INT64_MAX, &number))
			ereport(ERROR, (errmsg("server said \"%s\"", PQgetvalue(result, 0, 0))));
		appendStringInfo(buf, "SELECT f(" INT64_FORMAT ", %s, %s)", number, first ? "a" : "b",
						 quote_literal_cstr(PQgetvalue(result, 0, 2)));
		rf_append_literal(buf, PQgetvalue(result, 0, 3));
		appendStringInfo(buf, INT64_FORMAT, length_of(PQgetvalue(result, 0, 5)));
		node->problem = psprintf("it said %s", rf_message_text(PQgetvalue(result, 0, 4)));
	}
EOF2
[ $wrong = 0 ]
