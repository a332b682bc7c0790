# `make run` and `make test` set up everything they need in a virtual environment.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Small networks and arrays run many times slower on more threads than one.
export OMP_NUM_THREADS := 1

.PHONY: run results pages tour pictures outputs test lint types unit quick notebooks bench bench-masked masked masked-curves soak memory mutants peers versions format clean

# Five of the study's thirty seeds. Nothing outside the ignored folder `results`
# changes, and runs that are in it already are not repeated.
AGENTS := --availability 0.8 --algorithm SASPG --algorithm SASNPG --algorithm SASQ
PART := ours $(AGENTS) --seeds 5

run: $(VENV)/installed
	$(BIN)/sas-study run $(PART)
	$(BIN)/sas-study table $(PART) --csv results/ours.csv.gz
	$(BIN)/sas-study plot $(PART) --figure learning_curves --output results/figures
	@echo "Written: results/*.json (runs), results/ours.csv.gz (evaluations)," \
		"results/figures (learning curves)"

# All thirty seeds, into the results in the repository: about half an hour of one core.
COMMITTED := examples/paper/results/ours.csv.gz

results: $(VENV)/installed
	$(BIN)/sas-study run ours $(AGENTS)
	$(BIN)/sas-study table ours --folder results --folder $(COMMITTED) --csv $(COMMITTED)
	$(MAKE) pages

# The tables of docs/results.md and of examples/paper/README.md and the README's figure,
# from the results in the repository: nothing is trained.
pages: $(VENV)/installed
	$(BIN)/python examples/paper/tables.py
	$(BIN)/python -m examples.paper.results_page
	$(BIN)/sas-study plot ours $(AGENTS) --folder $(COMMITTED) \
		--figure learning_curves --output examples/pictures

tour: $(VENV)/installed
	$(BIN)/python examples/tour.py

# The pictures of the environments that are in the repository.
pictures: $(VENV)/installed
	$(BIN)/python examples/tour.py --output examples/pictures

# The outputs that are stored in the notebooks.
outputs: $(VENV)/installed
	$(BIN)/python examples/store_outputs.py

# Everything that CI checks, the fast checks first.
test: lint types unit notebooks

lint: $(VENV)/installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	! grep -rnE '\.(binomial|multinomial)\(' sas_gym  # their draws changed in NumPy 2.5

types: $(VENV)/installed
	$(BIN)/mypy

# One process runs all tests of a file, which may share something costly; files with few
# tests are not left to the end.
PARALLEL := -n 2 --dist loadfile --no-loadscope-reorder

unit: $(VENV)/installed
	$(BIN)/pytest $(PARALLEL) --cov

# All tests but the slow ones: about a minute.
quick: $(VENV)/installed
	$(BIN)/pytest $(PARALLEL) -m "not slow"

notebooks: $(VENV)/installed
	SAS_EXAMPLES_SIZE=small $(BIN)/pytest --nbmake -n 2 examples

bench: $(VENV)/installed
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/environments.py
	$(BIN)/python benchmarks/agents.py
	$(BIN)/python benchmarks/masked_algorithms.py speed
	$(BIN)/python benchmarks/large_action_sets.py
	$(BIN)/python benchmarks/planning.py
	$(BIN)/python benchmarks/growth.py

# What the masked algorithms reach over seeds, and what they never do: an hour.
bench-masked: $(VENV)/installed
	$(BIN)/python benchmarks/masked_algorithms.py quality
	$(BIN)/python benchmarks/masked_algorithms.py soak --steps 100000
	$(BIN)/python benchmarks/large_action_sets.py learn
	$(BIN)/python benchmarks/memory_worth.py
	$(BIN)/python benchmarks/lasting_outages.py ferries
	$(BIN)/python benchmarks/lasting_outages.py map
	$(BIN)/python benchmarks/lasting_outages.py closures

# Agents for masked actions on problems with hand-written rules, ten seeds: many hours.
# MASKED="--seeds 1000-1002 --problems towing" for a part; see the top of the program.
masked: $(VENV)/installed
	$(BIN)/python benchmarks/masked.py $(MASKED)

# Learning curves on nine problems, ours and others': about an hour.
masked-curves: $(VENV)/installed
	$(BIN)/python benchmarks/masked_benchmark.py $(MASKED)

# Hours by default: SOAK="--steps 100000 --training-steps 2000 --settings 3" for minutes.
soak: $(VENV)/installed
	$(BIN)/python benchmarks/soak.py $(SOAK)

# The memory of 2 million steps of each agent, about ten minutes.
memory: $(VENV)/installed
	$(BIN)/python benchmarks/memory.py $(MEMORY)

# Small faults that no test notices; MUTANTS="sas_gym/masks.py --sample 20" for a part.
mutants: $(VENV)/installed
	$(BIN)/python benchmarks/mutants.py $(MUTANTS)

# What other libraries answer to the questions of tests/sas_agents/base/test_known_answers.py.
peers: $(VENV)/installed
	$(BIN)/python benchmarks/peers.py

# The suite with the lowest and the newest supported versions, in new environments;
# VERSIONS="-s lowest" for a part.
versions: $(VENV)/installed
	$(BIN)/nox $(VERSIONS)

format: $(VENV)/installed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) .nox build dist .coverage .pytest_cache .mypy_cache .ruff_cache .hypothesis

# torch is pinned before the rest: a range alone would take the newest build.
$(VENV)/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet torch==2.13.0
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	touch $@
