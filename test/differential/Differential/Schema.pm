# Schema.pm: the tables of the differential test, and the topologies over which they are read.
#
# Schema l of the coordinator has local tables t, u, w, x and y. Every other schema has tables of the same names and
# columns, which are foreign: a statement is run over a topology by nothing but another search_path. l2 has the rows of l
# in another order: a statement that differs between these two is not deterministic.
package Differential::Schema;

use strict;
use warnings;
use Exporter 'import';

our @EXPORT_OK = qw(%columns %rows @topologies place_of refuses setup small_setup);

# name => [type of the generator, type in SQL, expression of g, type on the data node where it is another one]. h(g, k) is a number that g and k determine.
sub nullable { my ($k, $expr) = @_; return "CASE WHEN h(g, $k) % 7 > 0 THEN $expr END"; }

my @t = (
	[ 'id', 'int8', 'int8', 'g' ],
	[ 'i2', 'int2', 'int2', nullable(1, '(h(g, 2) % 24 - 8)::int2') ],
	[ 'i4', 'int4', 'int4', nullable(3, '(h(g, 4) % 40)::int') ],
	[ 'i8', 'int8', 'int8', nullable(5, 'h(g, 6) % 1000') ],
	[ 'n2', 'num', 'numeric(12,2)', nullable(7, '(h(g, 8) % 500) / 4.0') ],
	[ 'f8', 'f8', 'float8', nullable(9, '(h(g, 10) % 64) / 8.0') ],
	[ 't', 'text', 'text', nullable(11, "chr(97 + (h(g, 12) % 4)::int) || (h(g, 13) % 9) || CASE WHEN g % 20 = 3 THEN repeat('long ', 500) ELSE '' END") ],
	[ 'vc', 'vc', 'varchar(8)', nullable(14, "left(md5(g::text), (h(g, 15) % 3)::int)") ],
	[ 'bp', 'bp', 'char(5)', nullable(16, "left(md5(g::text), (h(g, 17) % 3)::int)") ],
	[ 'nm', 'nm', 'name', nullable(18, "('n' || h(g, 19) % 9)::name") ],
	[ 'b', 'bool', 'boolean', nullable(20, 'h(g, 21) % 2 = 0') ],
	[ 'd', 'date', 'date', nullable(22, "date '2001-01-01' + (h(g, 23) % 400)::int") ],
	[ 'ts', 'ts', 'timestamp', nullable(24, "timestamp '2001-03-25 00:30' + (h(g, 25) % 90) * interval '7 hours'") ],
	[ 'tz', 'tz', 'timestamptz', nullable(26, "timestamptz '2001-03-24 23:00Z' + (h(g, 27) % 90) * interval '7 hours'") ],
	[ 'ti', 'time', 'time', nullable(28, "time '01:00' + (h(g, 29) % 50) * interval '17 minutes'") ],
	[ 'iv', 'iv', 'interval', nullable(30, "(h(g, 31) % 20) * interval '7 hours 3 minutes'") ],
	[ 'uu', 'uuid', 'uuid', nullable(32, 'md5((h(g, 33) % 30)::text)::uuid') ],
	[ 'en', 'mood', 'mood', nullable(34, "(array['sad', 'ok', 'happy'])[1 + h(g, 35) % 3]::mood") ],
	[ 'dm', 'dm', 'positive', nullable(36, '(h(g, 37) % 30)::int + 1') ],
	[ 'ia', 'ia', 'int4[]', nullable(38, 'array[(h(g, 39) % 5)::int, null, (h(g, 40) % 9)::int]') ],
	[ 'ta', 'ta', 'text[]', nullable(41, "array['x' || h(g, 42) % 4, E'q\\\\''\"', null]") ],
	[ 'r4', 'r4', 'int4range', nullable(43, "CASE WHEN g % 9 = 0 THEN 'empty' ELSE int4range((h(g, 44) % 10)::int, 10 + (h(g, 45) % 10)::int) END") ],
	[ 'mr', 'mr', 'int4multirange', nullable(46, 'int4multirange(int4range(1, 2 + (h(g, 47) % 5)::int), int4range(10, 12))') ],
	[ 'jb', 'jb', 'jsonb', nullable(48, "jsonb_build_object('a', h(g, 49) % 8, 'b', array[g % 3, null], 'c', E'back\\\\slash')") ],
	[ 'js', 'js', 'json', nullable(50, "json_build_object('a', h(g, 51) % 8)") ],
	[ 'co', 'pair', 'pair', nullable(52, "row((h(g, 53) % 6)::int, 'p' || h(g, 54) % 3)::pair") ],
	[ 'ine', 'inet', 'inet', nullable(55, "('10.0.' || h(g, 56) % 3 || '.' || h(g, 57) % 9)::inet") ],
	[ 'bi', 'bit', 'bit(9)', nullable(58, '((h(g, 59) % 32)::int)::bit(9)') ],
	[ 'mo', 'money', 'money', nullable(60, '((h(g, 61) % 50)::int)::money') ],
	[ 'tv', 'tv', 'tsvector', nullable(62, "to_tsvector('simple', 'a quick fox ' || h(g, 63) % 4)") ],
	[ 'by', 'by', 'bytea', nullable(64, "decode(substr(md5((h(g, 65) % 20)::text), 1, 6), 'hex') || '\\x005c27'") ]);
