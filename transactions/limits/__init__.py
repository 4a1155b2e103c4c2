"""Spending limits of transactions: what each has reserved, checked and counted by the database.

Accepting reserves value and token amounts (`counters.py`), the commit of a nonce reserves gas and checks everything
again (`budgets.py`), and a final status releases what was not spent (`status_changes.py`). The rules themselves are in
`spending/rules.py`.
"""
