.POSIX:

# Needs Go and make. Modules are downloaded by the go command when they are wanted.

GO = go
TIMEOUT = 10m
FUZZTIME = 10s
BENCH = .
ARGS =
LINT = github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  %-9s %s\n", $$1, $$2 }' Makefile

test: ## format check, vet and all tests under the race detector
	@unformatted=$$("$$($(GO) env GOROOT)/bin/gofmt" -l .) || exit 1; \
	if [ -n "$$unformatted" ]; then echo "gofmt would change:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	@race=-race; set -- $$($(GO) env CC); \
	if [ "$$($(GO) env CGO_ENABLED)" != 1 ] || ! command -v "$$1" >/dev/null; then \
		echo "no C compiler here, so no race detector" >&2; race=; fi; \
	echo "$(GO) test $$race -timeout $(TIMEOUT) ./..."; \
	$(GO) test $$race -timeout $(TIMEOUT) ./...

race: ## all tests once more, uncached and in random order
	$(GO) test -race -count=1 -shuffle=on -timeout $(TIMEOUT) ./...

tidy: ## the rules of the repository only
	$(GO) test ./internal/tidy

rules: ## write the tests of the built rules into docs/rules.md
	$(GO) test ./internal/tidy -run TestRulesPage -count=1 -args -update

lint: ## golangci-lint with .golangci.yml
	$(GO) run $(LINT) run ./...

fuzz: ## fuzz each target for FUZZTIME
	@list=$$($(GO) test -list '^Fuzz' ./...) || { echo "$$list"; exit 1; }; \
	echo "$$list" | awk '/^Fuzz/ { name[++n] = $$1 } /^ok/ { for (i = 1; i <= n; i++) print $$2, name[i]; n = 0 }' | \
	while read -r package name; do \
		echo "$$name in $$package"; \
		$(GO) test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) "$$package" </dev/null || exit 1; \
	done

bench: ## claim cycles over HTTP against a node of its own; ARGS are its flags
	$(GO) run ./bench/http $(ARGS)

micro: ## micro benchmarks matching BENCH, with allocations
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem -timeout 60m ./...

cover: ## coverage of all packages, in total and in coverage.out
	$(GO) test -coverpkg=./... -coverprofile=coverage.out -timeout $(TIMEOUT) ./...
	@$(GO) tool cover -func=coverage.out | tail -n 1

torture: ## the long tests: kill loops, crash images, large models
	$(GO) test -race -tags torture -count=1 -timeout 120m ./...

demo: ## a short demonstration on this machine
	$(GO) run ./cmd/pyrula-node demo $(ARGS)

build: ## the static binary in bin/
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/ ./cmd/...

.PHONY: help test race tidy rules lint fuzz bench micro cover torture demo build