my @u = (
	[ 'id', 'int4', 'int', 'g' ],
	[ 'tid', 'int8', 'int8', nullable(1, 'h(g, 102) % 60') ],
	[ 'k', 'int4', 'int', nullable(3, '(h(g, 104) % 6)::int') ],
	[ 'v', 'int2', 'int2', '(h(g, 105) % 20 - 5)::int2' ],
	[ 's', 'text', 'text COLLATE "C"', "chr(97 + (h(g, 106) % 4)::int) || h(g, 107) % 5" ],
	[ 'vs', 'vc', 'varchar(4)', nullable(8, "left(md5((h(g, 108) % 9)::text), 1 + (h(g, 109) % 3)::int)") ],
	[ 'n', 'num', 'numeric(10,2)', nullable(10, '(h(g, 111) % 100) / 4.0') ],
	[ 'd', 'date', 'date', nullable(12, "date '2001-01-01' + (h(g, 113) % 400)::int") ],
	[ 'g', 'mood', 'mood', "(array['sad', 'ok', 'happy'])[1 + h(g, 114) % 3]::mood" ],
	[ 'f', 'bool', 'boolean', nullable(15, 'h(g, 116) % 2 = 0') ],
	[ 'o', 'open', 'text', nullable(17, "(array['sad', 'ok', 'happy'])[1 + h(g, 118) % 3]"), 'mood' ],
	[ 'q', 'drift', 'int8', nullable(19, 'h(g, 120) % 50'), 'int4' ],
	[ 'r', 'drift', 'numeric(8)', nullable(21, 'h(g, 122) % 50'), 'int8' ]);
my @w = (
	[ 'id', 'int4', 'int', 'g' ],
	[ 'a', 'int4', 'int', nullable(1, '(h(g, 202) % 5)::int') ],
	[ 'b', 'int4', 'int', nullable(3, '(h(g, 204) % 12)::int') ],
	[ 'c', 'vc', 'varchar(4)', nullable(5, "chr(97 + (h(g, 206) % 3)::int)") ],
	[ 'e', 'text', 'text', nullable(7, "chr(97 + (h(g, 208) % 3)::int) || h(g, 209) % 3") ]);
