"""Search: exact, both tasks in one pass; ranks of the positives; runs in and out of other tools' formats."""
