SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X main.version=$(VERSION)
GUEST   := internal/app/embedded/pandastack-guest
BIN     := bin/pandastack

.PHONY: build demo test check bench clean setup guest generate soak fuzz chaos

build: guest ## the one binary, and the Python wheel
	@mkdir -p bin
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN) ./cmd/pandastack
	@scripts/wheel.sh

guest:
	@# Without version and commit in it: templates are baked again whenever the agent's bytes change.
	CGO_ENABLED=0 GOOS=linux GOARCH=amd64 go build -trimpath -buildvcs=false -ldflags '-s -w -buildid=' -o $(GUEST) ./cmd/pandastack-guest

setup:
	@scripts/setup.sh

demo: ## from a fresh machine to the README's cells answered in a microVM
	@scripts/demo.sh

test: ## installs what the tests need and runs all of them
	@scripts/test.sh

check: ## what must hold before a commit
	@scripts/check.sh

bench: ## prints NAME VALUE UNIT lines and writes bench/results.json; ONLY=regexp runs a part
	@scripts/bench.sh '$(ONLY)'

fuzz: ## every fuzz target for SECONDS each
	@scripts/fuzz.sh $(or $(SECONDS),10)

soak: build ## 8 clients create, use and delete sandboxes for SECONDS (300)
	@scripts/python-env.sh build/demo sdk/python/pyproject.toml -- -e sdk/python
	@scripts/with-server.sh build/demo/bin/python test/soak/soak.py $(or $(SECONDS),300)

chaos: build ## N random operations and N random kills (1000), and a kill at every failpoint; SEED repeats a run
	@PANDASTACK_TEST_DATA=$${PANDASTACK_TEST_DATA:-/var/lib/pandastack} PANDASTACK_CHAOS_N=$(or $(N),1000) PANDASTACK_CHAOS_SEED=$(SEED) \
		go test -count=1 -v -tags vm -timeout 24h ./test/chaos

generate: ## files made from others: OpenAPI, error codes, the sync half of the SDK
	go generate ./...
	python3 sdk/python/generate_sync.py

clean:
	rm -rf bin build $(GUEST)