my @x = map { [@$_] } @w;
# The only table with a key: for ON CONFLICT and DROP OWNED, and not read by queries
my @y = (
	[ 'id', 'int4', 'int', 'g' ],
	[ 'p', 'text', 'text', "chr(97 + (g % 3)::int)" ],
	[ 'n', 'int4', 'int DEFAULT 7', nullable(1, '(h(g, 302) % 20)::int') ],
	[ 'v', 'num', 'numeric(10,2)', nullable(3, '(h(g, 304) % 100) / 4.0') ],
	[ 'c', 'vc', 'varchar(4)', nullable(5, "chr(97 + (h(g, 306) % 4)::int)") ],
	[ 'm', 'mood', 'mood', nullable(7, "(array['sad', 'ok', 'happy'])[1 + h(g, 308) % 3]::mood") ],
	[ 'b', 'bool', 'boolean', nullable(9, 'h(g, 310) % 2 = 0') ],
	[ 'd', 'date', 'date', nullable(11, "date '2001-01-01' + (h(g, 312) % 400)::int") ]);
our %columns = (t => \@t, u => \@u, w => \@w, x => \@x, y => \@y);
our %rows = (t => 60, u => 40, w => 14, x => 25, y => 30);

# Each table of a topology: a server and what follows OPTIONS (schema_name ...; "local" for a view of the table of l;
# by => partitions. Servers: n1 and n2 (with remote estimates: e1; where each row is dear: d1, d2), nodes (both as one; dear; in the
# other order: back; with a third: three),
# others (both, and others compute).
our @topologies = (
	[ one => { map { $_ => ['n1'] } qw(t u w x y) } ],
	[ estimates => { map { $_ => ['e1'] } qw(t u w x y) } ],
	[ two => { t => ['n1'], u => ['n2'], w => ['n2'], x => ['n1'], y => ['n2'] } ],
	[ mixed => { t => ['n1'], u => ['local'], w => ['n1'], x => ['n2'], y => ['n1'] } ],
	[ keyed => { t => ['d1'], u => ['local'], w => ['local'], x => ['d2'], y => ['d1'] } ],
	[ keyed_back => { t => ['local'], u => ['d1'], w => ['n1'], x => [ 'dear', "distributed_by 'id'" ], y => [ 'dear', "distributed_by 'id'" ] } ],
	[ keyed_nodes => { t => [ 'dear', "distributed_by 'id'" ], u => ['d1'], w => ['local'], x => ['d2'], y => [ 'dear', "distributed_by 'p'" ] } ],
	[ by_id => { map { $_ => [ 'nodes', "distributed_by 'id'" ] } qw(t u w x y) } ],
	[ by_others => { t => [ 'nodes', "distributed_by 'i4'" ], u => [ 'nodes', "distributed_by 'k, v'" ], w => [ 'nodes', "replicated 'true'" ], x => [ 'nodes', "distributed_by 'b'" ], y => [ 'nodes', "distributed_by 'id, p'" ] } ],
	[ neighbours => { t => [ 'nodes', "distributed_by 'id'" ], u => ['n1'], w => ['n2'], x => ['n1'], y => [ 'nodes', "distributed_by 'p'" ] } ],
	[ neighbours_back => { t => ['n2'], u => [ 'nodes', "distributed_by 'k, v'" ], w => [ 'nodes', "replicated 'true'" ], x => ['n2'], y => [ 'nodes', "replicated 'true'" ] } ],
	[ common => { t => [ 'nodes', "distributed_by 'id'" ], u => [ 'back', "distributed_by 'k, v'" ], w => [ 'back', "replicated 'true'" ], x => [ 'dear', "distributed_by 'id'" ], y => [ 'back', "distributed_by 'id'" ] } ],
	[ some_common => { t => [ 'nodes', "distributed_by 'id'" ], u => [ 'three', "distributed_by 'k, v'" ], w => [ 'nodes', "replicated 'true'" ], x => [ 'back', "distributed_by 'id'" ], y => [ 'three', "distributed_by 'p, id'" ] } ],
	[ more_common => { t => [ 'three', "distributed_by 'id'" ], u => [ 'nodes', "distributed_by 's'" ], w => [ 'three', "replicated 'true'" ], x => ['nodes'], y => [ 'three', "replicated 'true'" ] } ],
	[ computed => { t => [ 'others', "distributed_by 't'" ], u => [ 'others', "distributed_by 'tid'" ], w => ['others'], x => [ 'others', "replicated 'true'" ], y => [ 'others', "distributed_by 'id'" ] } ],
	[ anywhere => { t => ['nodes'], u => [ 'nodes', "distributed_by 's'" ], w => [ 'nodes', "distributed_by 'a'" ], x => ['nodes'], y => ['n2'] } ],
	[ parts => { t => ['parts'], u => ['parts'], w => ['n1'], x => ['parts'], y => ['parts'] } ],
	[ uneven => { t => ['parts'], u => ['parts'], w => ['n2'], x => ['parts'], y => ['n2'] } ],
	[ ranges => { t => ['parts'], u => ['parts'], w => ['parts'], x => ['parts'], y => ['parts'] } ]);

