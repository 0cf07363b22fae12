# The front door. Everything below it is meson (build/), and the scripts of tools/.

NAME    := mcp-sandbox-computer-vm-for-ai
ALIASES := mcp-sandbox-computer kilntainers
BUILD   := build
BINARY  := $(BUILD)/src/$(NAME)
PREFIX  ?= /usr/local
FUZZ_SECONDS ?= 60

bindir := $(DESTDIR)$(PREFIX)/bin
mandir := $(DESTDIR)$(PREFIX)/share/man/man1
docdir := $(DESTDIR)$(PREFIX)/share/doc/$(NAME)

.PHONY: help build build-all demo wasm test test-vm test-kill bench check-style fuzz install clean
.DEFAULT_GOAL := help

help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: $(BUILD)/build.ninja ## The binary, build/mcp-sandbox-computer-vm-for-ai
	@ninja -C $(BUILD) --quiet src/$(NAME)
	@for name in $(NAME) $(ALIASES); do ln -sfn src/$(NAME) $(BUILD)/$$name; done

# Set up before cmocka was there, the build has no unit tests.
build-all: build
	@[ -d $(BUILD)/tests/unit ] || meson setup --reconfigure $(BUILD) >$(BUILD)/setup.log
	@ninja -C $(BUILD) --quiet

demo: build ## A computer for an agent, from nothing to nothing left, with times
	@ninja -C $(BUILD) --quiet tests/demo/demo
	@$(BUILD)/tests/demo/demo $(BUILD)/$(NAME)

wasm: ## What the backends wasm and go_busybox need, from PyPI into ~/.local/share, or $SANDBOX_WASM_DIR
	@folder=$$(tools/setup wasm) && echo "libwasmtime.so and busybox.wasm are in $$folder"

test: ## Every check and test; closes with one line of counts
	@tools/setup test
	@tools/run-tests

test-vm: ## Before a release: the native suites in emulated machines with systemd, as root and as a user
	@tools/setup test
	@tools/setup vm
	@$(MAKE) --no-print-directory build-all
	@tests/vm/run

test-kill: ## Everything killed at every point, and 500 times at random; closes with the table of what came of it
	@tools/setup test
	@tools/build faults
	@rm -f $(BUILD)/kill-table.txt
	@KILL_ALL=1 KILL_ROUNDS=500 KILL_TABLE=$(CURDIR)/$(BUILD)/kill-table.txt tools/run-tests kill; status=$$?; \
	cat $(BUILD)/kill-table.txt; exit $$status

conformance: build-all ## The official conformance suite, against the fixture server and the product
	@tools/setup test
	@tools/run-tests --no-leak-check conformance

bench: build ## The table of speed and memory
	@tools/setup bench
	@tools/setup engines || true # without them the table says so
	@ninja -C $(BUILD) --quiet tests/bench/bench tests/fakes/room
	@$(BUILD)/tests/bench/bench $(BUILD)/$(NAME)

check-style: ## Layers, layout, size limits, spelling, words that may not stay
	@tools/setup test
	@tools/check-layers
	@tools/check-style

fuzz: ## Each fuzz target for FUZZ_SECONDS (60)
	@tools/setup test
	@tools/run-fuzz $(FUZZ_SECONDS)

install: build ## Into $(DESTDIR)$(PREFIX): the binary, its two other names, documentation
	install -D -m 0755 $(BINARY) $(bindir)/$(NAME)
	for name in $(ALIASES); do ln -sfn $(NAME) $(bindir)/$$name; done
	install -d $(docdir) && install -m 0644 README.md SECURITY.md CHANGELOG.md LICENSE $(docdir)
	@ninja -C $(BUILD) --quiet docs/$(NAME).1 >/dev/null 2>&1 || echo "without the manual page, which needs scdoc" >&2
	for page in $(BUILD)/docs/*.1; do [ ! -e $$page ] || install -D -m 0644 -t $(mandir) $$page; done

clean: ## Removes what was built and what the tests brought in
	rm -rf $(BUILD) tests/node_modules

# What the build needs is looked for once: before the folder is set up.
$(BUILD)/build.ninja:
	@tools/setup build
	@meson setup $(BUILD) --buildtype=release > $(BUILD).log 2>&1 || { cat $(BUILD).log >&2; exit 1; }
	@mv $(BUILD).log $(BUILD)/setup.log
