"""Random sequences of requests, faults and time against one lane: real turns and looks, a chain in memory.

    python -m tests.transactions.sequences 10000

runs as many, prints how many steps they had, and each violation with its seed; `--seed 7` runs one. The checks:

- every change in the timeline is a transition of the table, and they follow each other;
- no request is executed twice, and no two of its payloads are;
- a final status agrees with the chain;
- when the faults stop, everything becomes final;
- with `--gate`: no payload arrives at a node after its cancellation, replacement or expiry was recorded.

With `--rights`, two tokens and two members of staff, with random scopes, relayers, rules and roles, use REST and the
admin (`rights.py`): nothing is paid beyond the rules of who requested it or by an account that it may not use, and
nobody changes what the right is missing for.
"""