# By what, and where each partition is; "moved": its columns come in another order.
my %partitions = (
	parts => {
		t => [ 'HASH (id)', [ n1 => 'WITH (MODULUS 2, REMAINDER 0)' ], [ n2 => 'WITH (MODULUS 2, REMAINDER 1)', 'moved' ] ],
		u => [ 'RANGE (k)', [ n1 => 'FROM (MINVALUE) TO (3)' ], [ n2 => 'FROM (3) TO (MAXVALUE)' ], [ n1 => 'DEFAULT' ] ],
		x => [ 'LIST (a)', [ n1 => 'IN (0, 1)' ], [ n2 => 'IN (2, 3)' ], [ local => 'DEFAULT' ] ],
		y => [ 'HASH (id)', [ n1 => 'WITH (MODULUS 2, REMAINDER 0)', 'moved' ], [ n2 => 'WITH (MODULUS 2, REMAINDER 1)' ] ] },
	uneven => {
		t => [ 'HASH (i4)', map { [ $_ < 3 ? 'n1' : 'n2', "WITH (MODULUS 4, REMAINDER $_)", $_ % 2 ? 'moved' : () ] } 0 .. 3 ],
		u => [ 'HASH (k, v)', [ n1 => 'WITH (MODULUS 2, REMAINDER 1)' ], [ n2 => 'WITH (MODULUS 2, REMAINDER 0)' ] ],
		x => [ 'RANGE (a)', [ n2 => 'FROM (MINVALUE) TO (3)', 'moved' ], [ n1 => 'DEFAULT' ] ] },
	ranges => {
		t => [ 'RANGE (id)', [ n2 => 'FROM (MINVALUE) TO (20)' ], [ n1 => 'FROM (20) TO (45)', 'moved' ], [ n2 => 'DEFAULT' ] ],
		u => [ 'RANGE (s)', [ n1 => "FROM ('a') TO ('c')" ], [ n2 => "FROM ('c') TO ('z')", 'moved' ], [ n1 => 'DEFAULT' ] ],
		w => [ 'LIST (a)', [ n1 => 'IN (1, 2, NULL)' ], [ n2 => 'DEFAULT' ] ],
		x => [ 'RANGE (id)', [ n2 => 'FROM (MINVALUE) TO (12)' ], [ n2 => 'FROM (12) TO (MAXVALUE)' ] ],
		y => [ 'LIST (p)', [ n1 => "IN ('a')" ], [ local => "IN ('b')" ], [ n2 => 'DEFAULT', 'moved' ] ] });

# What small_setup() leaves: undef is all
our ($only_schema, $only_tables, $only_columns);

sub columns_of { my ($table) = @_; return grep { !$only_columns || $only_columns->{ $_->[0] } } @{ $columns{$table} }; }
sub tables { return grep { !$only_tables || $only_tables->{$_} } sort keys %rows; }
sub used_topologies { return grep { !$only_schema || $only_schema eq $_->[0] } @topologies; }

