# SPDX-License-Identifier: BSD-3-Clause
# Builds the simulation of a source tree, which is the working directory: `make -f
# tests/simulation/simulation.mk BUILD=DIRECTORY CONFIG=config.h`. It is no part of the other build,
# since all of the product is compiled in its own way:
#
# * gcc calls the scheduler in each basic block (-fsanitize-coverage=trace-pc);
# * all objects become one, in which the calls of the C library are renamed to those of the
#   simulated world, and the static variables get sections of their own, so that a new life of the
#   server can begin with new ones, and so do its destructors, which run when a life ends well;
# * a call that the world does not simulate, and that pure-calls does not list, is an error here.

here = tests/simulation
CC = gcc

# ccache makes paths relative. The targets in the .d files must be the names that make knows.
override BUILD := $(shell realpath -m --relative-to=. $(BUILD))

product_sources = $(filter-out %/call_filter.c %/call_lists.c server/http/http.c %/http_library.c, \
	$(wildcard common/*.c control/*.c nbd/*.c nbd/tls/unavailable.c engine/*.c engine/*/*.c \
		engine/backing/*/*.c server/*/*.c))
world_sources = $(wildcard $(here)/*.c)
product_objects = $(patsubst %.c,$(BUILD)/%.o,$(product_sources))
world_objects = $(patsubst %.c,$(BUILD)/%.o,$(world_sources))

flags = -std=gnu11 -g -I. -D_GNU_SOURCE -include $(CONFIG) -fno-pie -MMD -MP
product_flags = $(flags) -O1 -w -I$(dir $(CONFIG)) -I$(dir $(CONFIG))server -DMODULE_DIRECTORY='"/none"' -DEXAMPLE_CONFIGURATION='"/none"' -fsanitize-coverage=trace-pc \
	$(PRODUCT_FLAGS)
world_flags = $(flags) -O2 -Wall -Wextra -fno-strict-aliasing

$(BUILD)/simulation: $(BUILD)/product.o $(BUILD)/absent.o $(world_objects)
	$(CC) -no-pie -o $@ $^ $(LINK_FLAGS)

# Calls that no run may reach fail with their name.
$(BUILD)/absent.inc: $(here)/absent-calls
	@mkdir -p $(@D)
	sed 's/.*/void call_absent(const char *);void world_&(void){call_absent("&");}/' $< >$@
$(BUILD)/absent.o: $(BUILD)/absent.inc
	$(CC) -x c -fno-pie -c -o $@ $<

$(BUILD)/renamed: $(world_objects) $(BUILD)/absent.o
	nm --defined-only $^ | sed -n 's/.* [A-Z] world_\(.*\)/\1 world_\1/p' >$@
	echo main nbdloopd_main >>$@

$(BUILD)/product.o: $(product_objects) $(BUILD)/renamed $(here)/pure-calls
	ld -r -o $@.new $(product_objects)
	objcopy --redefine-syms=$(BUILD)/renamed --rename-section .data=product_data \
		--rename-section .data.rel.local=product_data \
		--rename-section .bss=product_bss --rename-section .fini_array=product_ends $@.new
	@escaped=$$(nm -u $@.new | sed 's/^ *U //' | \
		grep -vxF -f $(here)/pure-calls | grep -v '^world_\|^__sanitizer_cov_trace_pc$$\|^_GLOBAL'); \
	if [ "$$escaped" ]; then \
		echo "calls that the simulated world does not know:" $$escaped >&2; exit 1; \
	fi
	mv $@.new $@

$(product_objects): $(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(product_flags) -c -o $@ $<

$(world_objects): $(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(world_flags) -c -o $@ $<

-include $(product_objects:.o=.d) $(world_objects:.o=.d)
