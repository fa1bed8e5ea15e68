-- debian.sql: this machine's package database, as debian.pl writes it.
CREATE TABLE packages (
	package text NOT NULL,
	version text NOT NULL,
	architecture text NOT NULL,
	source text NOT NULL,
	section text,
	priority text,
	installed_kb bigint,
	summary text
);
CREATE TABLE dependencies (
	package text NOT NULL,
	architecture text NOT NULL,
	kind text NOT NULL,			-- depends, recommends, ...
	clause int NOT NULL,		-- alternatives of one dependency share it
	needs text NOT NULL,
	version_constraint text
);
CREATE TABLE files (
	package text NOT NULL,
	architecture text NOT NULL,
	path text NOT NULL
);
