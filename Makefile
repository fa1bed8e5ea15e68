# rdma_fdw: foreign data wrapper and exchange over RDMA.
#
#   make help             print this
#   make                  build against the PostgreSQL that PG_CONFIG names (15 to 19)
#   make install          install it there
#   make check            install what the tests need (install-deps), then run them; ends with "N passed, N failed"
#   make check-full       that, and what takes longer: make check-rest is only the latter
#   make check-today      check and one group of check-rest, another one each day (ROUND=0 to 6): an hour at most
#   make check-unit, check-sql, check-tcp, check-isolation, check-tap, check-chaos, check-users, check-roce    one group of check,
#   make check-sanitizers, check-sql_tcp, check-tap_rest, check-settings_few, check-sqlsmith, check-roce_sql, check-roce_pair  or of check-rest;
#                         TESTS='01_a 02_b' only those, PROVIDER=soft_tcp over another provider
#   make indent           format the C files with pg_bsd_indent; check-unit TESTS=indent only looks
#   make check-static     warnings of gcc and clang, clang's analyzer and cppcheck; needs no server
#   make questions        the statements that the extension sends to other servers, and the checks of their answers, as a table
#   make house            how simple the tree is: lines, hooks, settings, ..., the English, with the limits (test/static/house.pl)
#   make check-versions   SQL and isolation tests and random statements on PostgreSQL 17, 18 and 19, and data nodes of those
#   make check-memory     tests under ASan, UBSan and Valgrind, on a PostgreSQL with assertions: test/memory/check.sh
#   make check-coverage   which lines and exported functions the tests execute, by room: test/coverage/check.sh
#   make check-package    Debian packages for the PostgreSQL of three releases: built, checked by lintian, tried where nothing else is
#   make check-clients    Django, SQLAlchemy and other clients use distributed tables as they use local ones: test/clients/README.md
#   make installcheck     the SQL tests that need one server only, against the one that PGHOST and PGPORT name: rdma_fdw must be
#                         in its shared_preload_libraries, and postgres must be a superuser that needs no password on 127.0.0.1
#   make check-differential [COUNT=...] [SEED=...]   random statements against local tables, see test/differential
#   make check-history [COUNT=...] [SEED=...] [FAULTS=2]   concurrent transactions over two nodes, checked for anomalies: test/history
#   make check-faults [COUNT=...] [SEED=...]   faults at every step of commits over several nodes: test/faults
#   make check-refuse [ONLY=regex] [EVERY=n]   each connection and round trip struck under each kind of statement: test/refuse
#   make check-settings [ONLY=regex] [PACKS=n] [SEED=...]   all SQL inputs under other settings, which change no answer: test/settings
#   make check-chaos [SEED=7] [DURATION=600]    faults on purpose while clients check answers: test/chaos/README.md
#   make demo [SCALE=0.1] a coordinator and two data nodes with data in them, and a tour; make demo-stop removes them
#   make bench-scan [SF=1], make bench-fdw [SF=0.1], make bench-join [SF=1] [NODES=2]
#   make bench-scaling [SF=1] [WORKERS='1 2 4 8']   TPC-H with more and more workers on each node, in build/bench-scaling
#   make bench-columns [SF=0.1] [RUNS=5]  scans on columns and without them on one server, in build/bench-columns
#   make bench-star [SCALE=1] [NODES=2]   star and snowflake queries over sales of three channels, in build/bench-star
#   make bench-keys       few local keys joined with many rows of a node, and UPDATE over nodes, in build/bench-keys
#   make bench-planning [JOB=FOLDER] [BASE=TREE]   planning times of joins over nodes, in build/bench-planning
#   make bench-many [NODES='2 8 32 64']    one join over ever more nodes of one machine, in build/bench-many
#   make bench-moves      nodes come and go: clients' errors and pauses, speed of a move, in build/bench-moves
#   make bench-commit     transfers over nodes: commits per second, WAL syncs, torn reads, in build/bench-commit
#   make bench-engine     the engine's techniques, each without and with it: table, results.tsv and plots in bench/engine;
#   make bench-engine-nodes   an exchange between 2 to 256 simulated nodes: nodes.txt, nodes.tsv and nodes.svg there
#   make bench-engine-verbs   the same over verbs in the soft-RoCE machine: verbs.txt and verbs.tsv there
#   make bench-region, bench-region-verbs   regions copied out, gathered, as boxes and as chosen, in bench/region likewise
MODULE_big = rdma_fdw
EXTENSION = rdma_fdw
DATA_built = sql/rdma_fdw--1.1.sql
PGFILEDESC = "rdma_fdw - foreign data wrapper and exchange over RDMA"

