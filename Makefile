# pg_vacuum_resume: the extension and its command-line tool.
#
#   make                    build both against the server of PG_CONFIG
#   make install            install both into that server
#   make installcheck       run t/*.pl on throw-away servers of that installation
#   make server-regress     the server's own regression suite through our pass
#
# tools/test and tools/demo do all of this on a private copy of the server.

EXTENSION = pg_vacuum_resume
MODULE_big = pg_vacuum_resume
DATA = sql/pg_vacuum_resume--0.1.sql

PG_CONFIG ?= pg_config
PG_MAJOR := $(shell $(PG_CONFIG) --version | sed -E 's/^[^0-9]*([0-9]+).*/\1/')

# The only file that depends on the server's major version is page_<major>.c.
OBJS = src/module.o src/settings.o src/attach.o src/command.o src/run.o src/plan.o src/estimate.o src/decide.o src/facts.o \
	src/scan.o src/vm.o src/dead_tids.o src/indexes.o src/reap.o src/truncate.o src/report.o \
	src/functions.o src/explain.o src/cycle.o src/take_up.o src/promise.o src/save.o src/record.o \
	src/store.o src/instance.o src/datafile.o src/soundness.o src/drop.o \
	src/history.o src/history_row.o src/page_$(PG_MAJOR).o

TOOL = tools/inspect/pg_vacuum_resume
UNIT_TESTS = $(patsubst %.c,%,$(wildcard $(srcdir)/t/unit/*.c))
EXTRA_CLEAN = $(TOOL) $(UNIT_TESTS) tmp_check

# the assertions of pure code are for its unit tests
PG_CPPFLAGS = -I$(srcdir)/include -DNDEBUG
SHLIB_LINK = -llmdb
PG_CFLAGS = -std=gnu99 -D_GNU_SOURCE -fvisibility=hidden -Wall -Wextra -Wno-unused-parameter -Wno-sign-compare \
	-Wno-missing-field-initializers -Wno-clobbered

TAP_TESTS = 1

PGXS := $(shell $(PG_CONFIG) --pgxs)
include $(PGXS)

# after the server's own, which sets it anew
override PROVE_FLAGS += -I $(srcdir)/t/lib

$(OBJS): $(wildcard $(srcdir)/include/*.h)

all: $(TOOL) $(UNIT_TESTS)

# the record format is shared with the extension
$(TOOL): $(wildcard $(srcdir)/tools/inspect/*.c $(srcdir)/tools/inspect/*.h $(srcdir)/include/*.h) \
		$(srcdir)/src/record.c $(srcdir)/src/history.c $(srcdir)/src/soundness.c \
		$(srcdir)/src/decide.c $(srcdir)/src/facts.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(PG_CPPFLAGS) -DFRONTEND -I$(srcdir)/tools/inspect -I$(libpq_srcdir) \
		-I$(shell $(PG_CONFIG) --includedir-server) $(LDFLAGS) -o $@ $(filter %.c,$^) \
		-L$(shell $(PG_CONFIG) --pkglibdir) -L$(libdir) -lpgcommon -lpgport -lpq -llmdb -ljansson -lm

# with assertions, and without the server's headers
$(srcdir)/t/unit/dead_tids: $(srcdir)/t/unit/dead_tids.c $(srcdir)/t/unit/tap.h $(srcdir)/src/dead_tids.c $(srcdir)/include/dead_tids.h
	$(CC) -g -O1 -Wall -Wextra -std=c99 -D_DEFAULT_SOURCE -I$(srcdir)/include -o $@ $(filter %.c,$^)

$(srcdir)/t/unit/decide: $(srcdir)/t/unit/decide.c $(srcdir)/t/unit/tap.h $(srcdir)/src/decide.c $(srcdir)/include/decide.h
	$(CC) -g -O1 -Wall -Wextra -std=c99 -D_DEFAULT_SOURCE -I$(srcdir)/include -o $@ $(filter %.c,$^) -lm

$(srcdir)/t/unit/history: $(srcdir)/t/unit/history.c $(srcdir)/t/unit/tap.h $(srcdir)/src/history.c $(srcdir)/include/history.h $(srcdir)/include/record.h
	$(CC) -g -O1 -Wall -Wextra -std=c99 -D_DEFAULT_SOURCE -I$(srcdir)/include -o $@ $(filter %.c,$^)

install: install-tool

install-tool: $(TOOL)
	$(MKDIR_P) '$(DESTDIR)$(bindir)'
	$(INSTALL_PROGRAM) $(TOOL) '$(DESTDIR)$(bindir)/pg_vacuum_resume'

uninstall: uninstall-tool

uninstall-tool:
	rm -f '$(DESTDIR)$(bindir)/pg_vacuum_resume'

server-regress:
	$(SHELL) $(srcdir)/tools/server-regress

.PHONY: install-tool uninstall-tool server-regress
