#!/usr/bin/env perl
# movies.pl FOLDER: SQL that makes the tables of the Join Order Benchmark, whose schema.sql and fkindexes.sql are in the folder, three
# times, with a hundredth to a five hundredth of the rows, made up: in schema movies, and distributed over server nodes in movies_by_id
# (by id) and movies_by_key (by movie_id, else person_id, else id, with the tables of types on all nodes).
use strict;
use warnings;

my %rows = (aka_name => 4500, aka_title => 1800, cast_info => 90000, char_name => 15000, comp_cast_type => 4, company_name => 1200,
	company_type => 4, complete_cast => 700, info_type => 113, keyword => 670, kind_type => 7, link_type => 18,
	movie_companies => 13000, movie_info => 74000, movie_info_idx => 7000, movie_keyword => 22000, movie_link => 150,
	name => 20000, person_info => 15000, role_type => 12, title => 12600);
my %refers = (person_id => 'name', movie_id => 'title', linked_movie_id => 'title', kind_id => 'kind_type',
	company_id => 'company_name', company_type_id => 'company_type', subject_id => 'comp_cast_type',
	status_id => 'comp_cast_type', info_type_id => 'info_type', keyword_id => 'keyword', link_type_id => 'link_type',
	role_id => 'role_type', person_role_id => 'char_name');
my ($folder) = @ARGV or die "movies.pl FOLDER\n";

sub text_of
{
	my ($name) = @_;
	open my $file, '<', "$folder/$name" or die "$folder/$name: $!\n";
	local $/;
	return <$file>;
}

# An expression of row i for a column, which is the table's at this place.
sub value
{
	my ($table, $column, $type, $place) = @_;
	return 'i' if $column eq 'id';
	return "abs(hashint4(i * 7 + $place)::int8 % $rows{$refers{$column}}) + 1" if $refers{$column};
	return '1900 + i % 115' if $column eq 'production_year';
	return 'i % 100' if $type =~ /^integer/;
	return sprintf "left(md5((i %% %d)::text), 12)", $rows{$table} > 15 ? $rows{$table} / 3 : 5
		if $column =~ /^(info|note|name|title|keyword)$/;
	return "CASE i % 3 WHEN 0 THEN 'm' WHEN 1 THEN 'f' END" if $column eq 'gender';
	return "'[' || chr(97 + i % 20) || chr(97 + i % 7) || ']'" if $column eq 'country_code';
	return 'left(md5((i % 50)::text), 5)';
}

my ($schema, $indexes) = (text_of('schema.sql'), text_of('fkindexes.sql'));
my %body = $schema =~ /CREATE TABLE (\w+) \((.*?)\n\);/sg;
for my $name (qw(movies movies_by_id movies_by_key))
{
	print "CREATE SCHEMA $name; SET search_path = $name;\n$schema\n";
	for my $table (sort keys %body)
	{
		my $place = 0;
		my @values = map { value($table, (split ' ')[0, 1], $place++) } grep { /\S/ } split /\n/, $body{$table};
		print "INSERT INTO $table SELECT ", join(', ', @values), " FROM generate_series(1, $rows{$table}) i;\n";
	}
	print "$indexes\n";
	for my $table ($name eq 'movies' ? () : sort keys %body)
	{
		my ($key) = $name eq 'movies_by_key' ? $body{$table} =~ /\b(movie_id|person_id)\b/ : ();
		# of several columns the one that is named first here
		$key = 'movie_id' if $name eq 'movies_by_key' && $body{$table} =~ /\bmovie_id\b/;
		print "ALTER TABLE $table DROP CONSTRAINT ${table}_pkey;\n" if defined $key;
		my $how = $name eq 'movies_by_key' && $table =~ /_type$/ ? 'replicated => true' : sprintf "'%s'", $key // 'id';
		print "SELECT rdma.distribute_table('$name.$table', 'nodes', $how);\n";
	}
	print "ANALYZE $_;\n" for sort keys %body;
}