srcdir ?= .
OBJS = $(patsubst $(srcdir)/%.c,%.o,$(sort $(wildcard $(addprefix $(srcdir)/src/,*.c */*.c */*/*.c))))

PG_CPPFLAGS = -I$(srcdir)/include -I$(srcdir)/src -I$(libpq_srcdir) -D_GNU_SOURCE
PG_CFLAGS = -Wextra -Wno-unused-parameter -Wno-sign-compare -Wno-missing-field-initializers -Wno-declaration-after-statement
SHLIB_LINK = $(libpq) -libverbs -lrdmacm -lssl -lcrypto -lpthread -ldl -lm

# For installcheck: tests that ask neither for the ports of other servers nor for a module of test/modules.
REGRESS = $(sort $(patsubst $(srcdir)/sql/%.sql,%,$(shell grep -L -i -E '(n1|coord)_port|two_nodes|[$$]libdir' $(srcdir)/sql/[0-9]*.sql)))

PG_CONFIG ?= pg_config
PGXS := $(wildcard $(shell $(PG_CONFIG) --pgxs 2>/dev/null))
# Bitcode would need the exact LLVM the server was built with; inlining into SQL expressions gains nothing here.
override with_llvm = no
# An object's dependencies lie beside it; PGXS, where its server was built so, has one folder for all, but names repeat here.
override autodepend = no
PG_CFLAGS += -MMD -MP
EXTRA_CLEAN = $(OBJS:.o=.d)

# Targets that need no PGXS, so that they work before PostgreSQL is installed; PGXS also has a "check" that only refuses.
own = help check check-% house questions install-deps demo demo-stop bench-scan bench-fdw bench-join bench-scaling bench-columns bench-star bench-keys bench-planning bench-many bench-moves bench-commit bench-engine bench-engine-nodes bench-engine-verbs bench-region bench-region-verbs
ifneq ($(filter-out $(own),$(or $(MAKECMDGOALS),all)),)
ifneq ($(PGXS),)
include $(PGXS)

# No symbol of ours can be taken for one of another library in the server. 16 and later compile modules so; the macro that
# declares SQL functions in 15 does not export them then, and a list of names does.
ifeq ($(MAJORVERSION),15)
SHLIB_LINK += -Wl,--version-script=$(srcdir)/src/exports.map
rdma_fdw.so: $(srcdir)/src/exports.map
endif

# The C library checks lengths that the compiler knows, also where the server was built without that. Code that is not
# optimised gets no such checks, and sanitizers have better ones.
ifeq ($(filter -O0,$(lastword -O0 $(filter -O%,$(CFLAGS))))$(findstring _FORTIFY_SOURCE,$(CPPFLAGS) $(CFLAGS))$(findstring -fsanitize,$(CFLAGS)),)
override CPPFLAGS += -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2
endif
# The same for the stack's guards and for the tables of functions, which nothing writes once the library is loaded.
override CFLAGS += -fstack-protector-strong
# Where the processor can check it: calls and jumps through pointers go to functions only, and returns to where the call came from.
override CFLAGS += $(shell $(CC) -fcf-protection=full -S -x c -o /dev/null /dev/null 2>/dev/null && echo -fcf-protection=full)
SHLIB_LINK += -Wl,-z,relro,-z,now
# The linker notes only what all object files note, and the C library's crti.o often notes nothing. Returns can be checked all the
# same: its few instructions call and return as the processor expects. Jumps cannot: its _init begins with no mark of a target.
ifneq ($(filter -fcf-protection=full,$(CFLAGS)),)
SHLIB_LINK += $(shell $(CC) -shared -Wl,--fatal-warnings,-z,shstk -x c -o /dev/null /dev/null 2>/dev/null && echo -Wl,-z,shstk)
endif
# Plans must not depend on how fast the machine's network is.
installcheck: export PGOPTIONS += -c rdma_fdw.measured_costs=off
else
all install installcheck:
	@echo "There is no PostgreSQL to build against: run 'make install-deps', or set PG_CONFIG." >&2; false
endif
endif

# The install script is made of pieces by subject, in the order of their names.
sql/rdma_fdw--1.1.sql: $(sort $(wildcard $(srcdir)/src/sql/*.sql))
	@mkdir -p $(@D)
	cat $^ >$@

$(OBJS): $(srcdir)/Makefile
-include $(OBJS:.o=.d)

export PG_CONFIG PROVIDER PLAIN TESTS SCALE SF NODES COUNT SEED DURATION TOPOLOGY FROM SHRINK ONLY EVERY PACKS EACH JOBS ONCE FAST SHARE
# Those that take or wait longest first: several run side by side.
groups = roce tap sql chaos unit tcp isolation users
# What check-full has besides, and what of it wants the whole machine, so that one runs at a time.
rest_groups = tap_rest sanitizers sql_tcp settings_few sqlsmith
alone_groups = roce_sql roce_pair
today = $(word $(shell expr 1 + $(or $(ROUND),$$(date -u +%j)) % 7),$(rest_groups) $(alone_groups))
# Not in `make check`: what analyzers say of the sources; other majors of PostgreSQL, in folders of other Debian suites
# (needs root and the network); the tests under ASan, UBSan and Valgrind, with a PostgreSQL built for them (fetches its
# source package, as sqlsmith does; needs more than an hour); the Debian packages (needs root and the network); the SQL inputs under many
# settings; clients that nobody here wrote (packages of Debian and npm).
extra_groups = static versions memory coverage package settings clients
run_check = $(srcdir)/test/run_check.sh

one_group = $(groups:%=check-%) $(rest_groups:%=check-%) $(alone_groups:%=check-%) $(extra_groups:%=check-%)

.PHONY: $(filter-out check-%,$(own)) $(one_group) check-full check-rest check-today check-differential check-history check-faults check-refuse indent

help:
	@sed -n '/^[^#]/q; s/^#\( \|$$\)//p' $(srcdir)/Makefile

install-deps:
	@$(srcdir)/test/install_deps.sh

ifeq ($(filter-out $(own),$(or $(MAKECMDGOALS),all)),)
# What SQL tests repeat because it is a matter of chance, sql_tcp repeats four times as often.
check: install-deps
	@RF_TIMES=$${RF_TIMES:-5} $(run_check) $(groups)
endif

# SQLsmith: a PostgreSQL with assertions takes longer to build than all of this. Over TCP and verbs a quarter of the SQL inputs each day:
# over emulated verbs all of them take as long as all other groups together.
check-rest: export SHARE := $(or $(SHARE),4)
check-rest: install-deps
	@status=0; PLAIN=$(or $(PLAIN),1) $(run_check) $(rest_groups) || status=1; RF_GROUPS=1 $(run_check) $(alone_groups) || status=1; exit $$status

check-full:
	@$(MAKE) check
	@$(MAKE) check-rest

# What .ci/run does: all of check-full takes 70 minutes on two idle cores, and longer than anybody waits on busy ones.
check-today: export SHARE := $(or $(SHARE),4)
check-today:
	@$(MAKE) check
	@PLAIN=$(or $(PLAIN),1) $(MAKE) check-$(today)

$(one_group): install-deps
	@$(run_check) $(@:check-%=%)

questions:
	@$(srcdir)/test/static/questions.pl --table $(srcdir)

house:
	@$(srcdir)/test/static/house.pl $(srcdir)

check-differential: install-deps
	@$(srcdir)/test/differential/run.sh

check-history: install-deps
	@$(srcdir)/test/history/run.sh

check-faults: install-deps
	@$(srcdir)/test/faults/run.sh

check-refuse: install-deps
	@$(srcdir)/test/refuse/run.sh

indent: install-deps
	@$(srcdir)/test/static/indent.pl $(srcdir)

demo:
	@$(srcdir)/test/install_deps.sh --build
	@$(srcdir)/bench/demo/demo.sh

demo-stop:
	@$(srcdir)/bench/demo/demo.sh stop

bench-scan: install-deps
	@$(srcdir)/bench/scan/run.sh

bench-fdw: install-deps
	@$(srcdir)/bench/fdw/run.sh

bench-join: install-deps
	@$(srcdir)/bench/join/run.sh

bench-scaling: install-deps
	@$(srcdir)/bench/join/scaling.sh

bench-columns: install-deps
	@$(srcdir)/bench/columns/run.sh

bench-star: install-deps
	@$(srcdir)/bench/star/run.sh

bench-keys: install-deps
	@$(srcdir)/bench/keys/run.sh

bench-planning: install-deps
	@$(srcdir)/bench/planning/run.sh

bench-many: install-deps
	@$(srcdir)/bench/many/run.sh

bench-moves: install-deps
	@$(srcdir)/bench/moves/run.sh

bench-commit: install-deps
	@$(srcdir)/bench/commit/run.sh

bench-engine: install-deps
	@$(srcdir)/bench/engine/run.sh

bench-engine-nodes: install-deps
	@OVER=nodes $(srcdir)/bench/engine/run.sh

bench-engine-verbs: install-deps
	@OVER=verbs $(srcdir)/bench/engine/run.sh

bench-region: install-deps
	@$(srcdir)/bench/region/run.sh

bench-region-verbs: install-deps
	@OVER=verbs $(srcdir)/bench/region/run.sh