sub definition
{
	my ($table, $moved, $on_node) = @_;
	my @columns = columns_of($table);

	return join(', ', map { "$_->[0] " . ($on_node ? $_->[4] // $_->[2] : $_->[2]) } $moved ? reverse @columns : @columns);
}

# The same, of a table that has rows: foreign tables have no keys
sub keyed_definition { my ($table, @how) = @_; return definition($table, @how) . ($table eq 'y' ? ', PRIMARY KEY (id, p)' : ''); }

# The server of a table in a topology, and its options.
sub place_of
{
	my ($schema, $table) = @_;
	my ($topology) = grep { $_->[0] eq $schema } @topologies;

	return @{ $topology->[1]{$table} };
}

# Is this error by design? What a node cannot evaluate is no part of ON CONFLICT. Rows of which nothing says on which node they are cannot be written one by one. What assigns the key
# moves rows at its end, so nobody can be given them.
sub refuses
{
	my ($schema, $message) = @_;
	return 1 if $message =~ /^ON CONFLICT cannot be executed for foreign table/;
	return 1 if $message =~ /\bctid\b.*foreign table "(\w+)"/ && (place_of($schema, $1))[0] =~ /^(nodes|others|dear|back|three)$/;
	my ($key, $table) = $message =~ /^cannot (update the distribution key|update single rows|delete single rows) of foreign table "(\w+)"/ or return 0;
	my ($server, $options) = place_of($schema, $table);

	return $server =~ /^(nodes|others|dear|back|three)$/ && (($options // '') =~ /^distributed_by/ xor $key !~ /distribution key/);
}

my $types = "CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy'); CREATE DOMAIN positive AS int CHECK (value > 0); CREATE TYPE pair AS (k int, v text);\n";

# What a database of a data node needs. $odd: its own settings differ from a coordinator's. $parallel: whatever can have parallel workers has them.
sub node_setup
{
	my ($name, $odd, $parallel) = @_;
	my $sql = "CREATE EXTENSION rdma_fdw;\n$types";

	foreach my $topology ([ s => { map { $_ => ['n1'] } keys %rows } ], used_topologies())
	{
		my ($schema, $tables) = @$topology;

		$sql .= "CREATE SCHEMA $schema;\n";
		foreach my $table (tables())
		{
			my $server = $tables->{$table}[0];
			$sql .= "CREATE TABLE $schema.$table (" . keyed_definition($table, 0, 1) . ");\n" if $schema eq 's' || $server =~ /^(nodes|others|dear|back|three)$/;
			next if $server ne 'parts';
			my ($by, @parts) = @{ $partitions{$schema}{$table} };
			foreach my $i (1 .. @parts)
			{
				my ($where, $bound, $moved) = @{ $parts[ $i - 1 ] };
				$sql .= "CREATE TABLE $schema.${table}_$i (" . keyed_definition($table, $moved, 1) . ");\n" if $where eq $name;
			}
		}
	}
	$sql .= "DO \$\$ BEGIN EXECUTE format('ALTER DATABASE %I SET datestyle = ''SQL, DMY''', current_database());"
	  . " EXECUTE format('ALTER DATABASE %I SET intervalstyle = iso_8601', current_database());"
	  . " EXECUTE format('ALTER DATABASE %I SET timezone = ''Asia/Kolkata''', current_database());"
	  . " EXECUTE format('ALTER DATABASE %I SET bytea_output = escape', current_database());"
	  . " EXECUTE format('ALTER DATABASE %I SET extra_float_digits = -3', current_database());"
	  . " EXECUTE format('ALTER DATABASE %I SET standard_conforming_strings = off', current_database()); END \$\$;\n" if $odd;
	$sql .= "DO \$\$ BEGIN EXECUTE format('ALTER DATABASE %I SET max_parallel_workers_per_gather = 2', current_database());"
	  . " EXECUTE format('ALTER DATABASE %I SET parallel_setup_cost = 0', current_database());"
	  . " EXECUTE format('ALTER DATABASE %I SET parallel_tuple_cost = 0', current_database());"
	  . " EXECUTE format('ALTER DATABASE %I SET min_parallel_table_scan_size = 0', current_database()); END \$\$;\n" if $parallel;
	return $sql;
}

# Those of a server with a third node, which is a database of the coordinator's.
sub third_node_tables
{
	my @sql;

	foreach my $topology (used_topologies())
	{
		my ($schema, $tables) = @$topology;
		my @there = grep { $tables->{$_}[0] eq 'three' } tables();

		push @sql, "CREATE SCHEMA $schema;\n" if @there;
		push @sql, map { "CREATE TABLE $schema.$_ (" . keyed_definition($_, 0, 1) . ");\n" } @there;
	}
	return @sql;
}

sub foreign_table
{
	my ($schema, $table, $name, $server, $remote_schema, $options, $of) = @_;
	return "CREATE FOREIGN TABLE $schema.$name " . ($of // '(' . definition($table) . ')') . " SERVER $server OPTIONS (schema_name '$remote_schema', table_name '$name'"
	  . ($options ? ", $options" : '') . ");\n";
}

# $port{n1}, $port{n2}, $port{co}: of clusters whose database is called $database.
sub coordinator_setup
{
	my ($database, %port) = @_;
	# other types first, so that OIDs of user types differ between the nodes
	my $sql = "CREATE ROLE leaver;\nCREATE DATABASE here;\n\\c here\nCREATE EXTENSION rdma_fdw;\n$types" . join('', third_node_tables()) . "\\c $database\n"
	  . "CREATE EXTENSION rdma_fdw; CREATE TYPE earlier AS (x int); CREATE TYPE later AS (x earlier);\n$types"
	  . "CREATE FUNCTION h(g int8, k int8) RETURNS int8 IMMUTABLE LANGUAGE sql AS 'SELECT hashint8extended(g, k) & 2147483647';\n";

	my $dear = "fdw_startup_cost '0', fdw_tuple_cost '1000'";
	# some nodes scan small tables on columns, too, and of these some leave rows to core
	my $columns = ", options '-c rdma_fdw.disable=column_costs'";
	my $mixed = ", options '-c rdma_fdw.disable=column_costs,column_kernels'";
	foreach my $server ([ n1 => 'n1', $columns ], [ n2 => 'n2', '' ], [ d1 => 'n1', ", $dear" ], [ d2 => 'n2', ", $dear$mixed" ], [ e1 => 'n1', ", use_remote_estimate 'true', fetch_size '7'" ], [ here => 'co', $mixed ])
	{
		my $dbname = $server->[0] eq 'here' ? 'here' : $database;
		$sql .= "CREATE SERVER $server->[0] FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', port '$port{$server->[1]}', dbname '$dbname'$server->[2]);\n"
		  . "CREATE USER MAPPING FOR postgres SERVER $server->[0] OPTIONS (user 'postgres');\n"
		  . "CREATE USER MAPPING FOR leaver SERVER $server->[0] OPTIONS (user 'postgres', password_required 'false');\n";
	}
	$sql .= "CREATE SERVER nodes FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes 'n1, n2');\n"
	  . "CREATE SERVER dear FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes 'n1, n2', $dear);\n"
	  . "CREATE SERVER back FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes 'n2, n1');\n"
	  . "CREATE SERVER three FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes 'n2, here, n1');\n"
	  . "CREATE SERVER others FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes 'n1, n2', compute_nodes 'n2, here', parallel_scan 'true');\n"
	  . "GRANT USAGE ON FOREIGN SERVER n1, n2, d1, d2, e1, here, nodes, dear, back, three, others TO leaver;\nCREATE SCHEMA l; CREATE SCHEMA l2;\n";
	foreach my $table (tables())
	{
		$sql .= "CREATE TABLE l.$table (" . keyed_definition($table) . ");\n"
		  . "INSERT INTO l.$table SELECT " . join(', ', map { $_->[3] } columns_of($table)) . " FROM generate_series(1, $rows{$table}) g;\n"
		  . "CREATE TABLE l2.$table (LIKE l.$table INCLUDING ALL);\nINSERT INTO l2.$table SELECT * FROM l.$table ORDER BY id DESC;\n";
	}
	$sql .= "CREATE SCHEMA load;\n";
	$sql .= foreign_table('load', $_, $_, 'n1', 's') . "INSERT INTO load.$_ SELECT * FROM l.$_;\nDROP FOREIGN TABLE load.$_;\n"
	  . foreign_table('load', $_, $_, 'n2', 's') . "INSERT INTO load.$_ SELECT * FROM l.$_;\n" foreach tables();
	foreach my $topology (used_topologies())
	{
		my ($schema, $tables) = @$topology;

		$sql .= "CREATE SCHEMA $schema;\n";
		foreach my $table (tables())
		{
			my ($server, $options) = @{ $tables->{$table} };

			if ($server eq 'local')
			{
				$sql .= "CREATE VIEW $schema.$table AS SELECT * FROM l.$table;\n";
			}
			elsif ($server eq 'parts')
			{
				my ($by, @parts) = @{ $partitions{$schema}{$table} };

				# the attribute numbers of the partitions are others
				$sql .= "CREATE TABLE $schema.$table (gone int, " . definition($table) . ") PARTITION BY $by;\nALTER TABLE $schema.$table DROP COLUMN gone;\n";
				foreach my $i (1 .. @parts)
				{
					my ($where, $bound, $moved) = @{ $parts[ $i - 1 ] };
					my $name = "${table}_$i";

					$sql .= $where eq 'local' ? "CREATE TABLE $schema.$name (" . keyed_definition($table) . ");\n" :
					  foreign_table($schema, $table, $name, $where, $schema, '', '(' . definition($table, $moved) . ')');
					$sql .= "ALTER TABLE $schema.$table ATTACH PARTITION $schema.$name " . ($bound eq 'DEFAULT' ? $bound : "FOR VALUES $bound") . ";\n";
				}
				$sql .= "INSERT INTO $schema.$table SELECT * FROM l.$table;\n";
			}
			elsif ($server =~ /^(nodes|others|dear|back|three)$/)
			{
				$sql .= foreign_table($schema, $table, $table, $server, $schema, $options);
				if ($options)
				{
					$sql .= "INSERT INTO $schema.$table SELECT * FROM l.$table;\n";
					next;
				}
				# nothing says where these are
				foreach my $node (1, 2)
				{
					$sql .= foreign_table('load', $table, "${table}_$node", "n$node", $schema) =~ s/table_name '\w+'/table_name '$table'/r
					  . "INSERT INTO load.${table}_$node SELECT * FROM l.$table WHERE id % 2 = $node - 1;\nDROP FOREIGN TABLE load.${table}_$node;\n";
				}
			}
			elsif ($schema eq 'two')
			{
				$sql .= foreign_table($schema, $table, $table, $server, 's', '', '(gone int, ' . definition($table) . ')') . "ALTER FOREIGN TABLE $schema.$table DROP COLUMN gone;\n";
			}
			else { $sql .= foreign_table($schema, $table, $table, $server, 's'); }
		}
	}
	$sql .= "DROP SCHEMA load CASCADE;\n";
	my @schemas = map { $_->[0] } used_topologies();
	# x has triggers everywhere; they write what they saw. w is never analyzed.
	$sql .= "CREATE TABLE audit (what text, old_row text, new_row text);\n"
	  . "CREATE FUNCTION before_row() RETURNS trigger LANGUAGE plpgsql AS \$\$ BEGIN IF TG_OP = 'DELETE' THEN RETURN CASE WHEN OLD.a = 4 THEN NULL ELSE OLD END; END IF;\n"
	  . "  IF NEW.b = 11 THEN RETURN NULL; END IF; NEW.e := coalesce(NEW.e, '') || '!'; RETURN NEW; END \$\$;\n"
	  . "CREATE FUNCTION after_row() RETURNS trigger LANGUAGE plpgsql AS \$\$ BEGIN INSERT INTO public.audit VALUES (TG_OP, ROW(OLD.id, OLD.a, OLD.b, OLD.c, OLD.e)::text, ROW(NEW.id, NEW.a, NEW.b, NEW.c, NEW.e)::text); RETURN NULL; END \$\$;\n"
	  . "CREATE FUNCTION after_statement() RETURNS trigger LANGUAGE plpgsql AS \$\$ DECLARE n int; BEGIN EXECUTE format('SELECT count(*) FROM %I.x', TG_TABLE_SCHEMA) INTO n;\n"
	  . "  INSERT INTO public.audit VALUES ('rows after', n::text); RETURN NULL; END \$\$;\n"
	  if grep { $_ eq 'x' } tables();
	foreach my $schema (grep { my $none = !$only_tables || $only_tables->{x}; $none } 'l', 'l2', @schemas)
	{
		$sql .= "CREATE TRIGGER a BEFORE INSERT OR UPDATE OR DELETE ON $schema.x FOR EACH ROW EXECUTE FUNCTION before_row();\n"
		  . "CREATE TRIGGER b AFTER INSERT OR UPDATE OR DELETE ON $schema.x FOR EACH ROW EXECUTE FUNCTION after_row();\n"
		  . "CREATE TRIGGER c AFTER INSERT OR UPDATE OR DELETE ON $schema.x FOR EACH STATEMENT EXECUTE FUNCTION after_statement();\n";
	}
	$sql .= "ANALYZE l.$_;\n" foreach grep { $_ ne 'w' } tables();
	foreach my $topology (used_topologies())
	{
		my ($schema, $tables) = @$topology;

		$sql .= "ANALYZE $schema.$_;\n" foreach grep { $_ ne 'w' && $tables->{$_}[0] ne 'local' } tables();
		$sql .= "ALTER FOREIGN TABLE $schema.y OPTIONS (ADD propagate_ddl 'true');\n" if grep { $_ eq 'y' && $tables->{$_}[0] ne 'parts' } tables();
	}
	return $sql;
}

# [cluster, SQL] in the order in which they are run
sub setup
{
	my ($database, %port) = @_;
	my $parallel = $ENV{PARALLEL_NODES} // 1;

	return ([ n1 => node_setup('n1', $ENV{ODD_NODE} // 1, $parallel > 1) ], [ n2 => node_setup('n2', 0, $parallel > 0) ], [ co => coordinator_setup($database, %port) ]);
}

# The same for one topology, and of its tables and columns only those that a text may name.
sub small_setup
{
	my ($schema, $text, $database, %port) = @_;
	my $all = $text =~ /\*(?!\))/;
	my ($topology) = grep { $_->[0] eq $schema } @topologies;
	my $options = join(' ', map { $_->[1] // '' } values %{ $topology->[1] }) . ' ' . join(' ', map { $_->[0] } values %{ $partitions{$schema} // {} });
	my %words = map { $_ => 1 } $text =~ /\b([a-z]\w*)/g;
	my %columns = map { $_ => 1 } 'id', $options =~ /(\w+)/g, keys %words;

	local $only_schema = $schema;
	local $only_tables = { map { $_ => 1 } grep { $words{$_} && $text =~ /\b(FROM|JOIN|INTO|UPDATE|USING|ONLY|TABLE|ON|,|\() *\(*$_\b/ } keys %rows };
	local $only_columns = $all || $only_tables->{x} || $only_tables->{y} ? undef : \%columns;
	return setup($database, %port);
}

1;
